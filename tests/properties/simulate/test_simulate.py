"""Invariants of simulations: conserved work, no overcommitted node, deterministic output."""

import heapq
import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_scheduler.simulate.model.series import INTERVALS_MAX, Series
from fairlead_scheduler.simulate.model.simulation_loop import GAP_MS
from tests.example_numbers import EXAMPLES
from tests.properties.engine.worlds import BOUNDED
from tests.unit.simulate.simulations import Result, job, simulate

Job = dict[str, Any]  # one line of jobs.jsonl
QUICK = settings(BOUNDED, max_examples=EXAMPLES or 15)
ENDED = {"SUCCEEDED", "FAILED", "REJECTED", "CANCELLED", "PREEMPTED"}
NODES = [
    {"name": "n", "count": 2, "resources": {"cpu": 4, "memory": "8Gi"}, "labels": {"rack": "x"}},
    {"name": "m", "count": 2, "resources": {"cpu": 2, "memory": "8Gi"}, "labels": {"rack": "y"}},
]
CAPACITY = {"n0": 4, "n1": 4, "m0": 2, "m1": 2}


@st.composite
def jobs(draw: st.DrawFn) -> list[Job]:
    """Up to 40 jobs of three queues: classes, priorities, gangs, failures, retries, checkpoints."""
    made: list[Job] = []
    for number in range(draw(st.integers(1, 40))):
        line = job(
            f"j{number}",
            queue=draw(st.sampled_from("abc")),
            submitSeconds=draw(st.integers(0, 120)),
            runSeconds=draw(st.integers(0, 90)),
            cpu=draw(st.sampled_from([0.5, 1, 2, 4, 5])),
            priorityClass=draw(st.sampled_from(["default", "low", "high", "non-preemptible"])),
        )
        match draw(st.integers(0, 9)):
            case 0:
                line["failAfterSeconds"] = draw(st.integers(0, 60))
                line["retry"] = {"limit": draw(st.integers(0, 2))}
            case 1:
                line["failAfterSeconds"] = {"probability": 0.5}
            case 2:
                line["checkpointSeconds"] = draw(st.integers(1, 30))
            case 3:
                line["maxRuntimeSeconds"] = draw(st.integers(1, 60))
            case 4:
                line["onPreemption"] = draw(st.sampled_from(["fail", "requeue"]))
                line["stopSeconds"] = draw(st.integers(1, 20))
            case 5 if number:
                line["after"] = [f"j{draw(st.integers(0, number - 1))}"]
            case 6:
                line |= {"queue": "a", "priorityClass": "default", "cpu": 1}
                line["gang"] = {"name": f"g{number}", "size": 2, "minSize": 2}
                made.append({**line, "id": f"k{number}"})
            case _:
                pass
        made.append(line)
    return made


