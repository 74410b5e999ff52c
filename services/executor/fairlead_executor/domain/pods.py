"""Pods as an executor sees them on its cluster, one per run, and how they ended.

A pod that ended stays until it is removed, so that its end can be reported as often as necessary. A
run that must never start is excluded: it then looks like a pod that ended at once.
"""

from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.ids import JobId, RunId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease


class Phase(StrEnum):
    """The phase of a pod."""

    CREATED = "created"
    RUNNING = "running"
    ENDED = "ended"


class EndKind(StrEnum):
    """Which of the five events reports an end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETURNED = "returned"
    STOPPED = "stopped"
    LOST = "lost"


class End(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How a run ended, in the words of its report."""

    kind: EndKind
    reason: str = ""
    category: FailureCategory | None = None
    exit_code: int | None = None


NO_SERVICES: Final = (
    "this cluster has no services and ingresses: remove them from the job, or choose a pool of a"
    " Kubernetes cluster"
)
"""Why a cluster other than Kubernetes refuses a job."""

SUCCEEDED: Final = End(EndKind.SUCCEEDED, exit_code=0)


def failed(category: FailureCategory, reason: str, exit_code: int | None = None) -> End:
    """The end of a run that failed."""
    return End(EndKind.FAILED, reason, category, exit_code)


def returned(reason: str) -> End:
    """The end of a run that never started here, and can start on another node."""
    return End(EndKind.RETURNED, reason)


def stopped(reason: str, exit_code: int | None = None) -> End:
    """The end of a run that was requested to stop."""
    return End(EndKind.STOPPED, reason, None, exit_code)


def lost(reason: str) -> End:
    """The end of a run that no longer exists; it does not count as a retry."""
    return End(EndKind.LOST, reason)


class Pod(msgspec.Struct, frozen=True, gc=False):
    """One pod as it is now. Times are of the cluster's clock (ms); 0: not yet, or not known.

    `stopping`: its end was requested. `grace_s`: its grace period, unless a request names a shorter
    one. `end` is set if and only if the phase is ENDED. `address`: where other pods reach it, ""
    while that is not known.
    """

    run: RunId
    phase: Phase
    node: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    stopping: bool = False
    grace_s: int = 30
    end: End | None = None
    address: str = ""

    @property
    def live(self) -> bool:
        """Whether it possibly still holds its resources."""
        return self.end is None


def running(lease: Lease, pod: Pod) -> ev.JobRunRunning:
    """The report of a start; only the members of groups need the address."""
    address = "" if lease.member is None else pod.address
    return ev.JobRunRunning(
        job_id=lease.job_id, run=lease.run, at_ms=pod.started_ms, address=address
    )


EndReport = (
    ev.JobRunSucceeded | ev.JobRunFailed | ev.JobRunReturned | ev.JobRunStopped | ev.JobRunLost
)


def ended(job_id: JobId, run: int, pod: Pod) -> EndReport:
    """The report of an end: the same pod always gives the same one."""
    end, at_ms = pod.end, pod.ended_ms
    assert end is not None, f"{pod.run} has not ended"
    match end.kind:
        case EndKind.SUCCEEDED:
            return ev.JobRunSucceeded(job_id=job_id, run=run, at_ms=at_ms)
        case EndKind.FAILED:
            return ev.JobRunFailed(
                job_id=job_id,
                run=run,
                category=end.category or FailureCategory.INTERNAL,
                reason=end.reason,
                exit_code=end.exit_code,
                at_ms=at_ms,
            )
        case EndKind.RETURNED:
            return ev.JobRunReturned(job_id=job_id, run=run, reason=end.reason, at_ms=at_ms)
        case EndKind.STOPPED:
            return ev.JobRunStopped(
                job_id=job_id, run=run, reason=end.reason, exit_code=end.exit_code, at_ms=at_ms
            )
        case EndKind.LOST:
            return ev.JobRunLost(job_id=job_id, run=run, reason=end.reason)
