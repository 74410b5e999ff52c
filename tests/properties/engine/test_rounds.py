"""What must hold in any round of any pool, whatever is in it (hypothesis)."""

from __future__ import annotations

import copy
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.engine import casefile
from tests.unit.engine.casefile import Outcome, World, request

CLASSES = ["p0", "p0", "p1", "p2", "p3", "p2np", "p2u", "away", "home"]
BOUNDED = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """A few equal nodes."""
    result: dict[str, Any] = {
        "name": "n",
        "count": draw(st.integers(1, 4)),
        "resources": {"cpu": draw(st.integers(2, 16)), "memory": f"{draw(st.integers(8, 64))}Gi"},
        "executor": draw(st.sampled_from(["e0", "e0", "e1"])),
        "labels": {"rack": draw(st.sampled_from(["a", "b", "c"]))},
    }
    if draw(st.integers(0, 4)) == 0:
        result["taints"] = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    if draw(st.integers(0, 7)) == 0:
        result["unschedulable"] = True
    return result


@st.composite
def groups(draw: st.DrawFn, number: int) -> dict[str, Any]:
    """Some equal jobs, maybe a gang."""
    count = draw(st.integers(1, 8))
    result: dict[str, Any] = {
        "id": f"j{number}x",
        "queue": draw(st.sampled_from("ABCD")),
        "count": count,
        "cpu": draw(st.integers(1, 6)),
        "memory": f"{draw(st.integers(1, 12))}Gi",
        "priorityClass": draw(st.sampled_from(CLASSES)),
        "priority": draw(st.integers(-1, 1)),
    }
    kind = draw(st.integers(0, 5))
    if kind == 0:
        result["gang"] = {"minSize": draw(st.integers(1, count))}
        if draw(st.booleans()):
            result["gang"]["uniformityLabel"] = "rack"
        if draw(st.integers(0, 3)) == 0:
            result["gang"]["rest"] = "fail"
    if kind == 1:
        result["nodeSelector"] = {"rack": draw(st.sampled_from("abc"))}
    if kind == 2:
        result["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    return result


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """A pool and what happens in it for a few rounds."""
    rounds = []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        turn: dict[str, Any] = {"submit": []}
        for _ in range(draw(st.integers(0, 4))):
            turn["submit"].append(draw(groups(number)))
            number += 1
        happening = draw(st.integers(0, 7))
        if happening == 0:
            turn["cordonExecutors"] = ["e1"]
        if happening == 1:
            turn["uncordonExecutors"] = ["e1"]
        if happening == 2:
            turn["cordonQueues"] = ["A"]
        rounds.append(turn)
    chosen: dict[str, Any] = {
        "protectedFractionOfFairShare": draw(st.sampled_from([0, 0.5, 1.0])),
        "requeuePreempted": draw(st.booleans()),
    }
    if draw(st.integers(0, 3)) == 0:
        chosen["roundLimit"] = {"cpu": 0.5}
    if draw(st.integers(0, 3)) == 0:
        chosen["classLimits"] = {"p0": {"cpu": 0.5}}
    if draw(st.integers(0, 3)) == 0:
        chosen["rate"] = {"perSecond": 3, "burst": 9}
    return {
        "name": "generated",
        "settings": chosen,
        "nodes": draw(st.lists(nodes(), min_size=1, max_size=6)),
        "queues": {"A": {"weight": draw(st.sampled_from([1, 2, 0.5]))}},
        "rounds": rounds,
    }


def exceeds(world: World, on: dict[str, str], node: str) -> bool:
    """Whether a node would hold more than it has, with the jobs `on` their nodes."""
    total: dict[str, int] = {}
    for name, where in on.items():
        if where == node:
            for r, a in request(world.jobs[name].group).items():
                total[r] = total.get(r, 0) + a
    return any(a > world.nodes[node].resources.get(r, 0) for r, a in total.items())


def check(world: World, before: dict[str, str], values: dict[str, int], got: Outcome) -> None:
    """The safety properties of one round."""
    for node in world.nodes:
        assert not exceeds(world, got.on_node, node), f"{node} holds more than it has"
    for name, node in got.placed.items():
        spec = world.nodes[node]
        assert not spec.cordoned, f"{name} was placed on a cordoned node"
        assert spec.spec["executor"] not in world.cordoned_executors | world.lost
    for name, (cause, taker) in got.preempted.items():
        kind = world.class_of(world.jobs[name]).get("preemption", "any")
        assert kind != "none", f"{name} is not preemptible"
        assert kind == "any" or cause != "fair-share", f"{name} gives way to urgency only"
        assert taker in got.placed, f"{name} was stopped for {taker}, which was not placed"
        if cause == "urgency":
            assert world.jobs[taker].value > values[name], f"{name} yielded to no higher class"
        if cause == "fair-share":
            assert world.jobs[taker].value >= values[name], f"{name} yielded to a lower class"
            assert world.jobs[name].queue != world.jobs[taker].queue
        if cause != "gang" and world.jobs[name].gang is None:
            back = {**got.on_node, name: before[name]}
            assert exceeds(world, back, before[name]), f"{name} could have stayed"
    check_gangs(world, before, got)


def check_gangs(world: World, before: dict[str, str], got: Outcome) -> None:
    """A gang runs with `minSize` members or not at all, and within one value of its label."""
    gangs: dict[str, list[str]] = {}
    for job in world.jobs.values():
        if job.gang is not None:
            gangs.setdefault(job.gang, []).append(job.name)
    for gang, members in gangs.items():
        spec = world.jobs[members[0]].group
        need = spec["gang"].get("minSize", spec["count"])
        ran = [m for m in members if m in before]
        runs = [m for m in members if m in got.on_node]
        if ran and len(runs) < len(ran):
            assert not runs or len(runs) >= min(need, len(ran)), f"{members} lost too many"
        if runs and not ran and gang not in world.left_over:
            assert len(runs) >= need, f"{members} started with too few"
        if "uniformityLabel" in spec["gang"] and gang not in world.left_over:
            labels = {world.nodes[got.on_node[m]].spec["labels"]["rack"] for m in runs}
            assert len(labels) <= 1, f"{members} are on several racks"


def play(case: dict[str, Any], mixer: random.Random | None = None) -> list[tuple[Any, ...]]:
    """Run a case with its checks; what each round decided, by names."""
    world = World(copy.deepcopy(case))
    told = []
    for now, turn in enumerate(case["rounds"]):
        casefile.prepare(world, turn, now)
        before = {j.name: j.node for j in world.jobs.values() if j.state == "running" and j.node}
        values = {name: world.jobs[name].value for name in before}
        got = casefile.one_round(world, now, mixer)
        check(world, before, values, got)
        assert all(got.waiting.values()), "a job that waits always has a reason"
        told.append((got.placed, got.preempted, got.waiting, got.rejected, got.failed, got.shares))
    return told


@BOUNDED
@given(cases())
def test_no_round_breaks_a_promise(case: dict[str, Any]) -> None:
    play(case)


@BOUNDED
@given(cases(), st.integers(0, 5))
def test_the_plan_does_not_depend_on_the_order_of_rows(case: dict[str, Any], seed: int) -> None:
    assert play(case) == play(case, random.Random(seed))


@BOUNDED
@given(cases())
def test_without_submissions_the_rounds_come_to_rest(case: dict[str, Any]) -> None:
    quiet = copy.deepcopy(case)
    for passing in ("rate", "roundLimit"):
        quiet["settings"].pop(passing, None)
    quiet["rounds"] += [{} for _ in range(12)]
    told = play(quiet)
    for placed, preempted, *_ in told[-4:]:
        assert not placed, "something was still placed after eight quiet rounds"
        assert not preempted, "something was still preempted after eight quiet rounds"
