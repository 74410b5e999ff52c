"""The executor between log and cluster: what a turn appends, and what a successor is left."""

import msgspec
import pytest

from fairlead_common.domain import timers
from fairlead_common.domain.records import clusters, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat, Node
from fairlead_common.domain.records.leases import DesiredState, Lease
from fairlead_common.log.protocol import Entry
from fairlead_common.log.topics import CLUSTERS, JOBS
from fairlead_executor.backends.simulated import SimulatedCluster, Simulation
from fairlead_executor.backends.simulated.behaviour import FAILURE, SECONDS, STOP_SECONDS
from fairlead_executor.domain import executor_state
from fairlead_executor.domain.executor_state import ExecutorState, ReconcilePlan
from fairlead_executor.domain.pods import Phase
from fairlead_executor.domain.start_failures import StartFailures
from tests.unit.executor.build import lease, run


def node(name: str, cores: int = 4) -> Node:
    return Node(executor="e", name=name, allocatable={"cpu": 1000 * cores})


def simulated(*nodes: Node) -> SimulatedCluster:
    return SimulatedCluster(nodes or [node("n0")], Simulation(min_s=10), lambda: 0)


def entries(*several: Lease, at: int = 0) -> list[Entry]:
    made = []
    for number, each in enumerate(several):
        record = leases.record("e", each)
        made.append(Entry(0, at + number, record.key, record.value, 0))
    return made


def cleared(name: str, at: int) -> Entry:
    return Entry(0, at, run(name), None, 0)


def begun(cluster: SimulatedCluster, *several: Lease) -> ExecutorState:
    """A state that has taken over and read these leases."""
    state = ExecutorState("e", cluster, instance="i")
    state.take_over([], 0, None, ())
    state.fold_leases(entries(*several), len(several))
    return state


def test_a_lease_that_its_reader_decoded_is_not_decoded_again() -> None:
    state, given = begun(simulated()), lease("a")
    (entry,) = entries(given)
    state.fold_leases([msgspec.structs.replace(entry, decoded=given)], 1)
    assert state.desired[run("a")].lease is given


def test_what_only_the_creation_of_a_pod_reads_is_freed_after_it() -> None:
    given = msgspec.structs.replace(
        lease("a"),
        env={"A": "1"},
        labels={"team": "a"},
        annotations={"note": "a"},
        requests={"cpu": 1000},
        runtime_s_max=60,
    )
    state = begun(simulated(), given)
    turn(state, 0)
    left = state.desired[run("a")].lease
    assert (left.env, left.labels, left.annotations, left.requests) == ({}, {}, {}, {})
    assert bytes(left.spec) == b""
    assert left.runtime_s_max == 60
    assert run("a") in state.cluster.pods


def turn(state: ExecutorState, now_ms: int) -> ReconcilePlan:
    """A turn that goes well."""
    a_turn = state.plan(now_ms)
    state.apply(a_turn, now_ms)
    return a_turn


def told(a_turn: ReconcilePlan) -> list[str]:
    """The reports of a turn in short."""
    return [
        f"{type(event).__name__} {event.job_id[0]}"
        for record in a_turn.records
        if record.topic == JOBS and record.value is not None
        for event in ev.decode(record.value).events
        if isinstance(event, ev.RunEvent)
    ]


def beat(a_turn: ReconcilePlan) -> Heartbeat:
    """The heartbeat of a turn."""
    assert a_turn.heartbeat is not None
    return a_turn.heartbeat


def test_a_run_stopped_before_its_start_ends_at_once() -> None:
    state = begun(simulated(), lease("a"), lease("b", after=("a",)))
    turn(state, 1_000)
    state.fold_leases(entries(lease("b", desired_state=DesiredState.STOP), at=2), 3)
    turn(state, 2_000)
    state.fold_leases([cleared("b", 3)], 4)
    assert state._waiting_for == {}


def test_each_step_of_a_run_is_reported() -> None:
    state = begun(simulated(), lease("a", annotations={SECONDS: "2"}))
    assert told(turn(state, 1_000)) == ["JobRunPending a"]
    assert told(turn(state, 1_500)) == ["JobRunRunning a"]
    assert told(turn(state, 3_100)) == ["JobRunSucceeded a"]
    assert told(turn(state, 3_200)) == []
    state.fold_leases([cleared("a", 7)], 8)
    turn(state, 3_300)
    assert not state.cluster.pods


