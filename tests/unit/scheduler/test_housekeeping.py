"""What a cycle decides before it schedules."""

import msgspec
import pytest

from fairlead_common.domain.ids import JobId, RunId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import clusters as records
from fairlead_common.domain.records import configuration, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat, Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.records.events import FailureCategory, RetryPolicy
from fairlead_common.domain.records.leases import DesiredState
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import Entry
from fairlead_scheduler.rules import housekeeping, lease_changes
from fairlead_scheduler.rules.append_batches import AppendBatch
from fairlead_scheduler.rules.housekeeping import Housekeeping, HousekeepingLimits
from fairlead_scheduler.rules.lease_changes import Leases, LeaseState
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.deadlines import Deadlines
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.job_table import NodeName
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import fold, leased, message, submitted

A = JobId("a")


def held(*runs: str, desired_state: DesiredState = DesiredState.RUN) -> Leases:
    """Live leases on executor `e0`."""
    made = Leases()
    made.by_run = {RunId(run): LeaseState("e0", desired_state) for run in runs}
    return made


def reported(what: Heartbeat | Node) -> Entry:
    """What an executor says of itself or of a node."""
    made = records.heartbeat_record if isinstance(what, Heartbeat) else records.node_record
    record = made(what)  # type: ignore[arg-type]  # the two match
    return Entry(0, 0, record.key, record.value, 0)


BOUNDS = HousekeepingLimits(stale_s=30, lost_s=600, node_gone_s=60, deadline_s=10, unstarted=3)


def kept(
    view: View,
    live: Leases,
    now_ms: int = 10_000,
    queues: Queues | None = None,
    clusters: Clusters | None = None,
) -> Housekeeping:
    world = (queues or Queues(), clusters or Clusters())
    watch = Deadlines(round(1000 * BOUNDS.deadline_s))
    return housekeeping.decide_housekeeping(view, watch, live, *world, BOUNDS, now_ms=now_ms)


def decide(
    view: View,
    live: Leases,
    now_ms: int = 10_000,
    queues: Queues | None = None,
    clusters: Clusters | None = None,
) -> list[AppendBatch]:
    return list(kept(view, live, now_ms, queues, clusters).batches())


def events(units: list[AppendBatch]) -> list[ev.AnyEvent]:
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
    assert [(change.run, change.state) for change in units[0].leases] == [("a-1", None)]


def test_a_retry_is_counted_avoids_the_node_and_gets_more_memory() -> None:
    shape = shapes.Shape(requests={"cpu": 1000, "memory": 100})
    view = ended(FAILED, retry=RETRY, shape=shapes.encode(shape))
    (event,) = events(decide(view, held("a-1")))
    assert isinstance(event, ev.JobRequeued)
    assert event.counted
    assert event.avoid_node == "e0/n0"
    assert shapes.decode(event.shape).requests == {"cpu": 1000, "memory": 200}


def test_no_retry_follows_the_last_one() -> None:
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


def test_a_cancelling_job_is_cancelled_whatever_the_end_of_its_run() -> None:
    view = fold(
        [submitted("a")], [leased("a")], [ev.JobCancelRequested(job_id=A, reason="why")], [FAILED]
    )
    assert events(decide(view, held("a-1"))) == [ev.JobCancelled(job_id=A, reason="why")]


def test_a_preempted_job_is_requeued_or_ends_by_its_policy() -> None:
    for policy, kind in (("requeue", ev.JobRequeued), ("fail", ev.JobPreempted)):
        view = fold(
            [submitted("a", on_preemption=policy)],
            [leased("a")],
            [ev.JobPreemptRequested(job_id=A)],
            [STOPPED],
        )
        (event,) = events(decide(view, held("a-1")))
        assert type(event) is kind


def test_a_stop_is_sent_once() -> None:
    view = fold([submitted("a")], [leased("a")], [ev.JobCancelRequested(job_id=A, reason="why")])
    (unit,) = decide(view, held("a-1"))
    record = unit.leases[0].record
    assert record.value is not None
    lease = leases.decode(record.value)
    assert (record.key, lease.desired_state, lease.reason) == ("a-1", DesiredState.STOP, "why")
    assert decide(view, held("a-1", desired_state=DesiredState.STOP)) == []


