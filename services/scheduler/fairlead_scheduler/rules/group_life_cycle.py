"""The life cycle of groups (rules C): what ends, starts again or stops when a member ends. Pure.

Like all of housekeeping this is level-triggered: a decision follows from the view alone, whichever
leader folded the events that led to it. A group stays in `groups_to_examine` until
nothing about it is left to decide.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, JobId, partition_of_job, run_id
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory, MemberFailure, PreemptionCause
from fairlead_scheduler.rules import lease_changes
from fairlead_scheduler.rules.append_batches import AppendBatch
from fairlead_scheduler.rules.lease_changes import LeaseChange, Leases
from fairlead_scheduler.rules.run_ends import End, is_wanted_run
from fairlead_scheduler.state.jobs import groups, job_table
from fairlead_scheduler.state.jobs.groups import GroupPhase, GroupState
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

COMPLETED: Final = "stopped: the group has completed"
NOT_COUNTED: Final = frozenset(
    {FailureCategory.NODE_LOST, FailureCategory.POD_DELETED, FailureCategory.EVICTED}
)
"""Failures that the member did not cause: a restart after them does not count."""
STOPS_PER_BATCH: Final = 100

MemberEnd = End | ev.JobSucceeded


class SettledEnd(msgspec.Struct, frozen=True):
    """What the end of a member's run means: events in order, and leases of members to stop."""

    facts: list[ev.AnyEvent]
    leases: list[LeaseChange]


class GroupEnds:
    """Decides what ends of runs mean for the groups of their jobs, in one cycle.

    `decided`: groups about which this cycle has decided something already.
    """

    def __init__(self, view: View, live_leases: Leases) -> None:
        self.decided: set[GroupId] = set()
        self._view = view
        self._live_leases = live_leases
        self._restarts: dict[GroupId, int] = {}
        self._running: dict[GroupId, dict[str, int]] = {}

    def settle(self, row: int, end: End) -> SettledEnd:
        """The decision about a job whose run ended; `end`: the decision for it as a single job."""
        rare = self._view.jobs.rare_properties.get(row)
        member = None if rare is None else rare.member
        state = None if member is None else self._view.groups.get(member.group)
        if member is None or state is None or isinstance(end, ev.JobCancelled | ev.JobPreempted):
            return SettledEnd([end], [])
        final = end_with_group(state, member, end.job_id)
        if final is not None:
            return SettledEnd([final], [])
        if isinstance(end, ev.JobFailed):
            return self._settle_failure(state, member, end)
        if state.group in self.decided or self._has_minima(state):
            return SettledEnd([end], [])
        return self._restart(state, f"member {_name(member)}: {end.reason}", end, counted=False)

    def _settle_failure(
        self, state: GroupState, member: ev.GroupMember, end: ev.JobFailed
    ) -> SettledEnd:
        """C2 and C3: a member failed for good by its own retry policy."""
        terms, counted = state.terms, end.category not in NOT_COUNTED
        is_needed = groups.is_needed(terms, member)
        reason = f"member {_name(member)} failed ({end.category.value}): {end.reason}"
        if state.group in self.decided:
            again = ev.JobRequeued(job_id=end.job_id, reason=f"its group stops: {end.reason}")
            return SettledEnd([again], [])
        if terms.on_member_failure is MemberFailure.FAIL and is_needed:
            return self._fail(state, reason, end)
        used = self._restarts.get(state.group, state.restarts)
        if counted and used >= terms.restart_limit:
            if not is_needed:
                return SettledEnd([end], [])
            return self._fail(state, f"{reason}; all {used} restarts are used up", end)
        self._restarts[state.group] = used + counted
        which = (
            f"restart {used + 1} of {terms.restart_limit} of its group after " if counted else ""
        )
        again = ev.JobRequeued(
            job_id=end.job_id,
            reason=f"{which}{end.category.value}: {end.reason}",
            restarts_of=state.group if counted else None,
        )
        restarts_all = is_needed and terms.on_member_failure is MemberFailure.RESTART_GROUP
        if not restarts_all and self._has_minima(state):
            return SettledEnd([again], [])
        alone = msgspec.structs.replace(again, restarts_of=None)
        return self._restart(state, reason, alone, counted=counted)

    def _fail(self, state: GroupState, reason: str, end: ev.JobFailed) -> SettledEnd:
        self.decided.add(state.group)
        return SettledEnd([ev.GroupFailed(group=state.group, reason=reason), end], [])

    def _restart(
        self, state: GroupState, reason: str, end: ev.JobRequeued, *, counted: bool
    ) -> SettledEnd:
        """Queue the whole group again, unless nothing of it is left to stop and it waits anyway."""
        stops, leases = stop_members(
            self._view, self._live_leases, list_wanted(self._view, state), reason
        )
        if state.phase is GroupPhase.QUEUED and not stops and not counted:
            return SettledEnd([end], [])
        self.decided.add(state.group)
        restarting = ev.GroupRestarting(group=state.group, reason=reason, counted=counted)
        return SettledEnd([restarting, end, *stops], leases)

    def _has_minima(self, state: GroupState) -> bool:
        """Whether each role has its minimum of runs that go on."""
        running = self._running.get(state.group)
        if running is None:
            running = _count_by_role(self._view, list_wanted(self._view, state))
            self._running[state.group] = running
        return _has_minima(state, running)