def test_reports_of_a_job_set_share_one_message() -> None:
    several = [
        lease(f"{letter}", job_set=job_set) for letter, job_set in zip("abcd", "xyxy", strict=True)
    ]
    records = [r for r in turn(begun(simulated(), *several), 0).records if r.topic == JOBS]
    assert [record.key for record in records] == ["q/x", "q/y"]


def test_an_append_of_pending_runs_holds_the_position_of_the_leases() -> None:
    state = begun(simulated(), lease("a"))
    assert beat(turn(state, 0)).leases_position == 1
    state.fold_leases(entries(lease("b"), at=1), 2)
    assert beat(turn(state, 10)).leases_position == 2


def test_a_heartbeat_alone_is_sent_only_when_it_is_due() -> None:
    state = begun(simulated())
    turn(state, 0)
    assert turn(state, 4_999).heartbeat is None
    assert beat(turn(state, 5_000)).instance == "i"


def test_a_clock_that_is_set_back_delays_no_heartbeat() -> None:
    state = begun(simulated())
    assert turn(state, 3_600_000).heartbeat is not None
    assert state.idle_s(0) <= 5.0
    assert turn(state, 0).heartbeat is not None
    assert turn(state, 4_999).heartbeat is None
    assert turn(state, 5_000).heartbeat is not None


def test_a_lease_that_waits_for_another_run_is_named_in_the_heartbeat() -> None:
    victim = lease("a", annotations={STOP_SECONDS: "5"})
    state = begun(simulated(), victim)
    turn(state, 0)
    turn(state, 10)
    state.fold_leases(
        entries(
            lease("a", desired_state=DesiredState.STOP), lease("b", after=("a",)), lease("c"), at=1
        ),
        4,
    )
    a_turn = turn(state, 20)
    assert told(a_turn) == ["JobRunPending c"]
    assert beat(a_turn).leases_waiting == (2,)
    after = told(turn(state, 6_000))
    assert sorted(after) == ["JobRunPending b", "JobRunRunning c", "JobRunStopped a"]


def test_a_successor_creates_waiting_runs_and_rules_out_pending_runs() -> None:
    cluster = simulated()
    state = ExecutorState("e", cluster)
    before = Heartbeat(executor="e", leases_position=2, leases_waiting=(1,))
    newest = entries(lease("a"), lease("b"), lease("c"))
    state.take_over(newest, 3, before, ())
    a_turn = turn(state, 0)
    assert sorted(told(a_turn)) == ["JobRunPending b", "JobRunPending c"]
    assert sorted(told(turn(state, 1))) == ["JobRunLost a", "JobRunRunning b", "JobRunRunning c"]
    assert cluster.pods[run("a")].phase is Phase.ENDED


def test_an_abandoned_plan_is_made_again() -> None:
    state = begun(simulated(), lease("a"))
    state.plan(0)
    state.discard_plan()
    assert told(turn(state, 1)) == ["JobRunPending a"]


def test_nodes_are_reported_at_the_start_and_on_every_change() -> None:
    cluster = simulated(node("n0"), node("n1"))
    state = begun(cluster)
    assert sorted(turn(state, 0).nodes) == ["n0", "n1"]
    assert turn(state, 1).nodes == {}
    cluster.lose_node("n1")
    cluster.add_node(node("n0", cores=8))
    assert turn(state, 2).nodes == {"n0": node("n0", cores=8), "n1": None}


def test_a_successor_reports_removed_nodes() -> None:
    state = ExecutorState("e", simulated(node("n0")))
    state.take_over([], 0, None, [node("n0"), node("old")])
    a_turn = turn(state, 0)
    gone = [record for record in a_turn.records if record.value is None]
    assert [(record.topic, record.key) for record in gone] == [(CLUSTERS, "e/old")]
    assert clusters.node_record(node("n0")) not in a_turn.records


def test_a_run_is_stopped_at_its_maximum_run_time_without_any_event() -> None:
    state = begun(simulated(), lease("a", runtime_s_max=3))
    turn(state, 1_000)
    turn(state, 1_001)
    assert state.idle_s(1_001) < 3.0
    turn(state, 4_000)
    assert state.cluster.pods[run("a")].stopping
    a_turn = turn(state, 4_001)
    assert told(a_turn) == ["JobRunFailed a"]


