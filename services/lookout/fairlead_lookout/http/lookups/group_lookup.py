"""A group that a request names, with its members and its history."""

from typing import Any

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.responses import group_responses
from fairlead_lookout.http.responses.waiting_reasons import Circumstances, explain_waiting_group
from fairlead_lookout.store.queries import group_history, group_lists
from fairlead_lookout.store.queries.group_history import GroupHistory


async def find_group_row(deps: Deps, visible_queues: QueueScope, group: str) -> Any:
    """The row of a group. Raises a 404 `Problem`, also if its queue is not visible to the caller.

    `Any`: a row of the database.
    """
    row = await group_lists.read_group(deps.view, group)
    if row is None or row["queue"] not in visible_queues:
        raise Problem("not-found", f"Group {group!r} does not exist.")
    return row


async def find_group(
    deps: Deps, visible_queues: QueueScope, group: str
) -> group_responses.GroupDetail:
    """The group. Raises as `find_group_row`."""
    found, _ = await find_group_history(deps, visible_queues, group)
    return found


async def find_group_history(
    deps: Deps, visible_queues: QueueScope, group: str
) -> tuple[group_responses.GroupDetail, GroupHistory]:
    """The group, and what happened to it. Raises as `find_group_row`."""
    row = await find_group_row(deps, visible_queues, group)
    members = await group_lists.read_members(deps.view, group)
    history = await group_history.read_history(deps.view, group)
    stopped = deps.quarantine.find_stopped_partitions()
    circumstances = Circumstances(deps.reports, deps.clusters, stopped, clock.now_ms())
    why = explain_waiting_group(row, members.rows, circumstances)
    find_hops = deps.reports.find_hops
    found = group_responses.describe_group_detail(row, members, history, why, find_hops)
    return found, history
