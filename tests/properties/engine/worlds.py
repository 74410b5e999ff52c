"""Random clusters and what happens in them, in the form of the worked cases (hypothesis)."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from fairlead_scheduler.cases.case_file import Case
from tests.example_numbers import EXAMPLES

CLASSES = ["p0", "p0", "p1", "p2", "p3", "p2np", "p2u", "away", "home"]
QUEUES = "ABCDEFGH"
BOUNDED = settings(
    max_examples=EXAMPLES or 40,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
NODES_MAX = 30
JOBS_MAX = 200


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """A few equal nodes."""
    amounts: dict[str, Any] = {
        "cpu": draw(st.integers(2, 16)),
        "memory": f"{draw(st.integers(8, 64))}Gi",
    }
    if draw(st.integers(0, 3)) == 0:
        amounts["gpu"] = draw(st.integers(1, 8))
    result: dict[str, Any] = {
        "name": "n",
        "count": draw(st.integers(1, 5)),
        "resources": amounts,
        "executor": draw(st.sampled_from(["e0", "e0", "e1"])),
    }
    if draw(st.integers(0, 5)):
        rack = draw(st.sampled_from(["a", "b", "c"]))
        result["labels"] = {"rack": rack, "zone": "y" if rack == "a" else "z"}
    kind = draw(st.integers(0, 9))
    if kind == 0:
        result["taints"] = [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]
    if kind == 1:
        result["taints"] = [{"key": "old", "value": "yes", "effect": "PreferNoSchedule"}]
    if kind == 2:
        result["unschedulable"] = True
    return result


@st.composite
def groups(draw: st.DrawFn, number: int, queues: str, running: bool) -> dict[str, Any]:
    """Some equal jobs, maybe a gang, maybe running already."""
    count = draw(st.integers(1, 10))
    result: dict[str, Any] = {
        "id": f"j{number}x",
        "queue": draw(st.sampled_from(queues)),
        "count": count,
        "cpu": draw(st.integers(1, 6)),
        "memory": f"{draw(st.integers(1, 12))}Gi",
        "priorityClass": draw(st.sampled_from(CLASSES)),
        "priority": draw(st.integers(-1, 1)),
    }
    if draw(st.integers(0, 5)) == 0:
        result["gpu"] = draw(st.integers(1, 4))
    if draw(st.integers(0, 7)) == 0:
        result["resources"] = {"licences": draw(st.integers(1, 4))}
    kind = draw(st.integers(0, 6))
    if kind in (0, 1):
        result["gang"] = {"minSize": draw(st.integers(1, count))}
        if draw(st.booleans()):
            result["gang"]["uniformityLabel"] = "rack"
        if draw(st.integers(0, 3)) == 0:
            result["gang"]["rest"] = "fail"
    if kind == 2:
        result["nodeSelector"] = {"rack": draw(st.sampled_from("abc"))}
    if kind == 3:
        result["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    if running and draw(st.integers(0, 2)) == 0:
        result["running"] = {"onNode": "n0", "since": draw(st.integers(-30, 0))}
    return result


@st.composite
def mixed_gangs(draw: st.DrawFn, number: int, queues: str) -> list[dict[str, Any]]:
    """A gang of two kinds of members, which differ in class and size."""
    counts = [draw(st.integers(1, 4)) for _ in range(2)]
    gang = {"name": f"m{number}", "size": sum(counts), "minSize": draw(st.integers(1, sum(counts)))}
    queue = draw(st.sampled_from(queues))
    return [
        {
            "id": f"m{number}{part}",
            "queue": queue,
            "count": count,
            "cpu": draw(st.integers(1, 6)),
            "memory": f"{draw(st.integers(1, 12))}Gi",
            "priorityClass": draw(st.sampled_from(CLASSES)),
            "gang": gang,
        }
        for part, count in zip("vw", counts, strict=True)
    ]


@st.composite
def role_groups(draw: st.DrawFn, number: int, queues: str, freezes: bool) -> dict[str, Any]:
    """A group of one to three roles, some of them without a minimum or without surplus."""
    roles = []
    for n in range(draw(st.integers(1, 3))):
        least = draw(st.integers(0, 3))
        role: dict[str, Any] = {
            "name": f"r{n}",
            "min": least,
            "max": draw(st.integers(max(least, 1), least + 4)),
            "cpu": draw(st.integers(1, 5)),
            "memory": f"{draw(st.integers(1, 8))}Gi",
        }
        if draw(st.integers(0, 5)) == 0:
            role["nodeSelector"] = {"rack": draw(st.sampled_from("abc"))}
        if draw(st.integers(0, 5)) == 0:
            role["priorityClass"] = draw(st.sampled_from(CLASSES))
        roles.append(role)
    group: dict[str, Any] = {
        "id": f"g{number}x",
        "queue": draw(st.sampled_from(queues)),
        "roles": roles,
        "priorityClass": draw(st.sampled_from(CLASSES)),
        "priority": draw(st.sampled_from([-1, 0, 1, 10, 1000])),
        "freezeSeconds": draw(st.sampled_from([0, 2])) if freezes else 0,
    }
    if draw(st.booleans()):
        group["topology"] = {
            "level": draw(st.sampled_from(["rack", "rack", "zone", "hostname"])),
            "mode": draw(st.sampled_from(["required", "required", "preferred"])),
            "scope": draw(st.sampled_from(["role", "group"])),
        }
    return group


@st.composite
def turns(draw: st.DrawFn, number: int, queues: str, total: int, freezes: bool) -> dict[str, Any]:
    """What happens before one round."""
    turn: dict[str, Any] = {"submit": []}
    for n in range(draw(st.integers(0, 6))):
        turn["submit"].append(draw(groups(10 * number + n, queues, number == 0)))
    if draw(st.integers(0, 3)) == 0:
        turn["submit"] += draw(mixed_gangs(number, queues))
    turn["groups"] = [
        draw(role_groups(10 * number + n, queues, freezes)) for n in range(draw(st.integers(0, 2)))
    ]
    match draw(st.integers(0, 11)):
        case 0:
            turn["cordonExecutors"] = ["e1"]
        case 1:
            turn["uncordonExecutors"] = ["e1"]
        case 2:
            turn["cordonQueues"] = ["A"]
        case 3:
            turn["loseExecutors"] = ["e1"]
        case 4:
            turn["restoreExecutors"] = ["e1"]
        case 5:
            turn["resizeNodes"] = {"n0": {"cpu": draw(st.integers(1, 16))}}
        case 6 if number and total > 1:
            turn["removeNodes"] = [f"n{total - 1}"]
        case _:
            pass
    return turn


@st.composite
def chosen(draw: st.DrawFn, limits: bool) -> dict[str, Any]:
    """Settings; with `limits` also what stops things."""
    levels = [["zone", "rack", "hostname"], ["zone", "rack"], ["rack"]]
    result: dict[str, Any] = {
        "protectedFractionOfFairShare": draw(st.sampled_from([0, 0, 0.5, 1.0])),
        "requeuePreempted": draw(st.booleans()),
        "floating": {"licences": 6},
        "topology": draw(st.sampled_from(levels)),
    }
    possible: dict[str, Any] = {
        "classLimits": {"p0": {"cpu": 0.5}},
        "ceiling": {"p1": {"cpu": draw(st.sampled_from([0.3, 0.6]))}},
        "costMultipliers": {"gpu": draw(st.sampled_from([0, 2]))},
        "placement": draw(st.sampled_from(["spread", "pack"])),
    }
    if limits:
        possible |= {
            "roundLimit": {"cpu": 0.5},
            "rate": {"perSecond": 3, "burst": 9},
            "queueRate": {"perSecond": 2, "burst": 5},
            "preemptionRate": {"perSecond": 1, "burst": 3},
            "lookback": 5,
        }
    for name, value in possible.items():
        if draw(st.integers(0, 4)) == 0:
            result[name] = value
    return result


@st.composite
def cases(draw: st.DrawFn, limits: bool = True) -> Case:
    """A pool and what happens in it for a few rounds."""
    queues = QUEUES[: draw(st.integers(1, 8))]
    made: list[dict[str, Any]] = []
    for group in draw(st.lists(nodes(), min_size=1, max_size=8)):
        if sum(item["count"] for item in made) + group["count"] <= NODES_MAX:
            made.append(group)
    total = sum(item["count"] for item in made)
    rounds: list[dict[str, Any]] = []
    jobs = 0
    for number in range(draw(st.integers(1, 4))):
        turn = draw(turns(number, queues, total, limits))
        retained = []
        for group in turn["submit"]:
            if jobs + group["count"] <= JOBS_MAX:
                jobs += group["count"]
                retained.append(group)
        rounds.append({**turn, "submit": retained})
        total -= len(turn.get("removeNodes", []))
    weights: dict[str, dict[str, Any]] = {
        q: {
            "weight": draw(st.sampled_from([1, 1, 2, 0.5])),
            "order": draw(st.sampled_from(["fifo", "fair"])),
        }
        for q in queues
    }
    if limits and draw(st.integers(0, 3)) == 0:
        weights["A"] |= {"limits": {"p0": {"cpu": 0.25}, "p1": {"memory": "16Gi"}}}
    world = {
        "name": "generated",
        "settings": draw(chosen(limits)),
        "nodes": made,
        "queues": weights,
        "rounds": rounds,
    }
    return msgspec.convert(world, Case)
