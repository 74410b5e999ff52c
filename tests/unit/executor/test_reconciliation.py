"""What an executor does about each difference between leases and pods."""

from collections.abc import Sequence

import msgspec
import pytest

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import DesiredState
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import SUCCEEDED, EndKind, Phase, Pod
from fairlead_executor.domain.reconciliation import (
    FULL_PASS_MS,
    REPEAT_REPORT_MS,
    Actions,
    DesiredRun,
    PendingReported,
    Report,
    reconcile,
)
from tests.unit.executor.build import job, lease, pod, run, wanted

NOW_MS = 100_000


class Case(msgspec.Struct):
    """`want`: the actions, each in a few words (see `short`)."""

    wanted: Sequence[DesiredRun] = ()
    pods: Sequence[Pod] = ()
    want: Sequence[str] = ()
    closing_s: int | None = None


def short(actions: Actions) -> list[str]:
    """Reports and actions as a test writes them; jobs by the first letter of their id."""
    return [
        *map(short_report, actions.reports),
        *(f"create {create.lease.job_id[0]}" for create in actions.creates),
        *(
            f"stop {stop.run[0]} {stop.grace_s}s {stop.end.kind.value} {stop.end.reason}".rstrip()
            for stop in actions.stops
        ),
        *(f"rule out {each.run[0]} {each.end.kind.value}" for each in actions.preventions),
        *(f"remove {removed[0]}" for removed in actions.removes),
    ]


def short_report(report: Report) -> str:
    """A report as a test writes it."""
    event, more = report.event, ""
    match event:
        case ev.JobRunFailed():
            more = f" {event.category.value}"
        case ev.JobRunStopped():
            more = f" {event.reason}"
    return f"tell {type(event).__name__.removeprefix('JobRun').lower()} {report.run[0]}{more}"


FAILED = pods.failed(FailureCategory.EXIT_CODE, "x", 3)
LONG = "it exceeded its maximum run time of 60 s"