def test_a_stopping_run_is_examined_again_when_its_job_changes() -> None:
    view = fold([submitted("a")], [leased("a")], [ev.JobPreemptRequested(job_id=A)])
    watch, live = Deadlines(), held("a-1")
    world = (Queues(), Clusters())

    def told() -> list[str]:
        """The runs whose leases are written now."""
        units = housekeeping.decide_housekeeping(
            view, watch, live, *world, BOUNDS, now_ms=10_000
        ).batches()
        changes = [change for unit in units for change in unit.leases]
        live.apply(changes)
        return [change.run for change in changes]

    assert told() == ["a-1"]
    assert told() == []
    again: list[ev.AnyEvent] = [ev.JobRequeued(job_id=A, reason="again"), leased("a", run=2)]
    job_fold.fold_messages(view, [message(3, *again, ev.JobPreemptRequested(job_id=A))], {})
    live.by_run[RunId("a-2")] = LeaseState("e0", DesiredState.RUN)
    assert told() == ["a-2"]
    assert told() == []


def test_a_job_beyond_its_maximum_queue_time_is_cancelled() -> None:
    view = fold([submitted("a", queue_s_max=5)])
    assert decide(view, held(), now_ms=4_999) == []
    (event,) = events(decide(view, held(), now_ms=5_000))
    assert isinstance(event, ev.JobCancelled)
    assert "5 s" in event.reason


def silent(seconds: float) -> Clusters:
    """Executor `e0` reported this long ago."""
    clusters = Clusters()
    clusters.fold([reported(Heartbeat(executor="e0"))])
    clusters.add_silence(0)
    clusters.add_silence(seconds)
    return clusters


def test_runs_on_a_lost_executor_are_given_up_with_leases_to_stop() -> None:
    view = fold([submitted("a")], [leased("a")])
    (unit,) = decide(view, held("a-1"), clusters=silent(601))
    (event,) = events([unit])
    assert isinstance(event, ev.JobRunLost)
    (change,) = unit.leases
    assert (change.run, change.state) == ("a-1", LeaseState("e0", DesiredState.STOP, given_up=True))


LOST_AND_QUEUED: tuple[list[ev.AnyEvent], ...] = (
    [submitted("a")],
    [leased("a")],
    [LOST],
    [ev.JobRequeued(job_id=A, reason="lost")],
)
SUCCEEDED = ev.JobRunSucceeded(job_id=A, run=1)


def given_up() -> Leases:
    """The lease of run `a-1`, which was given up."""
    live = held("a-1", desired_state=DesiredState.STOP)
    live.given_up = {RunId("a-1"): A}
    return live


def excluded(view: View, live: Leases, clusters: Clusters) -> list[str]:
    """The jobs that a round leaves alone."""
    rows = sorted(kept(view, live, clusters=clusters).excluded)
    return [view.jobs.rows.id_at(row) for row in rows]


def test_a_job_waits_until_the_executor_of_its_lost_run_reports_the_end_or_is_lost() -> None:
    view = fold(*LOST_AND_QUEUED)
    assert excluded(view, given_up(), silent(1)) == ["a"]
    assert excluded(view, given_up(), silent(601)) == []
    assert excluded(view, given_up(), Clusters()) == []
    assert excluded(view, held(), silent(1)) == []


def test_the_requeuing_of_a_lost_run_leaves_its_lease_to_the_executor() -> None:
    view = fold([submitted("a")], [leased("a")], [LOST])
    (unit,) = decide(view, given_up())
    assert [type(event) for event in events([unit])] == [ev.JobRequeued]
    assert unit.leases == ()


def test_the_lease_of_a_lost_run_is_cleared_when_its_end_is_reported() -> None:
    stopped = ev.JobRunStopped(job_id=A, run=1, reason="")
    live = given_up()
    (unit,) = decide(fold(*LOST_AND_QUEUED, [stopped]), live, clusters=silent(1))
    assert [(change.run, change.state) for change in unit.leases] == [("a-1", None)]
    assert unit.facts == ()
    live.apply(unit.leases)
    assert live.given_up == {}


def test_the_lease_of_a_lost_run_is_cleared_when_its_job_has_ended() -> None:
    view = fold(*LOST_AND_QUEUED, [ev.JobCancelRequested(job_id=A)])
    (unit,) = decide(view, given_up(), clusters=silent(1))
    assert [(change.run, change.state) for change in unit.leases] == [("a-1", None)]