def end_with_group(state: GroupState, member: ev.GroupMember, job_id: JobId) -> MemberEnd | None:
    """How a member ends that its group no longer needs; None if the group needs it."""
    if state.phase is GroupPhase.SUCCEEDED:
        return ev.JobSucceeded(job_id=job_id, reason=COMPLETED)
    if state.phase is GroupPhase.FAILED:
        return ev.JobCancelled(job_id=job_id, reason=f"its group failed: {state.reason}")
    if state.phase is GroupPhase.CANCELLED or state.cancel_reason is not None:
        return ev.JobCancelled(
            job_id=job_id, reason=f"its group is cancelled: {state.cancel_reason or state.reason}"
        )
    if groups.is_outdated(state, member):
        reason = f"its group was re-created with other members: {state.reason}"
        return ev.JobCancelled(job_id=job_id, reason=reason)
    role = groups.find_role(state.terms, member.role)
    if role is None or member.index >= role.max:
        most = 0 if role is None else role.max
        reason = f"its group was scaled down to {most} members of role {member.role}"
        return ev.JobCancelled(job_id=job_id, reason=reason)
    return None


def decide_groups(
    view: View, live_leases: Leases, queues: Queues, ends: GroupEnds, excluded: set[int]
) -> Iterator[AppendBatch]:
    """Decide the state of groups, and end or stop members that they no longer need.

    Adds to `excluded` the rows that rounds must leave alone until the decisions are folded.
    """
    for group in sorted(view.groups_to_examine):
        state = view.groups.get(group)
        if state is None:
            view.groups_to_examine.discard(group)
            view.short_groups.pop(group, None)
            continue
        rows = [view.jobs.rows[each] for each in sorted(view.gang_members.get(state.gang_name, ()))]
        if group in ends.decided or partition_of_job(group) in view.stopped:
            excluded.update(rows)
            continue
        batches = list(_end_members(view, live_leases, state, rows, excluded))
        if any(groups.is_outdated(state, _member(view, row)) for row in rows):
            excluded.update(rows)  # members start after those of earlier generations have ended
        decision = None if state.is_final else _decide_group(view, state, rows)
        if decision is None:
            decision = _restart_if_short(view, queues, state, rows)
        if decision is not None:
            restart = decision if isinstance(decision, ev.GroupRestarting) else None
            stops, leases = stop_members(
                view,
                live_leases,
                [] if restart is None else list_wanted(view, state),
                "" if restart is None else restart.reason,
            )
            facts = tuple((state.job_set, fact) for fact in (decision, *stops))
            batches.append(AppendBatch(facts, tuple(leases)))
            excluded.update(rows)
        is_short = group in view.short_groups
        if not batches and not is_short and not _is_stopping(state, rows):
            view.groups_to_examine.discard(group)
        yield from batches


