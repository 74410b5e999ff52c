"""Rules E: why what waits does wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairlead_scheduler.engine import EngineSettings, schedule
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.plan.infeasible_texts import CAUSES_MAX
from fairlead_scheduler.engine.round_plan import Plan
from fairlead_scheduler.engine.snapshot import Bucket, Code, SchedulingFlag
from tests.unit.engine.pools import BALANCE, CORES, pool, run


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
    assert reason_texts.describe_reason(made, plan, 0) == (
        "The only eligible node of pool default has 1 CPU free; the job needs 3 CPUs. "
        "Queue B uses 0 % of its fair share."
    )


def test_the_plan_has_the_position_of_each_queues_first_waiting_job() -> None:
    made, _ = pool({"id": "a", "queue": "A", "count": 3, "cpu": 4})
    plan = schedule(made, BALANCE)
    assert plan.queue_position.tolist() == [2]
    assert plan.queue_waiting.tolist() == [1]


def test_the_plan_counts_waiting_jobs_by_queue_and_reason() -> None:
    """E4."""
    made, _ = pool(
        run("x", "B", "n0", cpu=4, priorityClass="p3np"),
        run("y", "B", "n1", cpu=4, priorityClass="p3np"),
        {"id": "a", "queue": "A", "count": 3, "cpu": 1},
        {"id": "g", "queue": "A", "count": 2, "cpu": 1, "gang": {}},
    )
    plan = schedule(made, BALANCE)
    texts = {Code(code).name: int(n) for code, n in enumerate(plan.queue_skipped[0]) if n}
    assert texts == {"INSUFFICIENT_RESOURCES": 3, "GANG_DOES_NOT_FIT": 2}
    assert plan.queue_scheduled.tolist() == [0, 0]


def test_the_plan_has_the_duration_of_each_step_by_the_given_clock() -> None:
    """E4."""
    made, _ = pool({"id": "a", "queue": "A", "cpu": 1})
    seconds = iter(range(10))
    plan = schedule(made, BALANCE, clock_s=lambda: float(next(seconds)))
    assert plan.steps_ms == dict.fromkeys(("prepare", "order", "pass", "fit", "explain"), 1000.0)


def test_a_preemption_has_both_queues_shares_before_and_after() -> None:
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
    assert plan.preemptor_share.tolist() == [1.0, 1.0]


def test_a_gang_member_on_another_node_names_the_job_placed_there() -> None:
    """E5: b makes the whole gang go, c finds the room that g1 leaves, and n2 stays free."""
    nodes = [{"name": "n", "count": 3, "resources": {"cpu": 4, "memory": "64Gi"}}]
    made, names = pool(
        *(run(f"g{n}", "A", f"n{n}", cpu=4, gang={"name": "g", "size": 3}) for n in range(3)),
        {"id": "b", "queue": "B", "cpu": 4},
        {"id": "c", "queue": "C", "cpu": 4},
        nodes=nodes,
    )
    plan = schedule(made, BALANCE)
    node = {names[j]: int(n) for j, n in zip(plan.placed_job, plan.placed_node, strict=True)}
    preempted_for = {
        int(made.job_node[j]): names[k]
        for j, k in zip(plan.preempted_job, plan.preemptor_job, strict=True)
    }
    assert node.keys() == {"b0", "c0"}
    assert len(preempted_for) == 3
    assert all(preempted_for[node[name]] == name for name in node)


def test_an_infeasible_job_that_may_wait_is_not_said_to_never_run() -> None:
    made, _ = pool({"id": "a", "queue": "A", "cpu": 9})
    flags = np.full(1, SchedulingFlag.WAITS_IF_INFEASIBLE, np.uint8)
    plan = schedule(replace(made, job_flags=flags, job_totals=None), BALANCE)
    assert plan.rejected_job.tolist() == []
    assert reason_texts.describe_reason(made, plan, 0).startswith(
        "The job cannot run in pool default as its nodes and limits are now: it needs 9 CPUs on"
    )


def test_shares_are_compared_by_weight_in_the_reason_too() -> None:
    """A holds three times what B would hold, but has three times its weight."""
    made, _ = pool(
        run("a", "A", "n0", cpu=3, count=1),
        run("x", "C", "n1", cpu=4, priorityClass="p2np"),
        {"id": "b", "queue": "B", "cpu": 2},
        queues={"A": {"weight": 3}},
    )
    plan = schedule(made, BALANCE)
    row = plan.reasons.code.tolist().index(Code.OVER_FAIR_SHARE)
    assert (
        "No run can be preempted for it: the other queues hold no more, relative to their weights, "
        "than queue B would hold with this job."
    ) in reason_texts.describe_reason(made, plan, row)


def test_a_job_beyond_its_queues_share_does_not_read_that_others_hold_no_more() -> None:
    """With its 5 CPUs B would hold more than its share of 4, and less than the 8 of A."""
    made, _ = pool(
        run("a", "A", "n0", cpu=1, count=8),
        {"id": "b", "queue": "B", "cpu": 5},
        nodes=[{"name": "n", "count": 1, "resources": {"cpu": 8, "memory": "64Gi"}}],
    )
    plan = schedule(made, BALANCE)
    row = plan.reasons.code.tolist().index(Code.OVER_FAIR_SHARE)
    assert reason_texts.describe_reason(made, plan, row) == (
        "All 8 CPUs of pool default are in use; the job needs 5 CPUs. No run was preempted for it: "
        "with this job queue B would exceed its fair share. Runs of other queues returned to their "
        "nodes before its turn, or those queues would be left with less than this one. "
        "Queue B uses 0 % of its fair share."
    )


def test_the_number_of_different_gangs_that_a_round_examines_is_bounded() -> None:
    """A cause takes time, and a round can refuse many gangs."""
    gangs = [
        {"id": f"g{n}x", "queue": "A", "cpu": 5 + n, "count": 2, "gang": {}}
        for n in range(CAUSES_MAX + 1)
    ]
    made, _ = pool(*gangs)
    plan = schedule(made, BALANCE)
    texts = [reason_texts.describe_reason(made, plan, row) for row in range(len(gangs))]
    assert sum("each member needs" in text for text in texts) == CAUSES_MAX
    assert sum("the nodes or the limits of queue A do not permit" in text for text in texts) == 1


GANG = {"id": "g", "queue": "A", "cpu": 4}
FULL = [run(f"r{n}", "B", f"n{n}", cpu=4, priorityClass="p3np") for n in range(2)]
RACKS = {"labels": {"rack": "a"}, **CORES[0]}
SENTENCES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "too large": (
        {},
        [{"id": "a", "queue": "A", "cpu": 9}],
        "infeasible: The job can never run in pool default: it needs 9 CPUs on one node, and "
        "the largest node that matches has 4; of 2 nodes, 2 are too small. Request less, or "
        "ask an operator for larger nodes.",
    ),
    "above its queue's limit": (
        {"queues": {"A": {"limits": {"p0": {"cpu": 0.25}}}}},
        [{"id": "a", "queue": "A", "cpu": 3}],
        "infeasible: The job can never run in pool default: it needs 3 CPUs, and the limit of"
        " queue A for priority class p0 is 2. Request less.",
    ),
    "more licences than there are": (
        {"settings": {"floating": {"licences": 6}}},
        [{"id": "a", "queue": "A", "cpu": 1, "resources": {"licences": 8}}],
        "infeasible: The job can never run in pool default: it needs 8 licences, and the pool"
        " has 6. Request less.",
    ),
    "a gang that is too large": (
        {},
        [{**GANG, "count": 3, "gang": {}}],
        "infeasible: The gang can never run in pool default: 3 members must start together, and "
        "they need 12 CPUs together; the nodes that match have 8. Request less, lower the minimum, "
        "or ask an operator for more nodes.",
    ),
    "a gang whose members do not fit beside each other": (
        {},
        [{**GANG, "cpu": 2.5, "count": 3, "gang": {}}],
        "infeasible: The gang can never run in pool default: 3 members must start together, "
        "which the nodes or the limits of queue A do not permit. 2 of 2 nodes are large "
        "enough for one member.",
    ),
    "a gang with a member that is too large": (
        {},
        [
            {**GANG, "cpu": 1, "gang": {"name": "g", "size": 2}},
            {**GANG, "id": "h", "cpu": 5, "gang": {"name": "g", "size": 2}},
        ],
        "infeasible: The gang can never run in pool default: 2 members must start together, and "
        "each member needs 5 CPUs on one node; the largest node that matches has 4. Request less, "
        "or ask an operator for larger nodes.",
    ),
    "a gang that matches no node": (
        {},
        [{**GANG, "count": 2, "gang": {}, "nodeSelector": {"zone": "x"}}],
        "infeasible: The gang can never run in pool default: 2 members must start together, and "
        "no node matches selector, affinity and tolerations of the members.",
    ),
    "a gang above the limit of its queue": (
        {"queues": {"A": {"limits": {"p0": {"cpu": 0.5}}}}},
        [{**GANG, "cpu": 3, "count": 2, "gang": {}}],
        "infeasible: The gang can never run in pool default: 2 members must start together, and "
        "they need 6 CPUs together in priority class p0; the limit of queue A is 4. Request less, "
        "lower the minimum, or ask an operator to raise it.",
    ),
    "a gang with more licences than there are": (
        {"settings": {"floating": {"licences": 3}}},
        [{**GANG, "cpu": 1, "count": 2, "resources": {"licences": 2}, "gang": {}}],
        "infeasible: The gang can never run in pool default: 2 members must start together, and "
        "they need 4 licences together; the pool has 3.",
    ),
    "a gang that is too large for any value of its label": (
        {
            "nodes": [
                {"name": "n", "count": 2, **RACKS},
                {**RACKS, "name": "m", "labels": {"rack": "b"}},
            ]
        },
        [{**GANG, "cpu": 3, "count": 3, "gang": {"uniformityLabel": "rack"}}],
        "infeasible: The gang can never run in pool default: 3 members must start together on nodes"
        " with the same value of rack, and they need 9 CPUs together; the nodes of any value have "
        "at most 8. Request less, lower the minimum, or ask an operator for more nodes.",
    ),
    "a gang above the burst": (
        {"settings": {"rate": {"perSecond": 1, "burst": 2}}},
        [{**GANG, "cpu": 1, "count": 3, "gang": {}}],
        "gang-exceeds-burst: The gang can never start: 3 members must start together, and the"
        " burst of the start rate is 2. Lower `minSize`, or ask an operator to raise the "
        "burst.",
    ),
    "above the ceiling": (
        {"settings": {"ceiling": {"p0": {"cpu": 0.25}}}, "queues": {"A": {"limits": {"p0": {}}}}},
        [{"id": "a", "queue": "A", "cpu": 3}],
        "infeasible: The job can never run in pool default: it needs 3 CPUs, and the ceiling for "
        "priority class p0 is 2. Request less.",
    ),
    "at the ceiling": (
        {
            "settings": {"ceiling": {"p0": {"cpu": 0.5}}},
            "queues": {"A": {"limits": {"p0": {"cpu": 1.0}}}},
        },
        [{"id": "a", "queue": "A", "cpu": 3, "count": 2}],
        "queue-limit: Queue A has reached the ceiling for priority class p0: the job needs 3 "
        "CPUs, and the limit leaves 1. Wait until other jobs of the queue end, or ask an "
        "operator to raise the limit.",
    ),
    "at its queue's limit": (
        {"queues": {"A": {"limits": {"p0": {"cpu": 0.5}}}}},
        [{"id": "a", "queue": "A", "count": 2, "cpu": 3}],
        "queue-limit: Queue A has reached its limit for priority class p0: the job needs 3 "
        "CPUs, and the limit leaves 1. Wait until other jobs of the queue end, or ask an "
        "operator to raise the limit.",
    ),
    "licences in use": (
        {"settings": {"floating": {"licences": 6}}},
        [{"id": "a", "queue": "A", "count": 2, "cpu": 1, "resources": {"licences": 4}}],
        "floating-limit: Pool default has 2 licences left, and the job needs 4. Wait until "
        "other jobs release them.",
    ),
    "members are missing": (
        {},
        [{**GANG, "gang": {"name": "g", "size": 3, "minSize": 2}}],
        "gang-incomplete: The gang is incomplete: 2 members must start together, and 1 has "
        "been submitted. Submit the others.",
    ),
    "no room for a gang in a rack": (
        {"nodes": [RACKS]},
        [*FULL, {**GANG, "count": 2, "gang": {"uniformityLabel": "rack"}}],
        "gang-does-not-fit: The gang does not fit: 2 members must start together on nodes "
        "with the same value of rack. All 8 CPUs of pool default are in use; each member of "
        "the gang needs 4 CPUs. Queue A uses 0 % of its fair share.",
    ),
    "no further members": (
        {},
        [{**GANG, "count": 3, "gang": {"minSize": 2, "rest": "fail"}}],
        "gang-rest: The gang runs, and no node has free capacity for further members: of 2 "
        "nodes, 2 are busy.",
    ),
    "the start rate": (
        {"settings": {"rate": {"perSecond": 1, "burst": 1}}},
        [{"id": "a", "queue": "A", "count": 2, "cpu": 1}],
        "rate-limit: The start rate is limited: 0 of 1 jobs can start now, more as time passes.",
    ),
    "the start rate of a queue, for a gang": (
        {
            "settings": {
                "rate": {"perSecond": 9, "burst": 9},
                "queueRate": {"perSecond": 1, "burst": 3},
            }
        },
        [{"id": "a", "queue": "A", "cpu": 1}, {**GANG, "cpu": 1, "count": 3, "gang": {}}],
        "rate-limit: The start rate of queue A is limited: 2 of 3 jobs can start now, more as"
        " time passes.",
    ),
    "as much as a round may start": (
        {"settings": {"roundLimit": {"cpu": 0.25}}},
        [{"id": "a", "queue": "A", "count": 3, "cpu": 2}],
        "round-limit: This round started 2 jobs, the most that the round limit of pool "
        "default permits. The next round continues.",
    ),
    "behind more than a round looks at": (
        {"settings": {"lookback": 1}},
        [{"id": "a", "queue": "A", "count": 2, "cpu": 1}],
        "lookback-limit: The job is beyond the number of jobs that the scheduler examines per"
        " queue and round; 1 job of queue A is waiting. Raise the job's priority to have it "
        "examined earlier.",
    ),
    "preemptions are limited": (
        {"settings": {"preemptionRate": {"perSecond": 1, "burst": 1}}},
        [
            run("x", "B", "n0", cpu=4),
            run("y", "B", "n1", cpu=4),
            {"id": "c", "queue": "C", "cpu": 3},
            {"id": "a", "queue": "A", "cpu": 2},
        ],
        "preemption-limit: None of the 2 eligible nodes of pool default has more than 1 CPU "
        "free; the job needs 2 CPUs on one node. Runs of queues above their fair share could "
        "be preempted, but the preemption rate permits 0 more now. Queue A uses 0 % of its "
        "fair share.",
    ),
    "a label that no node has": (
        {"nodes": [{**CORES[0], "unschedulable": True}, {**CORES[0], "name": "m"}]},
        [{"id": "a", "queue": "A", "cpu": 1, "nodeSelector": {"disk": "nvme"}}],
        "infeasible: The job can never run in pool default: of 4 nodes, 2 are cordoned, 2 are"
        " without the required labels. Check the node selector, affinity and tolerations.",
    ),
}


def _refused(plan: Plan, row: int) -> Code | None:
    """The code of the row's jobs if they are refused."""
    refused = set(plan.rejected_code.tolist())
    code = int(plan.reasons.code[row])
    return Code(code) if code in refused else None


@pytest.mark.parametrize("case", SENTENCES.values(), ids=SENTENCES.keys())
def test_reasons_of_waiting_and_rejected_jobs_have_numbers(
    case: tuple[dict[str, Any], list[dict[str, Any]], str],
) -> None:
    """E1."""
    more, groups, want = case
    texts, _ = pool(*groups, **more)
    rules = more.get("settings", {})
    settings = EngineSettings(
        protected_fraction=0.0,
        round_limit=rules.get("roundLimit", {}),
        lookback=rules.get("lookback", 0),
    )
    plan = schedule(texts, settings)
    rows = np.flatnonzero(plan.reasons.code != Code.NOT_REACHED).tolist()
    said = [
        f"{reason_texts.CODE_NAMES[Code(int(plan.reasons.code[row]))]}: "
        f"{reason_texts.describe_reason(texts, plan, row, _refused(plan, row))}"
        for row in rows
    ]
    assert said == [want]
