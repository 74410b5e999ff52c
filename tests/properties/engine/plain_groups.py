"""What must hold of groups of roles after any round (rules G), as plainly as it can be said."""

from fairlead_scheduler.engine import Plan
from fairlead_scheduler.engine.snapshot import Tier
from tests.properties.engine.plain import Pool, after


def check_groups(pool: Pool, plan: Plan) -> None:
    """A group runs with the minimum of every role or not at all, and surplus never preempts."""
    s, (node, _) = pool.snapshot, after(pool, plan)
    if s.job_role is None or s.role_min is None or s.gang_min is None:
        return
    for g in range(s.gang_min.size):
        roles = pool.roles(g)
        mine = [j for j in range(len(node)) if pool.gang(j) == g]
        ran = [j for j in mine if pool.node[j] >= 0]
        runs = [j for j in mine if node[j] >= 0]
        if not roles or not runs or not s.gang_min[g]:
            continue
        for role in roles:
            before = sum(pool.role(j) == role for j in ran)
            now = sum(pool.role(j) == role for j in runs)
            need = min(int(s.role_min[role]), before) if ran else int(s.role_min[role])
            assert now >= need, f"group {g} runs with {now} of role {role}, which needs {need}"
    for j, tier in zip(plan.placed_job.tolist(), plan.placed_tier.tolist(), strict=True):
        assert not pool.is_surplus(j) or tier == Tier.FREE, f"surplus member {j} preempts"