def _is_stopping(state: GroupState, rows: Sequence[int]) -> bool:
    """Whether the group ends and a member of it has not yet."""
    return bool(rows) and (state.is_final or state.cancel_reason is not None)


def _end_members(
    view: View,
    live_leases: Leases,
    state: GroupState,
    rows: Sequence[int],
    excluded: set[int],
) -> Iterator[AppendBatch]:
    """End queued members that the group no longer needs, and stop running ones."""
    jobs = view.jobs
    ended: list[ev.AnyEvent] = []
    to_stop: list[tuple[int, str]] = []
    for row in rows:
        final = end_with_group(state, _member(view, row), jobs.rows.id_at(row))
        if final is None:
            continue
        excluded.add(row)
        if jobs.state[row] == job_table.QUEUED:
            ended.append(final)
        elif is_wanted_run(view, row):
            to_stop.append((row, final.reason))
    for at in range(0, len(ended), STOPS_PER_BATCH):
        part = ended[at : at + STOPS_PER_BATCH]
        yield AppendBatch(tuple((state.job_set, event) for event in part))
    for at in range(0, len(to_stop), STOPS_PER_BATCH):
        stops, leases = list[ev.AnyEvent](), list[LeaseChange]()
        for row, reason in to_stop[at : at + STOPS_PER_BATCH]:
            facts, changes = stop_members(view, live_leases, [row], reason)
            stops += facts
            leases += changes
        yield AppendBatch(tuple((state.job_set, event) for event in stops), tuple(leases))


def _decide_group(
    view: View, state: GroupState, rows: Sequence[int]
) -> (
    ev.GroupSucceeded
    | ev.GroupFailed
    | ev.GroupCancelled
    | ev.GroupRestarting
    | ev.GroupRunning
    | None
):
    """The next decision about a group that has not ended; None if there is nothing to decide."""
    group = state.group
    if has_completed(view, state, rows):
        return ev.GroupSucceeded(group=group)
    if state.cancel_reason is not None:
        if rows:
            return None
        return ev.GroupCancelled(group=group, reason=state.cancel_reason)
    if state.lost_reason is not None:
        return ev.GroupFailed(group=group, reason=state.lost_reason)
    missing = explain_unreachable(state)
    if missing is None and not rows and state.ended:
        missing = "all its members have ended, and too few of its completion roles have succeeded"
    if missing is not None:
        return ev.GroupFailed(group=group, reason=missing)
    if state.restart_reason is not None:
        reason = state.restart_reason or "restart requested"
        return ev.GroupRestarting(group=group, reason=reason)
    if state.phase is GroupPhase.QUEUED:
        started = [row for row in list_wanted(view, state) if _is_running(view, row)]
        if _has_minima(state, _count_by_role(view, started)):
            return ev.GroupRunning(group=group)
    return None


def _restart_if_short(
    view: View, queues: Queues, state: GroupState, rows: Sequence[int]
) -> ev.GroupRestarting | None:
    """Queue a running group again that has less than a minimum, if a round did not change that.

    That happens where a surplus member that stood in for one that starts again has ended.
    """
    short = None if state.is_final else _explain_shortage(view, state, rows)
    if short is None or queues.get(state.job_set.queue).cordoned:
        view.short_groups.pop(state.group, None)
        return None
    if not view.short_groups.setdefault(state.group, False):
        return None
    del view.short_groups[state.group]
    return ev.GroupRestarting(group=state.group, reason=short)


def _explain_shortage(view: View, state: GroupState, rows: Sequence[int]) -> str | None:
    """Which role of a running group has less than its minimum while a needed member waits to start
    again; None if there is no such role. Members of a raised minimum have never run.
    """
    if state.phase is not GroupPhase.RUNNING or state.cancel_reason is not None:
        return None
    jobs, running = view.jobs, _count_by_role(view, list_wanted(view, state))
    again = {
        _member(view, row).role
        for row in rows
        if jobs.state[row] == job_table.QUEUED
        and jobs.run[row]
        and groups.is_needed(state.terms, _member(view, row))
        and not groups.is_outdated(state, _member(view, row))
    }
    for role in state.terms.roles:
        count, least = running.get(role.name, 0), groups.minimum_left(state, role)
        if role.name in again and count < least:
            return f"{count} of the {least} members that role {role.name} needs run"
    return None