@st.composite
def nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The nodes of `NODES`; the smaller ones may be added later and may be removed."""
    given = [dict(group) for group in NODES]
    since = draw(st.sampled_from([0, 0, 20, 60]))
    given[1]["fromSeconds"] = since
    if draw(st.booleans()):
        given[1]["untilSeconds"] = since + draw(st.integers(1, 90))
    return given


RULES = st.fixed_dictionaries({"protectedFractionOfFairShare": st.sampled_from([0, 1, 3])})


@QUICK
@given(jobs(), nodes(), RULES)
def test_every_job_ends_once_and_no_node_is_overcommitted(
    given_jobs: list[Job], given_nodes: list[dict[str, Any]], rules: dict[str, float]
) -> None:
    result = simulate(given_jobs, given_nodes, rules)
    by_id = {line["id"]: line for line in given_jobs}
    assert list(result.jobs) == list(by_id), "every job has one row, in the order of the input"
    assert all(row["state"] in ENDED for row in result.jobs.values())
    check_no_node_is_overcommitted(result, by_id)
    check_runs_do_not_overlap(result, by_id)
    check_work_is_conserved(result, by_id, given_nodes[1])


def check_no_node_is_overcommitted(result: Result, by_id: dict[str, Job]) -> None:
    """The runs of a node never use more than its capacity, which ended runs release immediately."""
    changes: dict[str, list[tuple[float, int, float]]] = defaultdict(list)
    for run in result.runs:
        cpu, start_s, end_s = by_id[run["id"]]["cpu"], float(run["start_s"]), float(run["end_s"])
        if end_s > start_s:
            changes[run["node"]] += [(start_s, 1, cpu), (end_s, 0, -cpu)]
    for node, moments in changes.items():
        held = 0.0
        for at, _, cpu in sorted(moments):
            held += cpu
            assert held <= CAPACITY[node] + 1e-9, f"{node} at {at} s"


def check_runs_do_not_overlap(result: Result, by_id: dict[str, Job]) -> None:
    """The runs of a job are numbered and do not overlap, and agree with its row."""
    runs: dict[str, list[dict[str, str]]] = defaultdict(list)
    for run in result.runs:
        runs[run["id"]].append(run)
    for job_id, row in result.jobs.items():
        own = runs[job_id]
        assert [run["run"] for run in own] == [str(n + 1) for n in range(int(row["runs"]))]
        for one, other in itertools.pairwise(own):
            assert float(one["end_s"]) <= float(other["start_s"])
        stopped = sum(run["outcome"] == "preempted" for run in own)
        if "stopSeconds" in by_id[job_id]:  # it can end by itself while it is being stopped
            assert int(row["preemptions"]) >= stopped
        else:
            assert int(row["preemptions"]) == stopped
        # A run that waits for another one to stop can be preempted before it starts.
        is_unstarted = [run["outcome"] == "preempted" and not lasted(run) for run in own]
        if row["start_s"]:
            until = [*is_unstarted, False].index(False) + 1
            assert row["start_s"] in [run["start_s"] for run in own[:until]]
            assert float(row["start_s"]) >= float(row["submit_s"])
        else:
            assert all(is_unstarted)


def lasted(run: dict[str, str]) -> float:
    """How long a run was."""
    return float(run["end_s"]) - float(run["start_s"])


def check_work_is_conserved(result: Result, by_id: dict[str, Job], some: dict[str, Any]) -> None:
    """The usage of runs equals the utilisation; succeeded jobs ran for their run time."""
    total: dict[str, float] = defaultdict(float)
    for run in result.runs:
        total[run["id"]] += lasted(run)
    for job_id, row in result.jobs.items():
        useful = total[job_id] - float(row["lost_s"])
        if row["state"] == "SUCCEEDED":
            assert abs(useful - by_id[job_id]["runSeconds"]) < 1e-6, job_id
        assert useful >= -1e-6
    summary = result.summary
    if summary.makespan_seconds:
        held = sum(by_id[job_id]["cpu"] * time for job_id, time in total.items())
        first = min(line["submitSeconds"] for line in by_id.values())
        last = first + summary.makespan_seconds
        since, until = max(first, some["fromSeconds"]), min(last, some.get("untilSeconds", last))
        there = 8 * summary.makespan_seconds + 4 * max(0, until - since)
        assert abs(summary.utilisation["cpu"] - held / there) < 1e-6
    lost = sum(by_id[i]["cpu"] * float(row["lost_s"]) for i, row in result.jobs.items())
    assert abs(summary.lost_resource_seconds.get("cpu", 0) - lost) < 1e-6


@QUICK
@given(jobs(), RULES, st.integers(0, 3))
def test_the_same_input_and_seed_give_the_same_bytes(
    given_jobs: list[Job], rules: dict[str, float], seed: int
) -> None:
    first = simulate(given_jobs, NODES, rules, seed)
    assert simulate(given_jobs, NODES, rules, seed).files == first.files


@QUICK
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), min_size=1, max_size=40),
    st.integers(1, 4),
)
def test_one_queue_of_equal_jobs_is_first_come_first_served(
    given_jobs: list[tuple[int, int]], cores: int
) -> None:
    lines = [
        job(f"j{number}", submitSeconds=submit, runSeconds=run)
        for number, (submit, run) in enumerate(given_jobs)
    ]
    result = simulate(lines, [{"name": "n", "resources": {"cpu": cores}}])
    assert [float(row["start_s"]) for row in result.jobs.values()] == reference(given_jobs, cores)


def reference(given_jobs: list[tuple[int, int]], cores: int) -> list[float]:
    """First come, first served: each job starts on the core that is free first."""
    free = [0.0] * cores
    starts = [0.0] * len(given_jobs)
    for number in sorted(range(len(given_jobs)), key=lambda n: (given_jobs[n][0], n)):
        submit, run = given_jobs[number]
        starts[number] = max(float(submit), heapq.heappop(free))
        heapq.heappush(free, starts[number] + run)
    return starts


@given(st.lists(st.tuples(st.integers(1, 5_000_000), st.integers(0, 9)), max_size=30))
def test_merging_intervals_preserves_totals(steps: list[tuple[int, int]]) -> None:
    series = Series(2, from_ms=7)
    now_ms, total = 7, 0
    for elapsed_ms, value in steps:
        series.count(1, 1.0, now_ms)
        now_ms += elapsed_ms
        total += value * elapsed_ms
        series.add(np.array([float(value), 0.0]), now_ms)
    assert len(series.totals()) <= INTERVALS_MAX
    assert series.totals()[:, 0].sum() == total
    assert series.totals()[:, 1].sum() == len(steps)


@st.composite
def plain_jobs(draw: st.DrawFn) -> list[Job]:
    """Jobs without gangs, dependencies and retries: only placing decides when they start."""
    shapes = st.sampled_from([(0.5, "1Gi"), (1, "4Gi"), (2, "1Gi"), (4, "8Gi"), (5, "1Gi")])
    classes = draw(st.sampled_from([["default"], ["default", "default", "low", "non-preemptible"]]))
    made: list[Job] = []
    for number in range(draw(st.integers(1, 40))):
        cpu, memory = draw(shapes)
        line = job(
            f"j{number}",
            queue=draw(st.sampled_from("abc")),
            submitSeconds=draw(st.integers(0, 120)),
            runSeconds=draw(st.integers(0, 90)),
            cpu=cpu,
            memory=memory,
            priority=draw(st.sampled_from([0, 0, 0, 3])),
            priorityClass=draw(st.sampled_from(classes)),
        )
        if draw(st.integers(0, 5)) == 0:
            line["stopSeconds"] = draw(st.integers(1, 20))
        made.append(line)
    return made


@QUICK
@given(
    plain_jobs(),
    nodes(),
    RULES,
    st.sampled_from([1, 0.25, 3]),
    st.sampled_from(["fifo", "fair"]),
    st.sampled_from([1, 20]),
)
def test_a_skipped_round_would_have_decided_nothing(
    given_jobs: list[Job],
    given_nodes: list[dict[str, Any]],
    rules: dict[str, float],
    weight: float,
    order: str,
    slower: int,
) -> None:
    """Where everything takes twenty times as long, most rounds are not explained."""
    for line in (*given_jobs, *given_nodes):
        line |= {key: value * slower for key, value in line.items() if key.endswith("Seconds")}
    settings_file = {**rules, "queues": {"a": {"weight": weight, "order": order}}}
    every = simulate(given_jobs, given_nodes, settings_file, every_round=True)
    result = simulate(given_jobs, given_nodes, settings_file)
    assert result.files["jobs.csv"] == every.files["jobs.csv"]
    assert result.files["runs.csv"] == every.files["runs.csv"]
    assert result.rows("queues.csv") == every.rows("queues.csv")
    assert result.summary.stuck == every.summary.stuck
    assert result.summary.rounds <= every.summary.rounds
    waited, of_every = (sum(each.summary.waited_job_seconds.values()) for each in (result, every))
    preempted = result.summary.preemptions  # a round explains them only when it sees them queued
    assert waited == pytest.approx(of_every, abs=GAP_MS / 1000 * preempted + 0.01)
