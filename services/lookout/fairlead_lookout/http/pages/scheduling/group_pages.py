"""The page of a group: state, roles, members, running members over time, and events."""

from urllib.parse import quote

from fastapi import APIRouter

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.service import clock
from fairlead_lookout.http.api import group_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.http.pages.scheduling import group_charts
from fairlead_lookout.store.queries import group_history


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page and its stream."""
    sender.add_page(router, "/groups/{group}", "group.html", "jobsets", _group)


async def _group(deps: Deps, group: str) -> Fragment:
    """A group with its roles and members."""

    async def read(visible_queues: QueueScope) -> Values:
        found, history = await group_routes.find_group_history(deps, visible_queues, group)
        period = group_charts.find_period(found, clock.now_ms())
        counts = await group_history.read_running_members(
            deps.view, group, period.begin_ms, period.end_ms
        )
        return {
            "live": f"/live/groups/{quote(group, safe='')}",
            "group": found,
            "charts": group_charts.draw_charts(found, period, counts, history),
            "events": group_charts.list_steps(history),
        }

    return Fragment("_group.html", (group,), read)
