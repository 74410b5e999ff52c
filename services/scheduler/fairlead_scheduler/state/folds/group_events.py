"""The fold of the events of groups: their terms, requests about them, and decisions.

Members join and leave in `gang_membership.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from fairlead_common.domain.ids import GroupId, JobId
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.folds import gang_membership
from fairlead_scheduler.state.folds.input.messages import EndedJobs, Message
from fairlead_scheduler.state.jobs import groups, job_table
from fairlead_scheduler.state.jobs.groups import GroupPhase, GroupState
from fairlead_scheduler.state.view import View

_Decision = (
    ev.GroupRunning | ev.GroupRestarting | ev.GroupSucceeded | ev.GroupFailed | ev.GroupCancelled
)
_PHASES: Final[dict[type, GroupPhase]] = {
    ev.GroupRunning: GroupPhase.RUNNING,
    ev.GroupRestarting: GroupPhase.QUEUED,
    ev.GroupSucceeded: GroupPhase.SUCCEEDED,
    ev.GroupFailed: GroupPhase.FAILED,
    ev.GroupCancelled: GroupPhase.CANCELLED,
}


def fold_submitted(
    view: View,
    message: Message,
    batch: Sequence[ev.GroupSubmitted],
    _i: int,
    ended_jobs: EndedJobs,
) -> None:
    """Add groups whose id is not known."""
    job_set = job_table.JobSet(message.sequence.queue, message.sequence.job_set)
    for event in batch:
        job_id = JobId(event.group)
        ended = ended_jobs.get(job_id)
        if event.group in view.groups or view.state_of(job_id) is not None:
            continue
        if ended is not None and ended.at_ms <= message.time_ms:  # see `submission_events`
            continue
        view.groups[event.group] = GroupState(
            group=event.group,
            job_set=job_set,
            terms=event.terms,
            digest=event.digest,
            submitted_ms=message.time_ms,
            client_id=event.client_id,
            labels=event.labels,
        )
        view.mark_group_changed(event.group, message.position)


def fold_changed(
    view: View, message: Message, batch: Sequence[ev.GroupChanged], _i: int, _ended: EndedJobs
) -> None:
    """Replace the terms of groups; a later generation has only new members."""
    for event in batch:
        state = _live_group(view, event)
        if state is None or event.terms.generation < state.terms.generation:
            continue
        is_recreated = event.terms.generation > state.terms.generation
        state.terms = event.terms
        if is_recreated:
            groups.start_generation(state)
            state.reason = event.reason
        view.mark_group_changed(event.group, message.position)
        name = state.gang_name
        if name in view.gangs:
            view.gangs[name] = groups.gang_terms(state)
        for job_id in view.gang_members.get(name, ()):
            row = view.jobs.rows[job_id]
            if gang_membership.set_surplus_rank(view, row, state):
                view.mark_changed(row, message.position)


def fold_cancel_requested(
    view: View,
    message: Message,
    batch: Sequence[ev.GroupCancelRequested],
    _i: int,
    _ended: EndedJobs,
) -> None:
    """Note that groups are to be cancelled: housekeeping ends their members."""
    for event in batch:
        state = _live_group(view, event)
        if state is None:
            continue
        if state.cancel_reason is None:
            state.cancel_reason = event.reason or "cancelled"
            view.mark_group_changed(event.group, message.position)


def fold_restart_requested(
    view: View,
    message: Message,
    batch: Sequence[ev.GroupRestartRequested],
    _i: int,
    _ended: EndedJobs,
) -> None:
    """Note that groups are to stop and to start again."""
    for event in batch:
        state = _live_group(view, event)
        if state is not None:
            state.restart_reason = event.reason
            view.mark_group_changed(event.group, message.position)


def fold_decision(
    view: View, message: Message, batch: Sequence[_Decision], _i: int, _ended: EndedJobs
) -> None:
    """Fold the scheduler's decisions about groups; one that has ended stays as it is."""
    for event in batch:
        state = _live_group(view, event)
        if state is None:
            continue
        state.phase = _PHASES[type(event)]
        if not isinstance(event, ev.GroupRunning | ev.GroupSucceeded):
            state.reason = event.reason
        if isinstance(event, ev.GroupRestarting):
            state.restarts += event.counted
            state.restart_reason = None
        view.mark_group_changed(event.group, message.position)
        gang_membership.drop_ended_group(view, state, message)


def _live_group(view: View, event: ev.GroupEvent) -> GroupState | None:
    """The group of the event if it has not ended."""
    state = view.groups.get(event.group)
    return None if state is None or state.is_final else state


def note_scaled(view: View, row: int, message: Message) -> None:
    """Note the time at which the scheduler started or stopped a surplus member (G7)."""
    rare = view.jobs.rare_properties.get(row)
    if rare is None or rare.member is None:
        return
    state = view.groups.get(rare.member.group)
    if state is not None and state.scaled_ms != message.time_ms:
        state.scaled_ms = message.time_ms
        view.mark_group_changed(state.group, message.position)


def note_addresses(view: View, started: Iterable[tuple[int, ev.JobRunRunning]]) -> None:
    """Note where members of groups are reached, by the rows of their jobs."""
    for row, event in started:
        if event.address:
            rare = view.jobs.rare_properties.get(row)
            if rare is not None and rare.member is not None:
                rare.address, rare.address_run = event.address, event.run


def count_restart(view: View, group: GroupId, message: Message) -> None:
    """Count the restart of a member as a restart of its group."""
    state = view.groups.get(group)
    if state is not None and not state.is_final:
        state.restarts += 1
        view.mark_group_changed(group, message.position)
