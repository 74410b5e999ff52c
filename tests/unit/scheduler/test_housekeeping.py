"""What a cycle decides before it schedules."""

import pytest

from fairlead_common import events as ev
from fairlead_common import leases, shapes
from fairlead_common.events import FailureCategory, RetryPolicy
from fairlead_common.ids import JobId, RunId
from fairlead_common.leases import Wish
from fairlead_scheduler import housekeeping, leasing
from fairlead_scheduler.leasing import Held, Leases
from fairlead_scheduler.units import Unit
from fairlead_scheduler.view.columns import View
from tests.unit.scheduler.facts import fold, leased, submitted

A = JobId("a")


def held(*runs: str, wish: Wish = Wish.RUN) -> Leases:
    """Live leases on executor `e0`."""
    made = Leases()
    made.held = {RunId(run): Held("e0", wish) for run in runs}
    return made


def decide(
    view: View, live: Leases, lost: frozenset[str] = frozenset(), now_ms: int = 10_000
) -> list[Unit]:
    return housekeeping.decide(view, live, lost, now_ms=now_ms, unstarted_max=3).units


def events(units: list[Unit]) -> list[ev.AnyEvent]:
    return [event for unit in units for _, event in unit.facts]


def ended(event: ev.AnyEvent, **job: object) -> View:
    """A job whose first run ended so."""
    return fold([submitted("a", **job)], [leased("a")], [event])


FAILED = ev.JobRunFailed(
    job_id=A, run=1, category=FailureCategory.OOM, reason="out of memory", exit_code=137
)
RETRY = RetryPolicy(limit=1, on=(FailureCategory.OOM,), memory_factor=2.0, avoid_node=True)
STOPPED = ev.JobRunStopped(job_id=A, run=1, reason="executor shut down")
RETURNED = ev.JobRunReturned(job_id=A, run=1, reason="no room")
LOST = ev.JobRunLost(job_id=A, run=1, reason="executor e0 has stopped reporting")

ENDS: dict[str, tuple[ev.AnyEvent, dict[str, object], ev.AnyEvent]] = {
    "success ends the job": (
        ev.JobRunSucceeded(job_id=A, run=1),
        {},
        ev.JobSucceeded(job_id=A),
    ),
    "failure without a policy is final": (
        FAILED,
        {},
        ev.JobFailed(job_id=A, category=FailureCategory.OOM, reason="out of memory", exit_code=137),
    ),
    "a run that never started is tried on another node": (
        RETURNED,
        {},
        ev.JobRequeued(job_id=A, reason="could not start: no room", avoid_node="e0/n0"),
    ),
    "the executor's own shutdown costs no retry": (
        STOPPED,
        {},
        ev.JobRequeued(job_id=A, reason="executor shut down"),
    ),
    "a run that was given up is queued again": (
        LOST,
        {},
        ev.JobRequeued(job_id=A, reason="executor e0 has stopped reporting"),
    ),
}


@pytest.mark.parametrize(("event", "job", "want"), ENDS.values(), ids=ENDS.keys())
def test_the_end_of_a_run(event: ev.AnyEvent, job: dict[str, object], want: ev.AnyEvent) -> None:
    units = decide(ended(event, **job), held("a-1"))
    assert events(units) == [want]
    assert [(r.key, r.value) for r in units[0].leases] == [("a-1", None)]


def test_a_retry_counts_avoids_the_node_and_asks_for_more_memory() -> None:
    shape = shapes.Shape(requests={"cpu": 1000, "memory": 100})
    view = ended(FAILED, retry=RETRY, shape=shapes.encode(shape))
    (event,) = events(decide(view, held("a-1")))
    assert isinstance(event, ev.JobRequeued)
    assert event.counted
    assert event.avoid_node == "e0/n0"
    assert shapes.decode(event.shape).requests == {"cpu": 1000, "memory": 200}


def test_the_last_retry_is_the_last() -> None:
    view = fold(
        [submitted("a", retry=RETRY)],
        [leased("a")],
        [FAILED],
        [ev.JobRequeued(job_id=A, reason="", counted=True)],
        [leased("a", run=2)],
        [ev.JobRunFailed(job_id=A, run=2, category=FailureCategory.OOM, reason="again")],
    )
    (event,) = events(decide(view, held("a-2")))
    assert isinstance(event, ev.JobFailed)


def test_a_job_that_was_to_be_cancelled_is_cancelled_however_its_run_failed() -> None:
    view = fold(
        [submitted("a")], [leased("a")], [ev.JobCancelRequested(job_id=A, reason="why")], [FAILED]
    )
    assert events(decide(view, held("a-1"))) == [ev.JobCancelled(job_id=A, reason="why")]


def test_a_preempted_job_is_queued_again_or_ends_as_its_policy_says() -> None:
    for policy, kind in (("requeue", ev.JobRequeued), ("fail", ev.JobPreempted)):
        view = fold(
            [submitted("a", on_preemption=policy)],
            [leased("a")],
            [ev.JobPreemptRequested(job_id=A)],
            [STOPPED],
        )
        (event,) = events(decide(view, held("a-1")))
        assert type(event) is kind


def test_a_run_that_is_to_stop_is_told_so_once() -> None:
    view = fold([submitted("a")], [leased("a")], [ev.JobCancelRequested(job_id=A, reason="why")])
    (unit,) = decide(view, held("a-1"))
    (record,) = unit.leases
    assert record.value is not None
    lease = leases.decode(record.value)
    assert (record.key, lease.wish, lease.why) == ("a-1", Wish.STOP, "why")
    assert decide(view, held("a-1", wish=Wish.STOP)) == []


def test_a_job_queued_for_longer_than_it_wanted_is_cancelled() -> None:
    view = fold([submitted("a", queue_s_max=5)])
    assert decide(view, held(), now_ms=4_999) == []
    (event,) = events(decide(view, held(), now_ms=5_000))
    assert isinstance(event, ev.JobCancelled)
    assert "5 s" in event.reason


def test_runs_on_a_lost_executor_are_given_up_with_their_leases() -> None:
    view = fold([submitted("a")], [leased("a")])
    (unit,) = decide(view, held("a-1"), lost=frozenset({"e0"}))
    (event,) = events([unit])
    assert isinstance(event, ev.JobRunLost)
    assert [(r.key, r.value) for r in unit.leases] == [("a-1", None)]


def test_the_lease_of_a_run_that_outlived_its_job_is_cleared() -> None:
    view = fold(
        [submitted("a")],
        [ev.JobCancelRequested(job_id=A)],
        [leased("a")],
        [ev.JobRunStopped(job_id=A, run=1, reason="")],
    )
    (unit,) = decide(view, held("a-1", wish=Wish.STOP))
    assert [(r.key, r.value) for r in unit.leases] == [("a-1", None)]


def test_a_new_leader_finds_the_leases_that_nobody_wants() -> None:
    view = fold(
        [submitted("a"), submitted("b")],
        [leased("a"), leased("b")],
        [ev.JobRunSucceeded(job_id=A, run=1), ev.JobSucceeded(job_id=A)],
    )
    assert list(leasing.unwanted(view, held("a-1", "b-1", "x-1"))) == ["a-1", "x-1"]


def test_what_a_round_must_leave_alone_is_marked() -> None:
    view = fold([submitted("a", queue_s_max=5), submitted("b")])
    kept = housekeeping.decide(view, held(), frozenset(), now_ms=9_000, unstarted_max=3)
    marked = [view.jobs.ids[row] for row in kept.left_out.nonzero()[0]]
    assert marked == ["a"]