CASES = {
    "a new lease is told pending before it is created": Case(
        wanted=[wanted(lease("a"))],
        want=["tell pending a", "create a"],
    ),
    "a lease told pending by this executor has a pod, and nothing is left to do": Case(
        wanted=[wanted(lease("a"), pending_reported=PendingReported.NOW)],
        pods=[pod("a", Phase.CREATED)],
    ),
    "a lease told pending before a restart and without a pod is never created": Case(
        wanted=[wanted(lease("a"), pending_reported=PendingReported.BEFORE)],
        want=["rule out a lost"],
    ),
    "a pod that somebody deleted is a failure of that name": Case(
        wanted=[wanted(lease("a"), pending_reported=PendingReported.NOW)],
        want=["rule out a failed"],
    ),
    "a pod that somebody deleted after its end was told is not missed": Case(
        wanted=[wanted(lease("a"), pending_reported=PendingReported.NOW, end_reported_ms=1)],
    ),
    "a run waits for the one whose room it takes": Case(
        wanted=[wanted(lease("a", after=("b",)))],
        pods=[pod("b", stopping=True)],
    ),
    "a run starts when the one before it has ended": Case(
        wanted=[wanted(lease("a", after=("b",)))],
        pods=[pod("b", Phase.ENDED, end=SUCCEEDED)],
        want=["tell pending a", "create a", "remove b"],
    ),
    "a run starts when the one before it was never there": Case(
        wanted=[wanted(lease("a", after=("b",)))],
        want=["tell pending a", "create a"],
    ),
    "a run waits for one that is still to be created": Case(
        wanted=[wanted(lease("a", after=("b",))), wanted(lease("b"))],
        want=["tell pending b", "create b"],
    ),
    "a start is told once": Case(
        wanted=[wanted(lease("a"), pending_reported=PendingReported.NOW)],
        pods=[pod("a")],
        want=["tell running a"],
    ),
    "a start that was told is not told again": Case(
        wanted=[wanted(lease("a"), running_reported=True)],
        pods=[pod("a")],
    ),
    "a lease that says stop stops the pod within its grace": Case(
        wanted=[
            wanted(
                lease("a", desired_state=DesiredState.STOP, reason="preempted", grace_s=7),
                running_reported=True,
            )
        ],
        pods=[pod("a")],
        want=["stop a 7s stopped preempted"],
    ),
    "a pod that is stopping is not stopped again": Case(
        wanted=[wanted(lease("a", desired_state=DesiredState.STOP), running_reported=True)],
        pods=[pod("a", stopping=True)],
    ),
    "a lease that says stop and has no pod makes sure that none comes": Case(
        wanted=[wanted(lease("a", desired_state=DesiredState.STOP, reason="cancelled"))],
        want=["rule out a stopped"],
    ),
    "a run that lasts longer than it may is stopped": Case(
        wanted=[wanted(lease("a", runtime_s_max=60), running_reported=True)],
        pods=[pod("a", started_ms=NOW_MS - 60_000)],
        want=[f"stop a 30s failed {LONG}"],
    ),
    "a run that may still last is left alone": Case(
        wanted=[wanted(lease("a", runtime_s_max=60), running_reported=True)],
        pods=[pod("a", started_ms=NOW_MS - 59_999)],
    ),
    "a pod that nobody wants is stopped": Case(
        pods=[pod("a", grace_s=3)],
        want=["stop a 3s stopped no lease requires this run"],
    ),
    "a pod that nobody wants and that is stopping is waited for": Case(
        pods=[pod("a", stopping=True)],
    ),
    "a pod that ended and that nobody wants is removed": Case(
        pods=[pod("a", Phase.ENDED, end=SUCCEEDED)],
        want=["remove a"],
    ),
    "an end is told, and the start too if it was not yet": Case(
        wanted=[wanted(lease("a"))],
        pods=[pod("a", Phase.ENDED, end=FAILED, started_ms=7)],
        want=["tell running a", "tell failed a exit-code"],
    ),
    "a run that never started is told without a start": Case(
        wanted=[wanted(lease("a"))],
        pods=[pod("a", Phase.ENDED, end=pods.returned("no room"))],
        want=["tell returned a"],
    ),
    "an end that was told waits for its lease to be cleared": Case(
        wanted=[
            wanted(lease("a"), running_reported=True, end_reported_ms=NOW_MS - REPEAT_REPORT_MS + 1)
        ],
        pods=[pod("a", Phase.ENDED, end=SUCCEEDED, started_ms=7)],
    ),
    "an end whose lease is not cleared for a minute is told again": Case(
        wanted=[
            wanted(lease("a"), running_reported=True, end_reported_ms=NOW_MS - REPEAT_REPORT_MS)
        ],
        pods=[pod("a", Phase.ENDED, end=SUCCEEDED, started_ms=7)],
        want=["tell succeeded a"],
    ),
    "a run that won the race against its stop is told as it ended": Case(
        wanted=[wanted(lease("a", desired_state=DesiredState.STOP), running_reported=True)],
        pods=[pod("a", Phase.ENDED, end=SUCCEEDED, started_ms=7)],
        want=["tell succeeded a"],
    ),
    "a closing executor creates nothing": Case(
        wanted=[wanted(lease("a"))],
        closing_s=10,
    ),
    "a closing executor stops what lives, within what it has": Case(
        wanted=[
            wanted(lease("a", grace_s=30), running_reported=True),
            wanted(lease("b", grace_s=2), running_reported=True),
        ],
        pods=[pod("a"), pod("b")],
        closing_s=10,
        want=["stop a 10s stopped executor shut down", "stop b 2s stopped executor shut down"],
    ),
    "a closing executor tells what ended": Case(
        wanted=[wanted(lease("a"), running_reported=True)],
        pods=[pod("a", Phase.ENDED, end=pods.stopped("executor shut down"), started_ms=7)],
        closing_s=10,
        want=["tell stopped a executor shut down"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_reconcile(case: Case) -> None:
    desired = {
        RunId(f"{each.lease.job_id}-{each.lease.run}"): each for each in sorted_by_job(case.wanted)
    }
    observed = {each.run: each for each in case.pods}
    only = sorted(desired.keys() | observed.keys())
    actions = reconcile(desired, observed, NOW_MS, only=only, closing_s=case.closing_s)
    assert short(actions) == list(case.want)
    assert actions.count == len(case.want)


def sorted_by_job(several: Sequence[DesiredRun]) -> list[DesiredRun]:
    return sorted(several, key=lambda each: each.lease.job_id)


def test_all_runs_are_reconciled_by_default() -> None:
    desired = {run("a"): wanted(lease("a"))}
    actions = reconcile(desired, {run("b"): pod("b")}, NOW_MS)
    assert short(actions) == [
        "tell pending a",
        "create a",
        "stop b 30s stopped no lease requires this run",
    ]


def test_a_run_is_examined_again_at_its_maximum_run_time_if_no_full_pass_comes_before() -> None:
    desired = {run("a"): wanted(lease("a", runtime_s_max=60), running_reported=True)}
    due_ms = NOW_MS + FULL_PASS_MS
    for more_ms, deadlines in ((0, [(due_ms, run("a"))]), (1, [])):
        observed = {run("a"): pod("a", started_ms=due_ms + more_ms - 60_000)}
        assert reconcile(desired, observed, NOW_MS).deadlines == deadlines


def test_every_kind_of_end_has_its_own_report() -> None:
    reports = {
        kind: type(
            pods.ended(
                job("a"),
                1,
                pod("a", Phase.ENDED, end=pods.End(kind, "why", FailureCategory.OOM, 1)),
            )
        )
        for kind in EndKind
    }
    assert reports == {
        EndKind.SUCCEEDED: ev.JobRunSucceeded,
        EndKind.FAILED: ev.JobRunFailed,
        EndKind.RETURNED: ev.JobRunReturned,
        EndKind.STOPPED: ev.JobRunStopped,
        EndKind.LOST: ev.JobRunLost,
    }
