"""Rules that the worked cases do not show, each on the smallest pool that does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, explain, schedule
from fairlead_scheduler.engine.snapshot import Bucket, Code, JobFlag, NodeFlag, Rest
from tests.unit.engine import casefile
from tests.unit.engine.casefile import World

CORES = [{"name": "n", "count": 2, "resources": {"cpu": 4, "memory": "64Gi"}}]
BALANCE = EngineSettings(protected_fraction=0.0)


def pool(*groups: dict[str, Any], nodes: Any = CORES, **case: Any) -> tuple[Snapshot, list[str]]:
    """A snapshot of these groups, and the names of its jobs by row."""
    world = World({"nodes": nodes, "rounds": [], **case})
    for group in groups:
        world.submit({"memory": "1Gi", **group}, 0)
    made, jobs, _ = casefile.snapshot(world, 10)
    return made, [job.name for job in jobs]


def placed(plan: Plan, names: list[str]) -> list[str]:
    return sorted(names[j] for j in plan.placed_job)


def preempted(plan: Plan, names: list[str]) -> list[str]:
    return sorted(names[j] for j in plan.preempted_job)


def codes(plan: Plan) -> set[Code]:
    return {Code(int(code)) for code in plan.reasons.code}


def run(id_: str, queue: str, node: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "queue": queue, "running": {"onNode": node, "since": 0}, **more}


def test_runs_on_lost_nodes_are_neither_counted_nor_evicted_nor_stopped() -> None:
    made, names = pool(
        run("a", "A", "n0", cpu=4), run("b", "A", "n1", cpu=4), {"id": "c", "queue": "B", "cpu": 4}
    )
    lost = replace(made, node_flags=np.array([NodeFlag.LOST, 0], np.uint8))
    plan = schedule(lost, BALANCE)
    assert preempted(plan, names) == []
    assert plan.shares.actual.tolist() == [1.0, 0.0]
    assert plan.capacity[0] == 4000


def test_a_gang_with_a_member_on_a_lost_node_is_not_evicted_by_any_rule() -> None:
    made, names = pool(
        {**run("g", "A", "n0", cpu=4), "gang": {"name": "t", "size": 2}},
        {**run("h", "A", "n1", cpu=4), "gang": {"name": "t", "size": 2}},
        {"id": "c", "queue": "B", "cpu": 1, "priorityClass": "p3"},
    )
    lost = replace(made, node_flags=np.array([NodeFlag.LOST, 0], np.uint8))
    assert preempted(schedule(lost, BALANCE), names) == []
    assert preempted(schedule(made, BALANCE), names) == ["g0", "h0"]


def test_a_run_that_is_stopping_is_no_victim() -> None:
    made, names = pool(
        run("a", "A", "n0", cpu=4),
        run("b", "A", "n1", cpu=4),
        {"id": "c", "queue": "B", "cpu": 4, "priorityClass": "p3"},
    )
    flags = np.array([JobFlag.STOPPING, 0, 0], np.uint8)
    assert preempted(schedule(replace(made, job_flags=flags), BALANCE), names) == ["b0"]


def test_an_executor_that_lags_gets_nothing_new_and_the_reason_says_so() -> None:
    made, names = pool({"id": "a", "queue": "A", "cpu": 1})
    lagging = replace(made, node_flags=np.full(2, NodeFlag.LAGGING, np.uint8))
    plan = schedule(lagging, BALANCE)
    assert placed(plan, names) == []
    assert codes(plan) == {Code.EXECUTOR_LAGGING}
    assert plan.reasons.counts[0, Bucket.LAGGING] == 2


def test_when_time_is_up_nothing_new_starts_and_what_is_evicted_returns() -> None:
    made, names = pool(
        run("a", "A", "n0", cpu=4), run("b", "A", "n1", cpu=4), {"id": "c", "queue": "B", "cpu": 4}
    )
    plan = schedule(made, EngineSettings(protected_fraction=0.0, stretch=1), expired=lambda: True)
    assert placed(plan, names) in ([], ["c0"])
    assert len(preempted(plan, names)) == len(placed(plan, names))
    assert plan.stopped_by == Code.TIME_LIMIT
    assert plan.limited


def test_work_since_the_last_checkpoint_is_what_stopping_a_run_loses() -> None:
    made, names = pool(
        run("a", "A", "n0", cpu=4),
        run("b", "A", "n1", cpu=4),
        {"id": "c", "queue": "A", "cpu": 4, "priorityClass": "p1"},
    )
    assert preempted(schedule(made, BALANCE), names) == ["b0"]
    reported = replace(made, job_checkpoint_ms=np.array([9_000, 0, 0]))
    assert preempted(schedule(reported, BALANCE), names) == ["a0"]
    every = replace(made, job_checkpoint_interval_ms=np.array([3_000, 0, 0]))
    assert preempted(schedule(every, BALANCE), names) == ["a0"]


def test_a_job_avoids_the_node_that_returned_it_and_fails_when_no_other_suits() -> None:
    made, names = pool({"id": "a", "queue": "A", "cpu": 1})
    once = replace(made, avoid_job=np.array([0], np.int32), avoid_node=np.array([0], np.int32))
    plan = schedule(once, BALANCE)
    assert (placed(plan, names), plan.placed_node.tolist()) == (["a0"], [1])
    both = replace(made, avoid_job=np.zeros(2, np.int32), avoid_node=np.arange(2, dtype=np.int32))
    plan = schedule(both, BALANCE)
    assert plan.failed_job.tolist() == [0]
    assert plan.failed_code.tolist() == [Code.ALL_NODES_TRIED]


def test_members_left_over_run_alone_or_fail_as_their_gang_says() -> None:
    made, names = pool({"id": "g", "queue": "A", "count": 2, "cpu": 1, "gang": {}})
    ended = replace(made, gang_started=np.ones(1, np.bool_))
    assert placed(schedule(ended, BALANCE), names) == ["g0", "g1"]
    fails = replace(ended, gang_rest=np.array([Rest.FAIL], np.uint8))
    plan = schedule(fails, BALANCE)
    assert plan.failed_code.tolist() == [Code.GANG_REST, Code.GANG_REST]


def test_an_incomplete_gang_is_rejected_when_its_time_to_assemble_is_over() -> None:
    made, _ = pool({"id": "g", "queue": "A", "count": 1, "cpu": 1, "gang": {"size": 3}})
    assert schedule(made, BALANCE).rejected_job.tolist() == []
    late = EngineSettings(gang_assembly_timeout_ms=5_000)
    plan = schedule(made, late)
    assert plan.rejected_code.tolist() == [Code.GANG_INCOMPLETE]


def test_further_members_fail_when_tried_in_vain_under_rest_fail() -> None:
    made, names = pool(
        {"id": "g", "queue": "A", "count": 3, "cpu": 4, "gang": {"minSize": 2, "rest": "fail"}}
    )
    plan = schedule(made, BALANCE)
    assert placed(plan, names) == ["g0", "g1"]
    assert [names[j] for j in plan.failed_job] == ["g2"]


def test_a_pool_that_never_had_a_node_rejects_nothing() -> None:
    made, _ = pool({"id": "a", "queue": "A", "cpu": 1}, nodes=[])
    plan = schedule(made, BALANCE)
    assert plan.rejected_job.tolist() == []
    assert codes(plan) == {Code.NO_MATCHING_NODE}


def test_a_job_that_became_infeasible_waits_and_says_so() -> None:
    made, _ = pool({"id": "a", "queue": "A", "cpu": 9})
    assert schedule(made, BALANCE).rejected_code.tolist() == [Code.INFEASIBLE]
    kept = replace(made, job_flags=np.array([JobFlag.KEPT], np.uint8))
    plan = schedule(kept, BALANCE)
    assert plan.rejected_job.tolist() == []
    assert codes(plan) == {Code.INFEASIBLE}


def test_a_job_beyond_its_queues_limit_can_never_run() -> None:
    made, _ = pool(
        {"id": "a", "queue": "A", "cpu": 3}, settings={"classLimits": {"p0": {"cpu": 0.25}}}
    )
    assert schedule(made, BALANCE).rejected_code.tolist() == [Code.INFEASIBLE]


def test_demand_beyond_a_limit_is_no_demand() -> None:
    made, _ = pool(
        {"id": "a", "queue": "A", "count": 8, "cpu": 1},
        settings={"classLimits": {"p0": {"cpu": 0.25}}},
    )
    assert schedule(made, BALANCE).shares.demand.tolist() == [0.25]


def test_a_queue_that_is_out_of_tokens_stops_alone() -> None:
    made, names = pool(
        {"id": "a", "queue": "A", "count": 3, "cpu": 1}, {"id": "b", "queue": "B", "cpu": 1}
    )
    plan = schedule(replace(made, queue_tokens=np.array([1.0, np.inf])), BALANCE)
    assert placed(plan, names) == ["a0", "b0"]
    assert codes(plan) == {Code.RATE_LIMIT}
    assert plan.stopped_by == Code.NONE


def test_spread_takes_the_emptiest_node_where_best_fit_takes_the_fullest() -> None:
    made, _ = pool(run("x", "A", "n1", cpu=1), {"id": "a", "queue": "A", "cpu": 1})
    assert schedule(made, BALANCE).placed_node.tolist() == [1]
    spread = EngineSettings(placement="spread")
    assert schedule(made, spread).placed_node.tolist() == [0]


def test_every_node_is_counted_once_by_what_rules_it_out_first() -> None:
    nodes = [
        {"name": "small", "resources": {"cpu": 1, "memory": "64Gi"}},
        {"name": "busy", "resources": {"cpu": 4, "memory": "64Gi"}},
        {"name": "cordoned", "resources": {"cpu": 4, "memory": "64Gi"}, "unschedulable": True},
        {
            "name": "tainted",
            "resources": {"cpu": 4, "memory": "64Gi"},
            "taints": [{"key": "k", "effect": "NoSchedule"}],
        },
    ]
    made, _ = pool(
        run("x", "A", "busy0", cpu=3, priorityClass="p3np"),
        {"id": "a", "queue": "B", "cpu": 3},
        nodes=nodes,
    )
    plan = schedule(made, BALANCE)
    counts = {Bucket(b).name: int(n) for b, n in enumerate(plan.reasons.counts[0]) if n}
    assert counts == {"TOO_SMALL": 1, "BUSY": 1, "CORDONED": 1, "TAINT": 1}
    assert explain.sentence(made, plan, 0) == (
        "needs 3 cpu on one node; 1 node suits it, the most free on any is 1; "
        "queue is at 0.00 of its fair share"
    )


def test_a_queues_first_waiting_job_has_its_place_told() -> None:
    made, _ = pool({"id": "a", "queue": "A", "count": 3, "cpu": 4})
    plan = schedule(made, BALANCE)
    assert plan.queue_position.tolist() == [2]
    assert plan.queue_waiting.tolist() == [1]


@pytest.mark.parametrize("settings", [BALANCE, EngineSettings()])
def test_an_empty_snapshot_gives_an_empty_plan(settings: EngineSettings) -> None:
    made, _ = pool(nodes=[])
    plan = schedule(made, settings)
    assert plan.placed_job.size == plan.reasons.code.size == 0


def test_columns_in_another_form_give_the_same_plan() -> None:
    made, _ = pool(run("x", "A", "n0", cpu=3), {"id": "a", "queue": "B", "count": 9, "cpu": 1})
    wide = np.zeros((made.job_priority.size, 2), np.int64)
    frozen = made.job_queue.copy()
    frozen.flags.writeable = False
    other = replace(
        made, job_priority=wide[:, 0], job_queue=frozen, job_shape=made.job_shape.astype(np.int64)
    )
    assert schedule(other, BALANCE).placed_node.tolist() == (
        schedule(made, BALANCE).placed_node.tolist()
    )


def test_pack_fills_the_node_that_is_used_most_and_fragmentation_leaves_no_crumbs() -> None:
    nodes = [
        {"name": "big", "resources": {"cpu": 64, "memory": "9Gi"}},
        {"name": "small", "resources": {"cpu": 7, "memory": "2Gi"}},
        {"name": "even", "resources": {"cpu": 8, "memory": "2Gi"}},
    ]
    made, _ = pool(run("x", "A", "big0", cpu=32), {"id": "a", "queue": "A", "cpu": 4}, nodes=nodes)
    assert schedule(made, EngineSettings(placement="best-fit")).placed_node.tolist() == [1]
    assert schedule(made, EngineSettings(placement="pack")).placed_node.tolist() == [0]
    assert schedule(made, EngineSettings(placement="fragmentation")).placed_node.tolist() == [2]
