"""Rules L: what is held back, and by which limit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead_scheduler.engine import schedule
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.snapshot import Bucket, Code, NodeFlag
from tests.unit.engine.pools import BALANCE, codes, placed, pool


def test_a_lagging_executor_gets_no_new_runs_and_is_the_reason() -> None:
    made, names = pool({"id": "a", "queue": "A", "cpu": 1})
    lagging = replace(made, node_flags=np.full(2, NodeFlag.LAGGING, np.uint8))
    plan = schedule(lagging, BALANCE)
    assert placed(plan, names) == []
    assert codes(plan) == {Code.EXECUTOR_LAGGING}
    assert plan.reasons.counts[0, Bucket.LAGGING] == 2


def test_an_avoided_node_gets_no_new_runs_and_is_the_reason() -> None:
    """R1, E3."""
    made, names = pool({"id": "a", "queue": "A", "cpu": 1})
    avoided = NodeFlag.CORDONED | NodeFlag.AVOIDED
    plan = schedule(replace(made, node_flags=np.full(2, avoided, np.uint8)), BALANCE)
    assert placed(plan, names) == []
    assert plan.reasons.counts[0, Bucket.AVOIDED] == 2
    sentence = reason_texts.describe_reason(made, plan, 0)
    assert "of 2 nodes, 2 are avoided because runs failed to start there" in sentence


def test_a_queue_that_is_out_of_tokens_stops_alone() -> None:
    made, names = pool(
        {"id": "a", "queue": "A", "count": 3, "cpu": 1}, {"id": "b", "queue": "B", "cpu": 1}
    )
    plan = schedule(replace(made, queue_tokens=np.array([1.0, np.inf])), BALANCE)
    assert placed(plan, names) == ["a0", "b0"]
    assert codes(plan) == {Code.RATE_LIMIT}
    assert plan.stopped_by == Code.NONE
