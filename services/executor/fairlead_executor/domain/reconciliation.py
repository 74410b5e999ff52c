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


RunReport = ev.JobRunPending | ev.JobRunRunning | EndReport


class Report(msgspec.Struct, frozen=True, gc=False):
    """Append this to the log of the run's job set."""

    run: RunId
    event: RunReport


class Create(msgspec.Struct, frozen=True, gc=False):
    """Start the run. Of a run that has a pod, what belongs to the pod is completed."""

    run: RunId
    lease: Lease


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


class Remove(msgspec.Struct, frozen=True, gc=False):
    """Remove a pod that ended."""

    run: RunId


Action = Report | Create | Stop | PreventStart | Remove


def reconcile(
    desired: Mapping[RunId, DesiredRun],
    observed: Mapping[RunId, Pod],
    now_ms: int,
    *,
    groups: Mapping[GroupId, GroupMembers] = NO_GROUPS,
    only: Iterable[RunId] | None = None,
    closing_s: int | None = None,
) -> list[Action]:
    """Reports and actions, in order.

    `groups`: the live members of groups. `only`: examine these runs instead of all. `closing_s`:
    the executor shuts down and gives live pods at most this grace.
    """
    if only is None:
        only = [*desired, *(run for run in observed if run not in desired)]
    actions: list[Action] = []
    for run in only:
        wanted, pod = desired.get(run), observed.get(run)
        if wanted is None:
            if pod is not None:
                actions += _reconcile_unwanted(pod)
        elif pod is None:
            may_start = closing_s is None and is_group_ready(wanted.lease, groups)
            actions += _reconcile_without_pod(run, wanted, desired, observed, may_start)
        elif pod.live:
            actions += _reconcile_live(wanted, pod, now_ms, closing_s)
        else:
            actions += _reconcile_ended(wanted, pod, now_ms)
    return actions


def _reconcile_unwanted(pod: Pod) -> list[Action]:
    if not pod.live:
        return [Remove(pod.run)]
    return [] if pod.stopping else [Stop(pod.run, pod.grace_s, _UNWANTED)]


def _reconcile_without_pod(
    run: RunId,
    wanted: DesiredRun,
    desired: Mapping[RunId, DesiredRun],
    observed: Mapping[RunId, Pod],
    may_start: bool,
) -> list[Action]:
    lease = wanted.lease
    if wanted.end_reported_ms:
        return []  # the pod was removed after its end was reported
    if lease.desired_state is DesiredState.STOP:
        end = _requested_end(lease, "stopped before it started")
        return [PreventStart(run, end, lease.namespace)]
    if wanted.pending_reported is PendingReported.BEFORE:
        return [PreventStart(run, _LOST, lease.namespace)]
    if wanted.pending_reported is PendingReported.NOW:
        return [PreventStart(run, _VANISHED, lease.namespace)]
    if may_start and all(has_ended(other, desired, observed) for other in lease.after):
        pending = ev.JobRunPending(job_id=lease.job_id, run=lease.run)
        return [Report(run, pending), Create(run, lease)]
    return []


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
    wanted: DesiredRun, pod: Pod, now_ms: int, closing_s: int | None
) -> list[Action]:
    lease = wanted.lease
    actions: list[Action] = []
    if pod.phase is Phase.RUNNING and not wanted.running_reported:
        actions.append(Report(pod.run, pods.running(lease, pod)))
    if pod.stopping:
        return actions
    if lease.spec and secret_values.has_sealed(bytes(lease.spec)):
        actions.append(Create(pod.run, lease))
    due_ms = deadline_ms(wanted, pod)
    if lease.desired_state is DesiredState.STOP:
        end = _requested_end(lease, "its lease says so")
        actions.append(Stop(pod.run, lease.grace_s, end))
    elif due_ms is not None and due_ms <= now_ms:
        reason = f"it exceeded its maximum run time of {lease.runtime_s_max} s"
        end = pods.failed(FailureCategory.DEADLINE, reason)
        actions.append(Stop(pod.run, lease.grace_s, end))
    elif closing_s is not None:
        actions.append(Stop(pod.run, min(lease.grace_s, closing_s), pods.stopped(SHUTDOWN)))
    return actions


def _requested_end(lease: Lease, otherwise: str) -> End:
    """How to report the end of a run that its lease asks to stop."""
    reason = lease.reason or otherwise
    return pods.stopped(reason) if lease.failure is None else pods.failed(lease.failure, reason)


def deadline_ms(wanted: DesiredRun, pod: Pod) -> int | None:
    """When a live pod reaches its maximum run time (ms, the cluster's clock)."""
    limit_s = wanted.lease.runtime_s_max
    if limit_s is None or not pod.started_ms:
        return None
    return pod.started_ms + 1000 * limit_s


def _reconcile_ended(wanted: DesiredRun, pod: Pod, now_ms: int) -> list[Action]:
    lease = wanted.lease
    if wanted.end_reported_ms and 0 <= now_ms - wanted.end_reported_ms < REPEAT_REPORT_MS:
        return []
    ended = Report(pod.run, pods.ended(lease.job_id, lease.run, pod))
    if pod.started_ms and not wanted.running_reported:
        return [Report(pod.run, pods.running(lease, pod)), ended]
    return [ended]