def test_a_lost_run_that_had_succeeded_is_the_success_of_its_job() -> None:
    next_run = leased("a", run=2)
    histories: tuple[list[ev.AnyEvent], ...] = (
        [SUCCEEDED],
        [SUCCEEDED, next_run],
        [next_run, SUCCEEDED],
    )
    for history in histories:
        view = fold(*LOST_AND_QUEUED, history)
        found = decide(view, held("a-2"), clusters=silent(1))
        assert [type(event) for event in events(found)] == [ev.JobSucceeded]


def test_a_run_after_a_late_success_is_stopped_before_it_starts() -> None:
    view = fold(*LOST_AND_QUEUED, [leased("a", run=2)], [SUCCEEDED])
    (unit,) = decide(view, held("a-2"), clusters=silent(1))
    (change,) = unit.leases
    assert (change.run, change.state) == ("a-2", LeaseState("e0", DesiredState.STOP))
    job_fold.fold_messages(view, [message(9, ev.JobSucceeded(job_id=A))], {})
    assert view.state_of(A) is JobState.SUCCEEDED
    assert decide(view, held("a-2", desired_state=DesiredState.STOP)) == []


def test_a_success_before_the_requeue_counts() -> None:
    early = fold(*LOST_AND_QUEUED[:3], [SUCCEEDED])
    assert [type(event) for event in events(decide(early, given_up()))] == [ev.JobSucceeded]
    between = fold(*LOST_AND_QUEUED[:3], [SUCCEEDED], LOST_AND_QUEUED[3])
    assert [type(event) for event in events(decide(between, given_up()))] == [ev.JobSucceeded]


def test_a_success_after_the_start_of_the_next_run_is_ignored() -> None:
    pending = ev.JobRunPending(job_id=A, run=2)
    view = fold(*LOST_AND_QUEUED, [leased("a", run=2), pending], [SUCCEEDED])
    assert decide(view, held("a-2"), clusters=silent(1)) == []


def test_a_failure_of_a_lost_run_does_not_end_its_job() -> None:
    view = fold(*LOST_AND_QUEUED, [FAILED])
    assert decide(view, held(), clusters=silent(1)) == []
    assert view.state_of(A) is JobState.QUEUED


def test_a_new_leader_leaves_the_leases_of_lost_runs_to_their_executors() -> None:
    live = held("a-1", desired_state=DesiredState.STOP)
    assert lease_changes.find_unwanted_leases(fold(*LOST_AND_QUEUED), live) == []
    assert live.given_up == {"a-1": A}


def test_a_node_lost_run_is_retried_once_by_default() -> None:
    lost = ev.JobRunFailed(job_id=A, run=1, category=FailureCategory.NODE_LOST, reason="killed")
    (event,) = events(decide(ended(lost), held("a-1")))
    assert isinstance(event, ev.JobRequeued)
    assert event.counted
    again = msgspec.structs.replace(lost, run=2)
    view = fold([submitted("a")], [leased("a")], [lost], [event], [leased("a", run=2)], [again])
    (event,) = events(decide(view, held("a-2")))
    assert isinstance(event, ev.JobFailed)
    (event,) = events(decide(ended(lost, retry=RetryPolicy()), held("a-1")))
    assert isinstance(event, ev.JobFailed)


def test_the_lease_of_a_run_is_cleared_after_its_job_ended() -> None:
    view = fold(
        [submitted("a")],
        [ev.JobCancelRequested(job_id=A)],
        [leased("a")],
        [ev.JobRunStopped(job_id=A, run=1, reason="")],
    )
    (unit,) = decide(view, held("a-1", desired_state=DesiredState.STOP))
    assert [(change.run, change.state) for change in unit.leases] == [("a-1", None)]


def test_a_new_leader_finds_orphaned_leases() -> None:
    view = fold(
        [submitted("a"), submitted("b")],
        [leased("a"), leased("b")],
        [ev.JobRunSucceeded(job_id=A, run=1), ev.JobSucceeded(job_id=A)],
    )
    assert list(lease_changes.find_unwanted_leases(view, held("a-1", "b-1", "x-1"))) == [
        "a-1",
        "x-1",
    ]


