"""Whether a position could get a job: by its kind (N1, N10), and by the room that is free there."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from fairlead_scheduler.engine.compiler.decorators import inlined
from fairlead_scheduler.engine.state.round_state import NOT_ELIGIBLE, Model, Tables
from fairlead_scheduler.engine.state.run_states import Runs


@inlined
def is_eligible(t: Tables, v: Runs, j: int, s: int, w: int, p: int) -> bool:
    """Whether the position may get the job at all, room aside (N1, N10)."""
    size = t.types.size // 2
    if t.types[size + p] == 0 or t.rank[s, w, t.leaf_type[p]] == NOT_ELIGIBLE:
        return False
    if v.avoid_first.size > 0:
        pair = v.avoid_first[j]
        while pair >= 0:
            if v.avoid_at[pair] == p:
                return False
            pair = v.avoid_link[pair]
    return True


@inlined
def has_capacity(t: Tables, m: Model, s: int, p: int) -> bool:
    """Whether the request fits beside everything."""
    size = t.types.size // 2
    for r in range(t.request.shape[1]):  # noqa: SIM110 - kernels have no generators
        if t.request[s, r] > m.tree[size + p, r]:
            return False
    return True
