"""How the priority of a surplus member contains its surplus rank (rule G2).

Inside a queue and a class value, surplus members come after all other jobs, in the order in which
their groups grow, and are the first victims (G4). So the priority of a surplus member is lowered by
`SURPLUS_STEP` for each place of its rank, and everything that priorities order is ordered by this
one number. Priorities that users give have 32 bits. The job table has the lowered priorities, and
the engine orders by them.
"""

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

SURPLUS_STEP: Final = 1 << 32
PRIORITY_MIN: Final = -(1 << 31)
"""The least priority that a user can give; only a lowered one is below it."""
_SURPLUS_BITS: Final = SURPLUS_STEP.bit_length() - 1

P = TypeVar("P", int, npt.NDArray[np.int64])


def lower_priority(priority: P, rank: P) -> P:
    """Lower the priority of a job by its surplus rank (0: not a surplus member)."""
    return priority - rank * SURPLUS_STEP


def rank_of(priority: P) -> P:
    """The surplus rank of a job with this lowered priority."""
    return -((priority - PRIORITY_MIN) >> _SURPLUS_BITS)


def given_priority(priority: P) -> P:
    """The priority that was given to a job with this lowered priority."""
    return ((priority - PRIORITY_MIN) & (SURPLUS_STEP - 1)) + PRIORITY_MIN
