"""Whether a position can get a job: by node type and avoided nodes (N1, N10), and by free
capacity."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import inlined
from fairlead_scheduler.engine.state.round_model import RoundModel


@inlined
def is_eligible(model: RoundModel, j: int, s: int, w: int, p: int) -> bool:
    """Whether the position is eligible for the job, free capacity aside (N1, N10)."""
    size = model.capacity.tree_types.size // 2
    if (
        model.capacity.tree_types[size + p] == 0
        or model.shapes.type_rank[s, w, model.nodes.node_type[p]] >= model.shapes.type_bits.shape[2]
    ):
        return False
    if model.avoided.first.size > 0:
        pair = model.avoided.first[j]
        while pair >= 0:
            if model.avoided.position[pair] == p:
                return False
            pair = model.avoided.link[pair]
    return True


@inlined
def find_preempting_level(model: RoundModel, j: int, w: int) -> int:
    """The level at which a queued job preempts: its own, and for a member of a group no higher than
    the lowest of the members that the group needs. Otherwise what preempts the lowest of them and
    what the highest of them preempts could displace each other for ever (G6)."""
    level = model.shapes.level[int(model.jobs.shape[j]), w]
    g = int(model.jobs.gang[j])
    return level if g < 0 else min(level, model.groups.level[g])


@inlined
def has_capacity(model: RoundModel, s: int, p: int) -> bool:
    """Whether the request fits beside all runs."""
    size = model.capacity.tree_types.size // 2
    for r in range(model.shapes.request.shape[1]):
        if model.shapes.request[s, r] > model.capacity.tree[size + p, r]:
            return False
    return True
