"""How the priority of a surplus member contains its surplus rank (rule G2).

Inside a queue and a class value, surplus members come after all other jobs, in the order in which
their groups grow, and are the first victims (G4). So the priority of a surplus member is lowered by
`SURPLUS_STEP` for each place of its rank, and everything that priorities order is ordered by this
one number. Priorities that users give have 32 bits. `fairlead_scheduler.state.groups` lowers them
in the job table.
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import inlined
from fairlead_scheduler.engine.snapshot import Bool, Int32, Int64
from fairlead_scheduler.engine.state.round_model import RoundModel

SURPLUS_STEP: Final = 1 << 32
PRIORITY_MIN: Final = -(1 << 31)
"""The least priority that a user can give; only a lowered one is below it."""

SURPLUS_VICTIM: Final = -1
SINGLE_VICTIM: Final = 0
MEMBER_VICTIM: Final = 1
"""The kinds of victims from the cheapest to the costliest (N4, G4): a surplus member, a single run,
a member that its gang needs."""


def find_surplus(priority: Int64) -> Bool:
    """Which jobs are surplus members, by their priorities."""
    return np.asarray(priority < PRIORITY_MIN)


def find_victim_kinds(gang: Int32, priority: Int64) -> Int64:
    """`victim_kind` of runs with these gangs (-1: not in a gang) and priorities."""
    member = np.where(find_surplus(priority), SURPLUS_VICTIM, MEMBER_VICTIM)
    return np.where(gang < 0, SINGLE_VICTIM, member).astype(np.int64)


@inlined
def is_surplus(model: RoundModel, j: int) -> bool:
    """Whether the job is a surplus member of its group."""
    return model.jobs.priority[j] < PRIORITY_MIN


@inlined
def victim_kind(model: RoundModel, j: int) -> int:
    """The kind of run `j` as a victim: `SURPLUS_VICTIM`, `SINGLE_VICTIM` or `MEMBER_VICTIM`."""
    if model.jobs.gang[j] < 0:
        return SINGLE_VICTIM
    return SURPLUS_VICTIM if is_surplus(model, j) else MEMBER_VICTIM
