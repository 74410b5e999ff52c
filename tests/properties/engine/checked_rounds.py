"""Rounds of a world with everything that must hold of each of them."""

from __future__ import annotations

from fairlead_scheduler.cases.case_world import World
from fairlead_scheduler.engine import Plan, schedule
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.preparation.pool import snapshot_checks
from fairlead_scheduler.snapshots import BuiltSnapshot
from tests.properties.engine import plain
from tests.properties.engine.plain import Pool
from tests.properties.engine.plain_groups import check_groups, check_topology
from tests.properties.engine.plain_reasons import check_preemptors, check_reasons


def run_checked_round(world: World) -> tuple[BuiltSnapshot, Plan]:
    """A round with all its checks, folded back."""
    built = world.build()
    assert snapshot_checks.list_problems(built.snapshot) == []
    plan = schedule(built.snapshot, world.engine)
    pool = Pool(built.snapshot, world.engine)
    plain.check(pool, plan)
    check_groups(pool, plan)
    check_topology(pool, plan)
    check_reasons(pool, plan)
    check_preemptors(pool, plan)
    for row in range(plan.reasons.code.size):
        assert reason_texts.describe_reason(built.snapshot, plan, row)
        assert plan.reasons.counts[row].sum() == built.snapshot.node_number.size
    world.settle(built, plan)
    return built, plan


def count_changes(plan: Plan) -> int:
    """How many jobs the plan starts, stops or ends."""
    columns = (plan.placed_job, plan.preempted_job, plan.rejected_job, plan.failed_job)
    return sum(column.size for column in columns)
