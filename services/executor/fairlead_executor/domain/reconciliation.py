"""What to do so that a cluster reaches the state that its leases require. Pure.

`reconcile(desired, observed, now_ms)` compares leases with pods, run by run, and returns reports
and actions. It compares states, not messages, so a lost, late or repeated message changes nothing
in the end. Reports are appended to the log first; only then are the other actions done. Rules:

1. A lease with the desired state `run` and no pod is reported pending and created, once the runs
   that it names in `after` have ended and the members of its group run for which it waits.
2. A lease that a previous executor reported pending and that has no pod is never created: it is
   prevented from starting, and reported lost.
3. A lease with the desired state `stop` and no pod is excluded and reported stopped.
4. A live pod is stopped when its lease says so, when it exceeds its maximum run time, or when it
   has no lease.
5. A pod that ended is reported, again whenever its lease is still there after `REPEAT_REPORT_MS`
   (and so once after a restart), and removed when its lease is cleared.
6. A live pod of a previous executor whose lease has secret values is created again, which starts
   nothing: its executor can have been killed before these values were in the cluster.

An executor that shuts down creates nothing and stops all live pods.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

import msgspec

from fairlead_common.domain import secret_values
from fairlead_common.domain.ids import GroupId, RunId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import DesiredState, GroupMembers, Lease
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import End, EndReport, Phase, Pod

FULL_PASS_MS: Final = 10_000
"""All runs are examined at least this often (ms)."""
REPEAT_REPORT_MS: Final = 60_000
"""An end is reported again when its lease is still there after this time."""

SHUTDOWN: Final = "executor shut down"
_LOST: Final = pods.lost(
    "the executor was restarted before it had created this run, or its pod was deleted"
)
_VANISHED: Final = pods.failed(
    FailureCategory.POD_DELETED, "its pod was deleted by somebody other than Fairlead"
)
_UNWANTED: Final = pods.stopped("no lease requires this run")


NO_GROUPS: Final[Mapping[GroupId, GroupMembers]] = {}


class PendingReported(Enum):
    """Whether `JobRunPending` of a lease is in the log."""

    NO = "no"
    BEFORE = "by an executor before this one"
    NOW = "by this executor"


_STOP: Final = DesiredState.STOP
_RUNNING: Final = Phase.RUNNING
_NOT_REPORTED: Final = PendingReported.NO
"""Members of enumerations are read three times as fast by these names."""


class DesiredRun(msgspec.Struct, gc=False):
    """A lease, and what this executor has reported of its run. Only `ExecutorState` changes it.

    `position` is that of the lease's newest record; `end_reported_ms` is 0 until the end is
    reported.
    """

    lease: Lease
    position: int
    pending_reported: PendingReported = PendingReported.NO
    running_reported: bool = False
    end_reported_ms: int = 0

    @property
    def may_be_reported_pending(self) -> bool:
        """Whether the run can still be created."""
        return self.pending_reported is _NOT_REPORTED and self.lease.desired_state is not _STOP


RunReport = ev.JobRunPending | ev.JobRunRunning | EndReport


class Report(msgspec.Struct, frozen=True, gc=False):
    """Append this to the log of the run's job set. `pod`: None if the run has no pod yet."""

    run: RunId
    event: RunReport
    wanted: DesiredRun
    pod: Pod | None = None


class Create(msgspec.Struct, frozen=True, gc=False):
    """Start the run. Of a run that has a pod, what belongs to the pod is completed."""

    run: RunId
    lease: Lease
    wanted: DesiredRun


class Stop(msgspec.Struct, frozen=True, gc=False):
    """Request the run to end within the grace; `end` is reported if it does."""

    run: RunId
    grace_s: int
    end: End


class PreventStart(msgspec.Struct, frozen=True, gc=False):
    """Make sure that the run never starts, and report this end."""

    run: RunId
    end: End
    namespace: str = "default"


class Actions(msgspec.Struct):
    """What to report, and what to do on the cluster afterwards, each in the order of runs.

    `removes`: pods that ended. `deadlines`: when (ms) live runs have to be examined although
    nothing changes, if that is within `FULL_PASS_MS`.
    """

    reports: list[Report] = []
    creates: list[Create] = []
    stops: list[Stop] = []
    preventions: list[PreventStart] = []
    removes: list[RunId] = []
    deadlines: list[tuple[int, RunId]] = []

    @property
    def count(self) -> int:
        """The number of reports and actions."""
        on_cluster = len(self.creates) + len(self.stops) + len(self.preventions)
        return len(self.reports) + on_cluster + len(self.removes)


def reconcile(
    desired: Mapping[RunId, DesiredRun],
    observed: Mapping[RunId, Pod],
    now_ms: int,
    *,
    groups: Mapping[GroupId, GroupMembers] = NO_GROUPS,
    only: Iterable[RunId] | None = None,
    closing_s: int | None = None,
) -> Actions:
    """Reports and actions.

    `groups`: the live members of groups. `only`: examine these runs instead of all. `closing_s`:
    the executor shuts down and gives live pods at most this grace.
    """
    if only is None:
        only = [*desired, *(run for run in observed if run not in desired)]
    actions = Actions()
    for run in only:
        wanted, pod = desired.get(run), observed.get(run)
        if wanted is None:
            if pod is not None:
                _reconcile_unwanted(actions, pod)
        elif pod is None:
            may_start = closing_s is None and _is_ready(wanted.lease, groups, desired, observed)
            _reconcile_without_pod(actions, run, wanted, may_start)
        elif pod.end is None:
            _reconcile_live(actions, wanted, pod, now_ms, closing_s)
        else:
            _reconcile_ended(actions, wanted, pod, now_ms)
    return actions


