"""A round in progress: its input, and the model that its steps change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead_scheduler.engine.preparation.gangs.gang_table import GangTable
from fairlead_scheduler.engine.preparation.pool.prepared_pool import PreparedPool
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Code,
    EngineSettings,
    Int32,
    Int64,
    Snapshot,
)
from fairlead_scheduler.engine.state import round_state
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import PLACED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundContext:
    """The input and the model of a round in progress."""

    snapshot: Snapshot
    settings: EngineSettings
    start: PreparedPool
    position: Int32
    """[N] rows of nodes in the order of N3."""
    levels: Int64
    """[L] the distinct values at which jobs run."""
    first: Int64
    """[Q+1] where each queue begins in the order of queued jobs."""
    balance: Bool
    """[Q] queues evicted by R2."""
    gangs: GangTable
    model: RoundModel
    packed_model: RoundModel
    """`model`, packed for kernels once."""


def find_stop_code(round_: RoundContext) -> Code:
    """What ended the round early, if anything."""
    return Code(round_.model.counters.item(round_state.N_STOP))


def list_placed(round_: RoundContext) -> Int64:
    """Rows of the model's placements that were not displaced."""
    n = round_.model.counters.item(round_state.N_PLACED)
    if not round_.model.runs.active:
        return np.arange(n)
    return np.flatnonzero(round_.model.runs.state[round_.model.placements.job[:n]] == PLACED)
