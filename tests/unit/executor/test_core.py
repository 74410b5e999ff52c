"""The executor between log and cluster: what a turn appends, and what a successor is left."""

import pytest

from fairlead_common.domain import timers
from fairlead_common.domain.records import clusters, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat, Node
from fairlead_common.domain.records.leases import DesiredState, Lease
from fairlead_common.log.protocol import Entry
from fairlead_common.log.topics import CLUSTERS, JOBS
from fairlead_executor import core as core_module
from fairlead_executor.backends.simulated import SimulatedCluster, Simulation
from fairlead_executor.backends.simulated.behaviour import SECONDS, STOP_SECONDS
from fairlead_executor.core import Core, Turn
from fairlead_executor.pods import Phase
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


def begun(cluster: SimulatedCluster, *several: Lease) -> Core:
    """A core that has taken over and read these leases."""
    core = Core("e", cluster, instance="i")
    core.take_over([], 0, None, ())
    core.fold(entries(*several), len(several))
    return core


def turn(core: Core, now_ms: int) -> Turn:
    """A turn that goes well."""
    a_turn = core.plan(now_ms)
    core.done(a_turn, now_ms)
    return a_turn


def told(a_turn: Turn) -> list[str]:
    """The reports of a turn in short."""
    return [
        f"{type(event).__name__} {event.job_id[0]}"
        for record in a_turn.records
        if record.topic == JOBS and record.value is not None
        for event in ev.decode(record.value).events
        if isinstance(event, ev.RunEvent)
    ]


def beat(a_turn: Turn) -> Heartbeat:
    """The heartbeat of a turn."""
    assert a_turn.heartbeat is not None
    return a_turn.heartbeat


def test_a_run_that_was_stopped_before_it_began_waits_for_nothing() -> None:
    core = begun(simulated(), lease("a"), lease("b", after=("a",)))
    turn(core, 1_000)
    core.fold(entries(lease("b", wish=DesiredState.STOP), at=2), 3)
    turn(core, 2_000)
    core.fold([cleared("b", 3)], 4)
    assert core._waiting_for == {}


def test_a_run_is_told_step_by_step() -> None:
    core = begun(simulated(), lease("a", annotations={SECONDS: "2"}))
    assert told(turn(core, 1_000)) == ["JobRunPending a"]
    assert told(turn(core, 1_500)) == ["JobRunRunning a"]
    assert told(turn(core, 3_100)) == ["JobRunSucceeded a"]
    assert told(turn(core, 3_200)) == []
    core.fold([cleared("a", 7)], 8)
    turn(core, 3_300)
    assert not core.cluster.pods


def test_reports_of_a_job_set_go_into_one_message() -> None:
    several = [
        lease(f"{letter}", job_set=job_set) for letter, job_set in zip("abcd", "xyxy", strict=True)
    ]
    records = [r for r in turn(begun(simulated(), *several), 0).records if r.topic == JOBS]
    assert [record.key for record in records] == ["q/x", "q/y"]


def test_an_append_that_tells_pending_says_how_far_leases_are_taken_up() -> None:
    core = begun(simulated(), lease("a"))
    assert beat(turn(core, 0)).leases_position == 1
    core.fold(entries(lease("b"), at=1), 2)
    assert beat(turn(core, 10)).leases_position == 2


def test_a_heartbeat_comes_by_itself_only_when_it_is_due() -> None:
    core = begun(simulated())
    turn(core, 0)
    assert turn(core, 4_999).heartbeat is None
    assert beat(turn(core, 5_000)).instance == "i"


def test_a_clock_that_is_set_back_delays_no_heartbeat() -> None:
    core = begun(simulated())
    assert turn(core, 3_600_000).heartbeat is not None
    assert core.idle_s(0) <= 5.0
    assert turn(core, 0).heartbeat is not None
    assert turn(core, 4_999).heartbeat is None
    assert turn(core, 5_000).heartbeat is not None


def test_a_lease_that_waits_for_another_run_is_named_in_the_heartbeat() -> None:
    victim = lease("a", annotations={STOP_SECONDS: "5"})
    core = begun(simulated(), victim)
    turn(core, 0)
    turn(core, 10)
    core.fold(
        entries(lease("a", wish=DesiredState.STOP), lease("b", after=("a",)), lease("c"), at=1), 4
    )
    a_turn = turn(core, 20)
    assert told(a_turn) == ["JobRunPending c"]
    assert beat(a_turn).leases_waiting == (2,)
    after = told(turn(core, 6_000))
    assert sorted(after) == ["JobRunPending b", "JobRunRunning c", "JobRunStopped a"]