def test_a_maximum_run_time_that_ends_after_the_next_full_pass_is_enforced_in_time() -> None:
    state = begun(simulated(), lease("a", runtime_s_max=14, annotations={SECONDS: "60"}))
    turn(state, 1_000)
    turn(state, 1_001)
    turn(state, 11_000)
    assert state.idle_s(11_000) == 4.0
    turn(state, 15_000)
    assert state.cluster.pods[run("a")].stopping


def test_a_run_that_changed_twice_is_examined_once() -> None:
    state = begun(simulated(), lease("a"))
    state.fold_leases(entries(lease("a"), at=1), 2)
    assert told(turn(state, 0)) == ["JobRunPending a"]


def test_runs_that_ended_before_their_maximum_run_time_leave_no_timer() -> None:
    state = begun(simulated(*(node(f"n{number}", cores=100) for number in range(10))))
    for number in range(20):
        some = [
            lease(f"a{number:03}b{each:03}c", node=f"n{each % 10}", runtime_s_max=86_400)
            for each in range(200)
        ]
        state.fold_leases(entries(*some, at=number), number + 1)
        for step_ms in (0, 1, 10_000, 10_001):
            turn(state, 20_000 * number + step_ms)
        state.fold_leases([cleared(each.job_id.rstrip("0"), number) for each in some], number + 1)
        turn(state, 20_000 * number + 10_002)
    assert not state.desired
    assert not state.cluster.pods
    assert state._deadlines.held <= timers.SPARE


def test_folding_the_lease_topic_again_changes_nothing_but_what_has_ended() -> None:
    state = begun(simulated(), lease("a"), lease("b"))
    turn(state, 0)
    state.fold_leases([*entries(lease("b")), Entry(0, 8, run("a"), None, 0)], 9)
    assert state.desired.keys() == {run("b")}
    turn(state, 1)
    assert state.cluster.pods[run("a")].stopping


def test_a_turn_takes_a_bounded_number_of_runs() -> None:
    count = executor_state.RUNS_PER_PASS_MAX + 5
    state = begun(simulated(), *(lease(f"a{number:06}b") for number in range(count)))
    assert state.has_more_due
    first = turn(state, 0)
    assert len(told(first)) == executor_state.RUNS_PER_PASS_MAX
    assert len(beat(first).leases_waiting) == 5
    assert not state.has_more_due


def test_closing_stops_live_runs_and_reports_why() -> None:
    state = begun(simulated(), lease("a"), lease("b"))
    turn(state, 0)
    turn(state, 1)
    state.begin_shutdown(5)
    turn(state, 2)
    a_turn = turn(state, 3)
    assert told(a_turn) == ["JobRunStopped a", "JobRunStopped b"]
    assert state.live_pods == 0


@pytest.mark.parametrize("times", [1, 2])
def test_repeated_leases_change_nothing(times: int) -> None:
    state = begun(simulated())
    for _ in range(times):
        state.fold_leases(entries(lease("a")), 1)
    assert told(turn(state, 0)) == ["JobRunPending a"]
    state.fold_leases(entries(lease("a")), 1)
    assert told(turn(state, 1)) == ["JobRunRunning a"]


def test_a_node_that_fails_to_start_runs_is_reported_as_avoided_until_a_run_starts() -> None:
    cluster = simulated(node("n0"), node("n1"))
    state = ExecutorState("e", cluster, start_failures=StartFailures(2, 60))
    state.take_over([], 0, None, ())
    fails = {FAILURE: "returned"}
    state.fold_leases(entries(*(lease(name, annotations=fails) for name in "ab")), 2)
    turn(state, 1_000)
    assert turn(state, 2_000).nodes == {}
    marked = turn(state, 3_000).nodes["n0"]
    assert marked is not None
    assert marked.avoided is not None
    assert (marked.unschedulable, marked.avoided.until_ms) == (True, 62_000)
    state.fold_leases(entries(lease("c"), at=2), 3)
    turn(state, 4_000)
    turn(state, 5_000)
    assert turn(state, 6_000).nodes == {"n0": node("n0")}


def test_a_node_is_offered_again_after_its_time() -> None:
    state = ExecutorState("e", simulated(), start_failures=StartFailures(1, 60))
    state.take_over([], 0, None, ())
    state.fold_leases(entries(lease("a", annotations={FAILURE: "returned"})), 1)
    for now_ms in (1_000, 2_000, 3_000):
        turn(state, now_ms)
    turn(state, 61_500)
    assert state.idle_s(61_500) == 0.5
    assert turn(state, 62_000).nodes == {"n0": node("n0")}
