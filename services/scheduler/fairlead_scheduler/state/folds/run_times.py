"""The fold of how long runs took, which queues with `order: fair` count (rule G9).

The time of a run is from its lease to its end, as for lost work (R9). A run that its executor
returned never ran and does not count.
"""

from collections.abc import Iterable, Mapping

from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.view import View

RunEnd = ev.JobRunSucceeded | ev.JobRunFailed | ev.JobRunReturned | ev.JobRunStopped | ev.JobRunLost


def count_ended_run(view: View, row: int, event: RunEnd, time_ms: int, position: int) -> None:
    """Count the newest run of a job as a former one of the job, or of the group that it is in."""
    if isinstance(event, ev.JobRunReturned):
        return
    if isinstance(event, ev.JobRunSucceeded):
        count_member_successes(view, (row,), time_ms, position)
        return
    jobs = view.jobs
    rare = jobs.rare_properties_of(row)
    if rare.member is not None:
        _count_member(view, row, rare.member, time_ms, position)
        return
    rare.ran_ms += max(0, time_ms - jobs.leased_ms.item(row))
    rare.ran_until_ms = max(rare.ran_until_ms, time_ms)


def count_member_successes(view: View, rows: Iterable[int], time_ms: int, position: int) -> None:
    """Count the runs of these jobs, which succeeded, for the groups that they are in. A job of no
    group does not run again."""
    if not view.groups:
        return
    for row in rows:
        rare = view.jobs.rare_properties.get(row)
        if rare is not None and rare.member is not None:
            _count_member(view, row, rare.member, time_ms, position)


def _count_member(
    view: View, row: int, member: ev.GroupMember, time_ms: int, position: int
) -> None:
    state, jobs = view.groups.get(member.group), view.jobs
    if state is None:
        return
    ran_ms = max(0, time_ms - jobs.leased_ms.item(row))
    _add_use(state.used, jobs.shape_of(jobs.shape.item(row)).requests, ran_ms)
    state.ran_until_ms = max(state.ran_until_ms, time_ms)
    view.mark_group_changed(state.group, position)


def _add_use(used: dict[str, int], requests: Mapping[str, int], ran_ms: int) -> None:
    for resource, amount in requests.items():
        used[resource] = used.get(resource, 0) + amount * ran_ms
