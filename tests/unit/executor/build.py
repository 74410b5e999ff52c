"""Leases and pods in as few words as a test needs."""

import json

import msgspec

from fairlead_common.domain.ids import JobId, RunId, run_id
from fairlead_common.domain.records.leases import DesiredState, Lease
from fairlead_executor.domain.pods import End, Phase, Pod
from fairlead_executor.domain.reconciliation import DesiredRun, PendingReported


def job(name: str) -> JobId:
    """A well-formed job id that begins with `name`."""
    return JobId(name.ljust(28, "0"))


def run(name: str, number: int = 1) -> RunId:
    """The id of its run."""
    return run_id(job(name), number)


def lease(
    name: str,
    *,
    number: int = 1,
    desired_state: DesiredState = DesiredState.RUN,
    reason: str = "",
    after: tuple[str, ...] = (),
    grace_s: int = 30,
    runtime_s_max: int | None = None,
    node: str = "n0",
    job_set: str = "s",
    command: tuple[str, ...] = ("true",),
    annotations: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
) -> Lease:
    """A lease that is complete enough to run."""
    spec = json.dumps({"containers": [{"command": list(command)}]}).encode()
    made = Lease(
        job_id=job(name),
        run=number,
        queue="q",
        job_set=job_set,
        node=node,
        desired_state=desired_state,
        reason=reason,
        after=tuple(run(other) for other in after),
        grace_s=grace_s,
        runtime_s_max=runtime_s_max,
        annotations=annotations or {},
        env=env or {},
    )
    if desired_state is DesiredState.STOP:
        return made
    return msgspec.structs.replace(made, spec=msgspec.Raw(spec))


def wanted(
    a_lease: Lease,
    *,
    pending_reported: PendingReported = PendingReported.NO,
    running_reported: bool = False,
    end_reported_ms: int = 0,
) -> DesiredRun:
    """A lease with what was reported of its run."""
    return DesiredRun(a_lease, 0, pending_reported, running_reported, end_reported_ms)


def pod(
    name: str,
    phase: Phase = Phase.RUNNING,
    *,
    end: End | None = None,
    stopping: bool = False,
    started_ms: int = 0,
    grace_s: int = 30,
) -> Pod:
    """A pod of the job's first run."""
    return Pod(
        run(name),
        phase,
        "n0",
        started_ms=started_ms or (1_000 if phase is Phase.RUNNING else 0),
        ended_ms=5_000 if phase is Phase.ENDED else 0,
        stopping=stopping,
        grace_s=grace_s,
        end=end,
    )
