"""Section 6: what can never run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairlead_scheduler.engine import schedule
from fairlead_scheduler.engine.snapshot import Code, SchedulingFlag
from tests.unit.engine.pools import BALANCE, codes, pool


def test_a_pool_that_never_had_a_node_rejects_nothing() -> None:
    made, _ = pool({"id": "a", "queue": "A", "cpu": 1}, nodes=[])
    plan = schedule(made, BALANCE)
    assert plan.rejected_job.tolist() == []
    assert codes(plan) == {Code.NO_MATCHING_NODE}


def test_a_job_that_became_infeasible_waits_with_that_reason() -> None:
    made, _ = pool({"id": "a", "queue": "A", "cpu": 9})
    assert schedule(made, BALANCE).rejected_code.tolist() == [Code.INFEASIBLE]
    retained = replace(made, job_flags=np.array([SchedulingFlag.WAITS_IF_INFEASIBLE], np.uint8))
    plan = schedule(retained, BALANCE)
    assert plan.rejected_job.tolist() == []
    assert codes(plan) == {Code.INFEASIBLE}


def test_a_job_beyond_its_queues_limit_can_never_run() -> None:
    made, _ = pool(
        {"id": "a", "queue": "A", "cpu": 3}, settings={"classLimits": {"p0": {"cpu": 0.25}}}
    )
    assert schedule(made, BALANCE).rejected_code.tolist() == [Code.INFEASIBLE]
