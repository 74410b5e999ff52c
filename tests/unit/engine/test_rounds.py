"""Rules R: what one round does with what runs and what waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairlead_scheduler.engine import EngineSettings, schedule
from fairlead_scheduler.engine.snapshot import NodeFlag, SchedulingFlag
from tests.unit.engine.pools import BALANCE, pool, preempted, run


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


def test_a_stopping_run_is_never_a_victim() -> None:
    made, names = pool(
        run("a", "A", "n0", cpu=4),
        run("b", "A", "n1", cpu=4),
        {"id": "c", "queue": "B", "cpu": 4, "priorityClass": "p3"},
    )
    flags = np.array([SchedulingFlag.STOPPING, 0, 0], np.uint8)
    assert preempted(schedule(replace(made, job_flags=flags), BALANCE), names) == ["b0"]


def test_lost_work_counts_from_the_last_checkpoint() -> None:
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