def test_rows_excluded_from_rounds_are_marked() -> None:
    view = fold([submitted("a", queue_s_max=5), submitted("b")])
    excluded = kept(view, held(), now_ms=9_000).excluded
    marked = [view.jobs.rows.id_at(row) for row in sorted(excluded)]
    assert marked == ["a"]


def test_the_retry_policy_of_a_queue_applies_only_to_jobs_without_one() -> None:
    queues = Queues()
    queue = Queue(name="q", retry_policy=RetryPolicy(limit=1, on=(FailureCategory.OOM,)))
    record = configuration.record(queue)
    queues.fold([Entry(0, 0, record.key, record.value, 0)], Clusters())
    (event,) = events(decide(ended(FAILED), held("a-1"), queues=queues))
    assert isinstance(event, ev.JobRequeued)
    (event,) = events(decide(ended(FAILED, retry=RetryPolicy()), held("a-1"), queues=queues))
    assert isinstance(event, ev.JobFailed)


def test_more_memory_is_limited_by_the_largest_node_of_the_pool() -> None:
    clusters = Clusters()
    for name, memory in (("n0", 130), ("n1", 150)):
        allocatable = {"memory": memory}
        clusters.fold([reported(Node(executor="e0", name=name, allocatable=allocatable))])
    shape = shapes.Shape(requests={"cpu": 1000, "memory": 100})
    view = ended(FAILED, retry=RETRY, shape=shapes.encode(shape))
    (event,) = events(decide(view, held("a-1"), clusters=clusters))
    assert isinstance(event, ev.JobRequeued)
    assert shapes.decode(event.shape).requests["memory"] == 150


def test_a_run_beyond_its_maximum_fails_after_the_deadline_grace() -> None:
    running = ev.JobRunRunning(job_id=A, run=1)
    view = fold([submitted("a", runtime_s_max=5, grace_s=2)], [leased("a")], [running])
    started_ms = int(view.jobs.running_ms[view.jobs.rows[A]])
    due_ms = started_ms + 1000 * (5 + 2 + 10)
    assert decide(view, held("a-1"), now_ms=due_ms - 1) == []
    (unit,) = decide(view, held("a-1"), now_ms=due_ms)
    record = unit.leases[0].record
    lease = leases.decode(record.value or b"")
    assert (lease.desired_state, lease.failure) == (DesiredState.STOP, FailureCategory.DEADLINE)
    assert "5 s" in lease.reason
    assert decide(view, held("a-1", desired_state=DesiredState.STOP), now_ms=due_ms) == []


def test_a_run_that_has_not_started_has_no_deadline() -> None:
    view = fold([submitted("a", runtime_s_max=5)], [leased("a")])
    assert decide(view, held("a-1"), now_ms=10**9) == []


def test_runs_on_a_removed_node_are_given_up_after_a_delay() -> None:
    node = Node(executor="e0", name="n0", allocatable={})
    gone = records.removed_node_record("e0", "n0")
    clusters = Clusters()
    clusters.fold([reported(Heartbeat(executor="e0")), reported(node)])
    clusters.fold([Entry(0, 0, gone.key, None, 0)])
    view = fold([submitted("a")], [leased("a")])
    for silence_s, want in ((59, 0), (2, 1)):
        clusters.fold([reported(Heartbeat(executor="e0"))])
        clusters.add_silence(silence_s)
        assert len(decide(view, held("a-1"), clusters=clusters)) == want
    (event,) = events(decide(view, held("a-1"), clusters=clusters))
    assert isinstance(event, ev.JobRunLost)
    assert event.reason == "executor e0 no longer reports node n0"


def test_runs_stay_on_a_node_that_comes_back_in_time() -> None:
    node = Node(executor="e0", name="n0", allocatable={})
    gone = records.removed_node_record("e0", "n0")
    clusters = Clusters()
    clusters.fold([reported(node), Entry(0, 0, gone.key, None, 0)])
    clusters.add_silence(30)
    clusters.fold([reported(node)])
    clusters.add_silence(90)
    assert decide(fold([submitted("a")], [leased("a")]), held("a-1"), clusters=clusters) == []


def test_a_new_leader_detects_nodes_removed_before_its_term() -> None:
    clusters = Clusters()
    clusters.expect_nodes([NodeName("e0", "n0")])
    clusters.add_silence(61)
    view = fold([submitted("a")], [leased("a")])
    assert len(decide(view, held("a-1"), clusters=clusters)) == 1
