"""What to do so that a cluster becomes what it should be. Pure.

`reconcile(desired, observed, now)` compares leases with pods, run by run, and says what to tell
and what to do; it looks at levels only, so a lost, late or repeated message changes nothing in
the end. What is told (`Tell`) goes into the log first; only then may the rest be done. Rules:

1. A lease with the wish `run` and no pod is told pending and created, once the runs that it names
   in `after` are gone.
2. A lease that was told pending by an executor before this one and has no pod is never created:
   it is ruled out, and told lost.
3. A lease with the wish `stop` and no pod is ruled out and told stopped.
4. A live pod is stopped when its lease says so, when it ran longer than it may, or when nobody
   wants it.
5. A pod that ended is told, again whenever its lease is still there after `REPEAT_MS` (and so once
   after a restart), and removed when its lease is gone.

An executor that is closing creates nothing and stops all that lives.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final

import msgspec

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import DesiredState, Lease
from fairlead_executor import pods
from fairlead_executor.pods import End, EndReport, Phase, Pod

REPEAT_MS: Final = 60_000
"""An end is told again when its lease has not been cleared for so long."""

SHUTDOWN: Final = "executor shut down"
_LOST: Final = pods.lost(
    "the executor was restarted before it had created this run, or its pod is gone"
)
_VANISHED: Final = pods.failed(
    FailureCategory.POD_DELETED, "its pod was deleted by somebody other than Fairlead"
)
_UNWANTED: Final = pods.stopped("no lease wants this run")


class Taken(Enum):
    """Whether `JobRunPending` of a lease is in the log."""

    NO = "no"
    BEFORE = "by an executor before this one"
    NOW = "by this executor"


class Wanted(msgspec.Struct, gc=False):
    """A lease, and what this executor has told of its run. Changed by its owner only.

    `position` is the place of the lease's newest record; `end_told_ms` is 0 until the end is told.
    """

    lease: Lease
    position: int
    taken: Taken = Taken.NO
    running_told: bool = False
    end_told_ms: int = 0


Report = ev.JobRunPending | ev.JobRunRunning | EndReport


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Append this to the log of the run's job set."""

    run: RunId
    event: Report


class Create(msgspec.Struct, frozen=True, gc=False):
    """Start the run."""

    lease: Lease


class Stop(msgspec.Struct, frozen=True, gc=False):
    """Ask the run to end within the grace; `end` is what to tell if it does."""

    run: RunId
    grace_s: int
    end: End


class RuleOut(msgspec.Struct, frozen=True, gc=False):
    """Make sure that the run never starts."""

    run: RunId
    end: End


class Remove(msgspec.Struct, frozen=True, gc=False):
    """Forget a pod that ended."""

    run: RunId


Action = Tell | Create | Stop | RuleOut | Remove


def reconcile(
    desired: Mapping[RunId, Wanted],
    observed: Mapping[RunId, Pod],
    now_ms: int,
    *,
    only: Iterable[RunId] | None = None,
    closing_s: int | None = None,
) -> list[Action]:
    """What to tell and to do, in order.

    `only`: look at these runs instead of at all. `closing_s`: the executor is closing, and gives
    what lives at most so long to end.
    """
    if only is None:
        only = [*desired, *(run for run in observed if run not in desired)]
    actions: list[Action] = []
    for run in only:
        wanted, pod = desired.get(run), observed.get(run)
        if wanted is None:
            if pod is not None:
                actions += _unwanted(pod)
        elif pod is None:
            actions += _without_pod(run, wanted, desired, observed, closing_s is not None)
        elif pod.live:
            actions += _live(wanted, pod, now_ms, closing_s)
        else:
            actions += _ended(wanted, pod, now_ms)
    return actions


def _unwanted(pod: Pod) -> Iterator[Action]:
    if not pod.live:
        yield Remove(pod.run)
    elif not pod.stopping:
        yield Stop(pod.run, pod.grace_s, _UNWANTED)


def _without_pod(
    run: RunId,
    wanted: Wanted,
    desired: Mapping[RunId, Wanted],
    observed: Mapping[RunId, Pod],
    closing: bool,
) -> Iterator[Action]:
    lease = wanted.lease
    if wanted.end_told_ms:
        return  # somebody removed the pod after its end was told
    if lease.wish is DesiredState.STOP:
        yield RuleOut(run, _asked(lease, "stopped before it started"))
    elif wanted.taken is Taken.BEFORE:
        yield RuleOut(run, _LOST)
    elif wanted.taken is Taken.NOW:
        yield RuleOut(run, _VANISHED)
    elif not closing and all(is_gone(other, desired, observed) for other in lease.after):
        yield Tell(run, ev.JobRunPending(job_id=lease.job_id, run=lease.run))
        yield Create(lease)


def is_gone(run: RunId, desired: Mapping[RunId, Wanted], observed: Mapping[RunId, Pod]) -> bool:
    """Whether the run holds no room and will hold none."""
    pod = observed.get(run)
    if pod is not None:
        return not pod.live
    wanted = desired.get(run)
    return wanted is None or wanted.lease.wish is DesiredState.STOP


def _live(wanted: Wanted, pod: Pod, now_ms: int, closing_s: int | None) -> Iterator[Action]:
    lease = wanted.lease
    if pod.phase is Phase.RUNNING and not wanted.running_told:
        yield Tell(pod.run, pods.running(lease.job_id, lease.run, pod))
    if pod.stopping:
        return
    due_ms = deadline_ms(wanted, pod)
    if lease.wish is DesiredState.STOP:
        yield Stop(pod.run, lease.grace_s, _asked(lease, "its lease says so"))
    elif due_ms is not None and due_ms <= now_ms:
        reason = f"it ran longer than the {lease.runtime_s_max} s that it may"
        yield Stop(pod.run, lease.grace_s, pods.failed(FailureCategory.DEADLINE, reason))
    elif closing_s is not None:
        yield Stop(pod.run, min(lease.grace_s, closing_s), pods.stopped(SHUTDOWN))


def _asked(lease: Lease, otherwise: str) -> End:
    """How the end is told of a run that its lease wants stopped."""
    why = lease.why or otherwise
    return pods.stopped(why) if lease.failure is None else pods.failed(lease.failure, why)


def deadline_ms(wanted: Wanted, pod: Pod) -> int | None:
    """When a live pod has run for as long as it may (ms, the cluster's clock)."""
    limit_s = wanted.lease.runtime_s_max
    if limit_s is None or not pod.started_ms:
        return None
    return pod.started_ms + 1000 * limit_s


def _ended(wanted: Wanted, pod: Pod, now_ms: int) -> Iterator[Action]:
    lease = wanted.lease
    if wanted.end_told_ms and 0 <= now_ms - wanted.end_told_ms < REPEAT_MS:
        return
    if pod.started_ms and not wanted.running_told:
        yield Tell(pod.run, pods.running(lease.job_id, lease.run, pod))
    yield Tell(pod.run, pods.ended(lease.job_id, lease.run, pod))