def test_a_successor_creates_what_waited_and_rules_out_what_was_told_pending() -> None:
    cluster = simulated()
    core = Core("e", cluster)
    before = Heartbeat(executor="e", leases_position=2, leases_waiting=(1,))
    newest = entries(lease("a"), lease("b"), lease("c"))
    core.take_over(newest, 3, before, ())
    a_turn = turn(core, 0)
    assert sorted(told(a_turn)) == ["JobRunPending b", "JobRunPending c"]
    assert sorted(told(turn(core, 1))) == ["JobRunLost a", "JobRunRunning b", "JobRunRunning c"]
    assert cluster.pods[run("a")].phase is Phase.ENDED


def test_a_plan_that_was_given_up_is_made_again() -> None:
    core = begun(simulated(), lease("a"))
    core.plan(0)
    core.again()
    assert told(turn(core, 1)) == ["JobRunPending a"]


def test_nodes_are_told_once_and_when_they_change() -> None:
    cluster = simulated(node("n0"), node("n1"))
    core = begun(cluster)
    assert sorted(turn(core, 0).nodes) == ["n0", "n1"]
    assert turn(core, 1).nodes == {}
    cluster.lose_node("n1")
    cluster.add_node(node("n0", cores=8))
    assert turn(core, 2).nodes == {"n0": node("n0", cores=8), "n1": None}


def test_a_successor_takes_back_nodes_that_are_gone() -> None:
    core = Core("e", simulated(node("n0")))
    core.take_over([], 0, None, [node("n0"), node("old")])
    a_turn = turn(core, 0)
    gone = [record for record in a_turn.records if record.value is None]
    assert [(record.topic, record.key) for record in gone] == [(CLUSTERS, "e/old")]
    assert clusters.node_record(node("n0")) not in a_turn.records


def test_a_run_is_stopped_when_its_time_is_over_though_nothing_happens() -> None:
    core = begun(simulated(), lease("a", runtime_s_max=3))
    turn(core, 1_000)
    turn(core, 1_001)
    assert core.idle_s(1_001) < 3.0
    turn(core, 4_000)
    assert core.cluster.pods[run("a")].stopping
    a_turn = turn(core, 4_001)
    assert told(a_turn) == ["JobRunFailed a"]


def test_runs_that_ended_before_their_maximum_run_time_leave_nothing_behind() -> None:
    core = begun(simulated(*(node(f"n{number}", cores=100) for number in range(10))))
    for number in range(20):
        some = [
            lease(f"a{number:03}b{each:03}c", node=f"n{each % 10}", runtime_s_max=86_400)
            for each in range(200)
        ]
        core.fold(entries(*some, at=number), number + 1)
        for step_ms in (0, 1, 10_000, 10_001):
            turn(core, 20_000 * number + step_ms)
        core.fold([cleared(each.job_id.rstrip("0"), number) for each in some], number + 1)
        turn(core, 20_000 * number + 10_002)
    assert not core.desired
    assert not core.cluster.pods
    assert core._deadlines.held <= timers.SPARE


def test_an_unreadable_lease_is_passed_over() -> None:
    core = begun(simulated())
    core.fold([Entry(0, 0, run("a"), b"{", 0), *entries(lease("b"), at=1)], 2)
    assert told(turn(core, 0)) == ["JobRunPending b"]


def test_leases_that_are_not_seen_again_are_gone() -> None:
    core = begun(simulated(), lease("a"), lease("b"))
    turn(core, 0)
    core.read_again(entries(lease("b")), 9)
    assert core.desired.keys() == {run("b")}
    turn(core, 1)
    assert core.cluster.pods[run("a")].stopping


def test_a_turn_takes_a_bounded_number_of_runs() -> None:
    count = core_module.RUNS_PER_TURN_MAX + 5
    core = begun(simulated(), *(lease(f"a{number:06}b") for number in range(count)))
    assert core.busy
    first = turn(core, 0)
    assert len(told(first)) == core_module.RUNS_PER_TURN_MAX
    assert len(beat(first).leases_waiting) == 5
    assert not core.busy


def test_closing_stops_what_lives_and_tells_why() -> None:
    core = begun(simulated(), lease("a"), lease("b"))
    turn(core, 0)
    turn(core, 1)
    core.close(5)
    turn(core, 2)
    a_turn = turn(core, 3)
    assert told(a_turn) == ["JobRunStopped a", "JobRunStopped b"]
    assert core.living == 0


@pytest.mark.parametrize("times", [1, 2])
def test_repeated_leases_change_nothing(times: int) -> None:
    core = begun(simulated())
    for _ in range(times):
        core.fold(entries(lease("a")), 1)
    assert told(turn(core, 0)) == ["JobRunPending a"]
    core.fold(entries(lease("a")), 1)
    assert told(turn(core, 1)) == ["JobRunRunning a"]


def test_log_lines_about_a_run_have_fields_with_its_job_and_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    core = begun(simulated(), lease("a"))
    core.fold([Entry(0, 1, run("b"), b"{", 0)], 2)
    core.read_again([], 3)
    unreadable, gone = (vars(line)["fields"] for line in caplog.records)
    assert unreadable == {"jobId": run("b").rpartition("-")[0], "run": 1}
    assert gone == {"runs": [run("a")]}
