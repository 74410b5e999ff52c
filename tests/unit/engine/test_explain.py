"""Rules E: why what waits does wait."""

from __future__ import annotations

from fairlead_scheduler.engine import explain, schedule
from fairlead_scheduler.engine.snapshot import Bucket
from tests.unit.engine.pools import BALANCE, pool, run


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