def note_round(view: View) -> None:
    """Note that a round has offered what groups with less than their minimum lack."""
    view.short_groups = dict.fromkeys(view.short_groups, True)


def has_completed(view: View, state: GroupState, rows: Sequence[int]) -> bool:
    """C1: whether the members of the completion roles have succeeded. `rows`: its live members.

    As many as the terms say, or all that the group needs and all that were started: a surplus
    member that waits, was stopped for others or failed for good is not counted, nor is a member
    that was scaled away.
    """
    wanted = _completion_roles(state)
    done = sum(index < role.max for role in wanted for index in state.succeeded.get(role.name, ()))
    if state.terms.completion_count is not None:
        return done >= state.terms.completion_count
    is_intact = state.lost_reason is None and state.cancel_reason is None
    over = state.ended if is_intact else state.succeeded
    if not done or not all(set(range(role.min)) <= over.get(role.name, set()) for role in wanted):
        return False
    names = {role.name for role in wanted}
    return not any(
        view.jobs.state[row] != job_table.QUEUED
        and _member(view, row).role in names
        and not groups.is_outdated(state, _member(view, row))
        for row in rows
    )


def explain_unreachable(state: GroupState) -> str | None:
    """Why the group can never complete, if too few members of its completion roles are left."""
    count = state.terms.completion_count or 1
    possible = 0
    for role in _completion_roles(state):
        over = state.ended.get(role.name, set()) - state.succeeded.get(role.name, set())
        possible += role.max - sum(index < role.max for index in over)
    if possible >= count:
        return None
    return f"{count} members of its completion roles must succeed, but only {possible} still can"


def _completion_roles(state: GroupState) -> list[ev.GroupRole]:
    names = state.terms.completion_roles
    return [role for role in state.terms.roles if not names or role.name in names]


def list_wanted(view: View, state: GroupState) -> list[int]:
    """The rows of the members that have a run that is not to be stopped, by job id."""
    ids = sorted(view.gang_members.get(state.gang_name, ()))
    return [
        row
        for row in (view.jobs.rows[job_id] for job_id in ids)
        if is_wanted_run(view, row) and not groups.is_outdated(state, _member(view, row))
    ]


def _is_running(view: View, row: int) -> bool:
    return bool(view.jobs.state[row] == job_table.RUNNING)


def _count_by_role(view: View, rows: Sequence[int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        role = _member(view, row).role
        counts[role] = counts.get(role, 0) + 1
    return counts


def _has_minima(state: GroupState, counts: dict[str, int]) -> bool:
    return all(
        counts.get(role.name, 0) >= groups.minimum_left(state, role) for role in state.terms.roles
    )


def stop_members(
    view: View, live_leases: Leases, rows: Sequence[int], reason: str
) -> tuple[list[ev.AnyEvent], list[LeaseChange]]:
    """Stop the runs of these members."""
    jobs = view.jobs
    facts: list[ev.AnyEvent] = []
    leases: list[LeaseChange] = []
    for row in rows:
        job_id, run = jobs.rows.id_at(row), jobs.run.item(row)
        facts.append(
            ev.JobRunPreempting(job_id=job_id, run=run, cause=PreemptionCause.GROUP, reason=reason)
        )
        if live_leases.is_run_desired(run_id(job_id, run)):
            leases.append(lease_changes.stop_lease(view, row, reason))
    return facts, leases


def _member(view: View, row: int) -> ev.GroupMember:
    member = view.jobs.rare_properties[row].member
    assert member is not None, "the members of a group name it"
    return member


def _name(member: ev.GroupMember) -> str:
    return f"{member.role}-{member.index}"
