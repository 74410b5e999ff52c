"""Rules E: why what waits does wait."""

from __future__ import annotations

from fairlead_scheduler.engine import explain, schedule
from fairlead_scheduler.engine.snapshot import Bucket, Code
from tests.unit.engine.pools import BALANCE, pool, run


def test_every_node_is_counted_once_by_what_rules_it_out_first() -> None:
    """E3."""
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


def test_each_queue_is_told_how_many_of_its_jobs_wait_for_which_reason() -> None:
    """E4."""
    made, _ = pool(
        run("x", "B", "n0", cpu=4, priorityClass="p3np"),
        run("y", "B", "n1", cpu=4, priorityClass="p3np"),
        {"id": "a", "queue": "A", "count": 3, "cpu": 1},
        {"id": "g", "queue": "A", "count": 2, "cpu": 1, "gang": {}},
    )
    plan = schedule(made, BALANCE)
    told = {Code(code).name: int(n) for code, n in enumerate(plan.queue_skipped[0]) if n}
    assert told == {"INSUFFICIENT_RESOURCES": 3, "GANG_DOES_NOT_FIT": 2}
    assert plan.queue_scheduled.tolist() == [0, 0]


def test_a_round_tells_how_long_each_step_took_by_the_clock_it_was_given() -> None:
    """E4."""
    made, _ = pool({"id": "a", "queue": "A", "cpu": 1})
    seconds = iter(range(10))
    plan = schedule(made, BALANCE, clock_s=lambda: float(next(seconds)))
    assert plan.steps_ms == dict.fromkeys(("prepare", "order", "pass", "fit", "explain"), 1000.0)


def test_a_preemption_tells_both_queues_shares_as_they_were_and_as_they_become() -> None:
    """E5: A held all of the pool, twice its share; B ends with its own."""
    made, _ = pool(
        run("a", "A", "n0", cpu=2, count=2),
        run("x", "A", "n1", cpu=2, count=2),
        {"id": "b", "queue": "B", "cpu": 2},
        {"id": "c", "queue": "B", "cpu": 9, "priorityClass": "p1"},
        {"id": "d", "queue": "B", "cpu": 2},
    )
    plan = schedule(made, BALANCE)
    assert plan.preempted_share.tolist() == [1.5, 2.0]
    assert plan.preempted_for_share.tolist() == [1.0, 1.0]


def test_every_code_has_a_sentence_with_its_numbers() -> None:
    """E1."""
    made, _ = pool(
        {"id": "a", "queue": "A", "cpu": 9},
        {"id": "g", "queue": "A", "count": 3, "cpu": 4, "gang": {}},
        {"id": "l", "queue": "B", "cpu": 3},
        queues={"B": {"limits": {"p0": {"cpu": 0.25}}}},
    )
    plan = schedule(made, BALANCE)
    told = {explain.sentence(made, plan, row) for row in range(plan.reasons.code.size)}
    assert told == {
        "it can never run here: of 2 nodes 2 too small",
        "2 nodes suit it, but it needs more than the limit of its queue, or what the pool has "
        "beside its nodes, can ever allow",
    }