def _reconcile_unwanted(actions: Actions, pod: Pod) -> None:
    if not pod.live:
        actions.removes.append(pod.run)
    elif not pod.stopping:
        actions.stops.append(Stop(pod.run, pod.grace_s, _UNWANTED))


def _reconcile_without_pod(
    actions: Actions, run: RunId, wanted: DesiredRun, may_start: bool
) -> None:
    lease = wanted.lease
    if wanted.end_reported_ms:
        return  # the pod was removed after its end was reported
    if lease.desired_state is _STOP:
        end = _requested_end(lease, "stopped before it started")
        actions.preventions.append(PreventStart(run, end, lease.namespace))
    elif wanted.pending_reported is not _NOT_REPORTED:
        end = _LOST if wanted.pending_reported is PendingReported.BEFORE else _VANISHED
        actions.preventions.append(PreventStart(run, end, lease.namespace))
    elif may_start:
        pending = ev.JobRunPending(job_id=lease.job_id, run=lease.run)
        actions.reports.append(Report(run, pending, wanted))
        actions.creates.append(Create(run, lease, wanted))


def _is_ready(
    lease: Lease,
    groups: Mapping[GroupId, GroupMembers],
    desired: Mapping[RunId, DesiredRun],
    observed: Mapping[RunId, Pod],
) -> bool:
    """Whether the run waits for no other run."""
    if lease.after and not all(has_ended(other, desired, observed) for other in lease.after):
        return False
    return lease.member is None or is_group_ready(lease, groups)


def is_group_ready(lease: Lease, groups: Mapping[GroupId, GroupMembers]) -> bool:
    """Whether the members of its group run for which a run waits (rule C4)."""
    member = lease.member
    if member is None or not (member.starts_after or member.master):
        return True
    known = groups.get(member.group)
    if not set(member.starts_after) <= set(() if known is None else known.started):
        return False
    if member.master is None or member.master == (member.role, member.index):
        return True
    if known is None or known.master_ended:
        return known is not None
    master = known.find(*member.master)
    return master is not None and master.state is JobState.RUNNING and bool(master.address)


def has_ended(
    run: RunId, desired: Mapping[RunId, DesiredRun], observed: Mapping[RunId, Pod]
) -> bool:
    """Whether the run holds no resources and never will again."""
    pod = observed.get(run)
    if pod is not None:
        return not pod.live
    wanted = desired.get(run)
    return wanted is None or wanted.lease.desired_state is DesiredState.STOP


def _reconcile_live(
    actions: Actions, wanted: DesiredRun, pod: Pod, now_ms: int, closing_s: int | None
) -> None:
    lease = wanted.lease
    if not wanted.running_reported and pod.phase is _RUNNING:
        actions.reports.append(Report(pod.run, pods.running(lease, pod), wanted, pod))
    if pod.stopping:
        return
    if lease.spec and secret_values.has_sealed(bytes(lease.spec)):
        actions.creates.append(Create(pod.run, lease, wanted))
    due_ms = _deadline_ms(lease, pod)
    if lease.desired_state is _STOP:
        end = _requested_end(lease, "its lease says so")
        actions.stops.append(Stop(pod.run, lease.grace_s, end))
    elif due_ms is not None and due_ms <= now_ms:
        reason = f"it exceeded its maximum run time of {lease.runtime_s_max} s"
        end = pods.failed(FailureCategory.DEADLINE, reason)
        actions.stops.append(Stop(pod.run, lease.grace_s, end))
    elif closing_s is not None:
        end = pods.stopped(SHUTDOWN)
        actions.stops.append(Stop(pod.run, min(lease.grace_s, closing_s), end))
    elif due_ms is not None and due_ms <= now_ms + FULL_PASS_MS:
        actions.deadlines.append((due_ms, pod.run))


def _requested_end(lease: Lease, otherwise: str) -> End:
    """How to report the end of a run that its lease asks to stop."""
    reason = lease.reason or otherwise
    return pods.stopped(reason) if lease.failure is None else pods.failed(lease.failure, reason)


def _deadline_ms(lease: Lease, pod: Pod) -> int | None:
    """When a live pod reaches its maximum run time (ms, the cluster's clock)."""
    limit_s = lease.runtime_s_max
    if limit_s is None or not pod.started_ms:
        return None
    return pod.started_ms + 1000 * limit_s


def _reconcile_ended(actions: Actions, wanted: DesiredRun, pod: Pod, now_ms: int) -> None:
    lease = wanted.lease
    if wanted.end_reported_ms and 0 <= now_ms - wanted.end_reported_ms < REPEAT_REPORT_MS:
        return
    if pod.started_ms and not wanted.running_reported:
        actions.reports.append(Report(pod.run, pods.running(lease, pod), wanted, pod))
    ended = pods.ended(lease.job_id, lease.run, pod)
    actions.reports.append(Report(pod.run, ended, wanted, pod))
