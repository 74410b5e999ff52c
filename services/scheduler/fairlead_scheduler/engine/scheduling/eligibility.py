"""Whether a job can be placed on a position: by node type and avoided nodes (N1, N10), and by free
capacity."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import inlined
from fairlead_scheduler.engine.state.round_model import RoundModel


@inlined
def is_eligible(model: RoundModel, j: int, s: int, w: int, p: int) -> bool:
    """Whether position `p` is eligible for job `j` of shape `s`, at home or away entry `w`,
    whatever its free capacity (N1, N10)."""
    size = model.capacity.tree_types.size // 2
    if (
        model.capacity.tree_types[size + p] == 0
        or model.shapes.type_rank[s, w, model.nodes.node_type[p]] >= model.shapes.type_bits.shape[2]
    ):
        return False
    if model.jobs.avoided.first.size > 0:
        pair = model.jobs.avoided.first[j]
        while pair >= 0:
            if model.jobs.avoided.position[pair] == p:
                return False
            pair = model.jobs.avoided.link[pair]
    return True


@inlined
def has_capacity(model: RoundModel, s: int, p: int) -> bool:
    """Whether a job of shape `s` fits on position `p` beside all runs (N2a)."""
    size = model.capacity.tree_types.size // 2
    for r in range(model.shapes.request.shape[1]):
        if model.shapes.request[s, r] > model.capacity.tree[size + p, r]:
            return False
    return True
