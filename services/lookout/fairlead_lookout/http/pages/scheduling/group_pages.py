"""The page of a group: state, roles, members, running members over time, and events."""

from typing import Final
from urllib.parse import quote

import msgspec
from fastapi import APIRouter

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.service import clock
from fairlead_lookout.domain.public_events import PublicEvent
from fairlead_lookout.http.api import group_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.http.pages.scheduling import group_charts
from fairlead_lookout.store.queries import group_history

_decode_event: Final = msgspec.json.Decoder(PublicEvent).decode


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page and its stream."""
    sender.add_page(router, "/groups/{group}", "group.html", "jobsets", _group)


async def _group(deps: Deps, group: str) -> Fragment:
    """A group with its roles and members."""

    async def read(visible_queues: QueueScope) -> Values:
        found = await group_routes.find_group(deps, visible_queues, group)
        period = group_charts.find_period(found, clock.now_ms())
        events = await group_history.read_newest_events(deps.view, group, group_charts.EVENTS_MAX)
        counts = await group_history.read_running_members(
            deps.view, group, period.begin_ms, period.end_ms
        )
        return {
            "live": f"/live/groups/{quote(group, safe='')}",
            "group": found,
            "charts": group_charts.draw_charts(found, period, counts, events),
            "events": [_decode_event(row["line"]) for row in events],
        }

    return Fragment("_group.html", (group,), read)
