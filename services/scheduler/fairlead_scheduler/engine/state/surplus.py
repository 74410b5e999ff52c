"""Surplus members of groups (rule G2), and the kinds of victims (N4, G4)."""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.domain.surplus_priority import PRIORITY_MIN
from fairlead_scheduler.engine.compiler.decorators import inlined
from fairlead_scheduler.engine.snapshot import Bool, Int32, Int64
from fairlead_scheduler.engine.state.round_model import RoundModel

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
