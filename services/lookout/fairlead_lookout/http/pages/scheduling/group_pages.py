"""The page of a group: state, roles, members, running members over time, and events."""

from urllib.parse import quote

from fastapi import APIRouter

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.list_exports import ListExport, Rows, split_rows
from fairlead_lookout.http.lookups import group_lookup
from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values
from fairlead_lookout.http.pages.scheduling import group_charts
from fairlead_lookout.http.responses.group_responses import MemberSummary
from fairlead_lookout.store.queries import group_history


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page and its stream."""
    sender.add_page(router, "/groups/{group}", "group.html", "jobsets", _group, is_exported=True)


async def _group(deps: Deps, group: str) -> Fragment:
    """A group with its roles and members."""
    path = f"/groups/{quote(group, safe='')}"

    async def read(visible_queues: QueueScope) -> Values:
        found, history = await group_lookup.find_group_history(deps, visible_queues, group)
        period = group_charts.find_period(found, clock.now_ms())
        counts = await group_history.read_running_members(
            deps.view, group, period.begin_ms, period.end_ms
        )
        return {
            "live": f"/live{path}",
            "exports": {
                name: build_address(f"/export{path}", {"table": name})
                for name in ("members", "events")
            },
            "group": found,
            "charts": group_charts.draw_charts(found, period, counts, history),
            "events": group_charts.list_steps(history),
        }

    def list_exports(visible_queues: QueueScope) -> list[ListExport]:
        async def read_members() -> Rows:
            return (await group_lookup.find_group(deps, visible_queues, group)).members

        async def read_events() -> Rows:
            _, history = await group_lookup.find_group_history(deps, visible_queues, group)
            return group_charts.list_steps(history)

        return [
            ListExport("members", MemberSummary, split_rows(read_members)),
            ListExport("events", group_charts.Step, split_rows(read_events)),
        ]

    return Fragment("_group.html", (group,), read, list_exports=list_exports)
