"""Rules L: what is held back, and by which limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead_scheduler.engine import EngineSettings, schedule
from fairlead_scheduler.engine.snapshot import Bucket, Code, NodeFlag
from tests.unit.engine.pools import BALANCE, codes, placed, pool, preempted, run


def test_a_lagging_executor_gets_no_new_runs_and_is_the_reason() -> None:
    made, names = pool({"id": "a", "queue": "A", "cpu": 1})
    lagging = replace(made, node_flags=np.full(2, NodeFlag.LAGGING, np.uint8))
    plan = schedule(lagging, BALANCE)
    assert placed(plan, names) == []
    assert codes(plan) == {Code.EXECUTOR_LAGGING}
    assert plan.reasons.counts[0, Bucket.LAGGING] == 2


def test_after_the_time_limit_only_evicted_runs_return() -> None:
    made, names = pool(
        run("a", "A", "n0", cpu=4), run("b", "A", "n1", cpu=4), {"id": "c", "queue": "B", "cpu": 4}
    )
    plan = schedule(
        made, EngineSettings(protected_fraction=0.0, offers_per_check=1), expired=lambda: True
    )
    assert placed(plan, names) in ([], ["c0"])
    assert len(preempted(plan, names)) == len(placed(plan, names))
    assert plan.stopped_by == Code.TIME_LIMIT
    assert plan.limited


def test_a_queue_that_is_out_of_tokens_stops_alone() -> None:
    made, names = pool(
        {"id": "a", "queue": "A", "count": 3, "cpu": 1}, {"id": "b", "queue": "B", "cpu": 1}
    )
    plan = schedule(replace(made, queue_tokens=np.array([1.0, np.inf])), BALANCE)
    assert placed(plan, names) == ["a0", "b0"]
    assert codes(plan) == {Code.RATE_LIMIT}
    assert plan.stopped_by == Code.NONE


def test_expired_is_called_between_portions_of_offers_only() -> None:
    """L6."""
    made, names = pool({"id": "a", "queue": "A", "count": 8, "cpu": 1})
    asked: list[int] = []

    def expired() -> bool:
        asked.append(1)
        return len(asked) == 2

    plan = schedule(made, EngineSettings(offers_per_check=3), expired=expired)
    assert placed(plan, names) == [f"a{n}" for n in range(6)]
    assert codes(plan) == {Code.NOT_REACHED}
    assert plan.stopped_by == Code.TIME_LIMIT


def test_expired_is_called_earlier_where_offers_need_much_work() -> None:
    """L6: each of these offers examines the node's runs."""
    made, names = pool(
        run("a", "A", "n0", count=4, cpu=1),
        run("b", "A", "n1", count=4, cpu=1),
        {"id": "u", "queue": "B", "count": 8, "cpu": 1, "priorityClass": "p1"},
    )
    asked: list[int] = []

    def expired() -> bool:
        asked.append(1)
        return len(asked) == 3

    plan = schedule(made, EngineSettings(work_per_check=1), expired=expired)
    assert placed(plan, names) == ["u0", "u1", "u2"]
    assert plan.stopped_by == Code.TIME_LIMIT


def test_what_is_not_explained_in_time_says_so_and_has_no_counts() -> None:
    """L6."""
    groups = [{"id": f"j{cpu}x", "queue": "A", "cpu": cpu} for cpu in (2, 3, 4)]
    runs = [run(f"r{n}", "B", f"n{n}", cpu=3, priorityClass="p2np") for n in range(2)]
    made, _ = pool(*runs, *groups)
    settings = EngineSettings(pairs_per_check=1)
    plan = schedule(made, settings, expired=lambda: True)
    in_time = schedule(made, settings)
    assert plan.reasons.code.tolist().count(Code.TIME_LIMIT) == 2
    assert sorted(plan.reasons.counts.sum(axis=1).tolist()) == [0, 0, 2]
    assert Code.TIME_LIMIT not in codes(in_time)
    assert in_time.reasons.counts.sum(axis=1).tolist() == [2, 2, 2]
    assert plan.limited
    assert not in_time.limited
