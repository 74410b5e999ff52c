"""What must hold of groups of roles after any round (rules G and T), said plainly."""

from fairlead_scheduler.engine import Plan, Snapshot
from fairlead_scheduler.engine.snapshot import Tier
from fairlead_scheduler.engine.topology import NO_LEVEL, Topology, TopologyMode
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


def check_topology(pool: Pool, plan: Plan) -> None:
    """T2, T4: members of a required scope are in one domain, unless they were apart before; T5: the
    hops are those of the farthest members that run."""
    s, (node, _) = pool.snapshot, after(pool, plan)
    if s.topology is None or s.job_role is None:
        return
    assert plan.nearness is not None
    levels = [domains_of(s, int(row)) for row in s.topology.label]
    for g, mode in enumerate(s.topology.gang_mode.tolist()):
        roles, level = pool.roles(g), int(s.topology.gang_level[g])
        scopes = [set(roles)] if s.topology.gang_whole[g] else [{role} for role in roles]
        for scope in scopes if mode == TopologyMode.REQUIRED else []:
            mine = [j for j in range(len(node)) if pool.role(j) in scope]
            new = [j for j in mine if node[j] >= 0 and pool.node[j] < 0]
            assert not new or level != NO_LEVEL, f"group {g} grew although its level is unknown"
            if new:
                found = {levels[level][node[j]] for j in mine if node[j] >= 0}
                assert len(found) == 1, f"group {g} is in {found}"
                assert -1 not in found, f"group {g} is on a node without a domain"
        for role in roles:
            on = {n for j, n in enumerate(node) if pool.role(j) == role and n >= 0}
            on = {n for n in on if not pool.lost(n)}
            want = find_hops(s.topology, levels, on) if on and mode else -1
            assert plan.nearness.role_hops[role] == want


def domains_of(s: Snapshot, row: int) -> list[int]:
    """The domain of each node at the level that is this row of the labels."""
    assert s.node_label is not None
    return [int(value) for value in s.node_label[row]]


def find_hops(topology: Topology, levels: list[list[int]], nodes: set[int]) -> int:
    """T1 for the farthest two of these nodes."""
    if len(nodes) == 1:
        return 0
    for domain, hops in zip(levels[::-1], topology.hops[-2::-1], strict=True):
        found = {domain[n] for n in nodes}
        if len(found) == 1 and -1 not in found:
            return hops
    return topology.hops[-1]
