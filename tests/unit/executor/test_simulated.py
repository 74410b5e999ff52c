"""The behaviour of simulated runs, in virtual time."""

from typing import Final

import msgspec
import pytest

from fairlead_common.domain.records.events import FailureCategory
from fairlead_executor.backends.simulated import NodeKind, SimulatedCluster, Simulation
from fairlead_executor.backends.simulated.behaviour import (
    BEHAVIOURS_MAX,
    EXIT_CODE,
    FAILURE,
    SECONDS,
    START_SECONDS,
    Behaviours,
    decide_behaviour,
)
from fairlead_executor.backends.simulated.settings import build_nodes
from fairlead_executor.domain import pods
from fairlead_executor.domain.pods import SUCCEEDED, EndKind, Phase
from tests.unit.executor.build import lease, run

NODES: Final = build_nodes((NodeKind(count=3),), "e", "default", {"zone": "a"})


def cluster(simulation: Simulation | None = None) -> SimulatedCluster:
    return SimulatedCluster(NODES, simulation or Simulation(), lambda: 0)


def test_annotations_set_the_duration_and_the_end() -> None:
    annotations = {SECONDS: "2.5", START_SECONDS: "1", EXIT_CODE: "3"}
    does = decide_behaviour(run("a"), lease("a", annotations=annotations), Simulation())
    assert (does.start_ms, does.run_ms) == (1_000, 2_500)
    assert does.end == pods.failed(
        FailureCategory.EXIT_CODE, "the command ended with exit code 3", 3
    )


@pytest.mark.parametrize("text", ["", "soon", "-1", "inf", "nan"])
def test_an_invalid_time_is_ignored(text: str) -> None:
    does = decide_behaviour(run("a"), lease("a", annotations={SECONDS: text}), Simulation(min_s=4))
    assert does.run_ms == 4_000


def test_runs_on_a_cluster_without_chance_behave_as_their_annotations_say() -> None:
    behaviours = Behaviours(Simulation(min_s=4))
    for number in range(BEHAVIOURS_MAX + 2):
        for annotations in ({SECONDS: str(number)}, {SECONDS: str(number), FAILURE: "oom"}):
            a_lease = lease("a", annotations=annotations)
            decided = decide_behaviour(run("a"), a_lease, Simulation(min_s=4))
            assert behaviours.decide(run("a"), a_lease) == decided


@pytest.mark.parametrize("setting", ["meanTailS", "failureRate", "returnRate"])
def test_what_is_drawn_differs_between_runs_with_the_same_annotations(setting: str) -> None:
    behaviours = Behaviours(msgspec.convert({setting: 0.5}, Simulation))
    names = [f"a{number:05}b" for number in range(100)]
    decided = [behaviours.decide(run(name), lease(name)) for name in names]
    assert any(each != decided[0] for each in decided)


def test_times_are_divided_by_the_speed() -> None:
    does = decide_behaviour(run("a"), lease("a"), Simulation(min_s=10, speed=100))
    assert does.run_ms == 100


def test_a_run_draws_the_same_from_the_same_seed() -> None:
    drawn = [
        decide_behaviour(run("a"), lease("a"), Simulation(min_s=1, mean_tail_s=5, seed=seed)).run_ms
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_failures_have_the_configured_rates() -> None:
    simulation = Simulation(failure_rate=0.2, return_rate=0.1)
    names = [f"a{number:05}b" for number in range(2_000)]
    ends = [decide_behaviour(run(name), lease(name), simulation).end.kind for name in names]
    assert 150 <= ends.count(EndKind.RETURNED) <= 250
    assert 300 <= ends.count(EndKind.FAILED) <= 420


@pytest.mark.parametrize(
    ("failure", "kind", "started"),
    [
        ("oom", EndKind.FAILED, True),
        ("start", EndKind.FAILED, False),
        ("returned", EndKind.RETURNED, False),
        ("anything", EndKind.FAILED, True),
    ],
)
def test_an_annotation_sets_a_failure(failure: str, kind: EndKind, started: bool) -> None:
    sim = cluster()
    sim.create([lease("a", annotations={FAILURE: failure})], 0)
    sim.changes(100_000)
    pod = sim.pods[run("a")]
    assert pod.end is not None
    assert pod.end.kind is kind
    assert bool(pod.started_ms) is False or started


def test_one_call_applies_several_due_events() -> None:
    sim = cluster()
    sim.create([lease("a", annotations={SECONDS: "5", START_SECONDS: "2"})], 1_000)
    assert sim.next_ms() == 3_000
    sim.changes(60_000)
    pod = sim.pods[run("a")]
    assert (pod.started_ms, pod.ended_ms, pod.end) == (3_000, 8_000, SUCCEEDED)


def test_a_run_on_an_unknown_node_is_returned() -> None:
    sim = cluster()
    sim.create([lease("a", node="n9")], 0)
    assert sim.pods[run("a")].end == pods.returned("there is no node n9")


def test_runs_on_a_lost_node_fail() -> None:
    sim = cluster()
    sim.create([lease("a"), lease("b", node="n1")], 0)
    sim.changes(1)
    sim.lose_node("n0")
    assert [node.name for node in sim.nodes()] == ["n1", "n2"]
    end = sim.pods[run("a")].end
    assert end is not None
    assert end.category is FailureCategory.NODE_LOST
    assert sim.pods[run("b")].live


def test_starts_can_be_paused() -> None:
    sim = cluster()
    sim.starts_paused = True
    sim.create([lease("a")], 0)
    sim.changes(1_000)
    assert sim.pods[run("a")].phase is Phase.CREATED
    sim.resume_starts()
    sim.changes(1_000)
    assert sim.pods[run("a")].phase is Phase.RUNNING


def test_a_pod_can_be_lost() -> None:
    sim = cluster()
    sim.create([lease("a")], 0)
    sim.changes(1)
    sim.lose_pod(run("a"))
    assert sim.changes(2) == {run("a")}
    assert not sim.pods


def test_nodes_are_numbered_within_their_kind() -> None:
    kinds = (NodeKind(name="n", count=2), NodeKind(name="gpu", labels={"gpu": "true"}, pool="g"))
    made = build_nodes(kinds, "e", "default", {"zone": "a"})
    assert [(node.name, node.pool) for node in made] == [
        ("n0", "default"),
        ("n1", "default"),
        ("gpu0", "g"),
    ]
    assert made[2].labels == {"zone": "a", "gpu": "true", "kubernetes.io/hostname": "gpu0"}


def test_duplicate_node_names_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        build_nodes((NodeKind(name="n", count=20), NodeKind(name="n1")), "e", "default", {})


def test_too_many_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        build_nodes((NodeKind(count=1_000_000),), "e", "default", {})
