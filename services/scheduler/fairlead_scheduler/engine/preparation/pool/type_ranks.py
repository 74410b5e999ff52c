"""Which node types are eligible for each shape, and how much the shape prefers them (N1)."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import entry_point
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.snapshot import Byte, Match, Snapshot
from fairlead_scheduler.engine.state.capacity_tree import Bits

NOT_ELIGIBLE: Final = 255
_ELIGIBLE_TYPE: Final = int(Match.ELIGIBLE)


def rank_types(snapshot: Snapshot, clock: RoundClock) -> tuple[Byte, Bits]:
    """`ShapeTable.type_rank` and `type_bits`.

    If nothing is preferred, `type_rank` is the match itself, which is 0 for eligible types. With a
    node type per node a second array would be the largest of a round.
    """
    match, preferred = snapshot.shape_match, snapshot.shape_rank
    ranks = 1 if preferred is None else int(preferred.max(initial=0)) + 1
    rank = match if preferred is None else np.empty(match.shape, np.uint8)
    bits = np.zeros((*match.shape[:2], ranks), np.uint64)
    for part in clock.slice_pairs(match.shape[0], match.shape[1] * match.shape[2]):
        if preferred is not None:
            _set_ranks(match[part], preferred[part], rank[part])
        _set_bits(match[part], rank[part], bits[part])
    return rank, bits


@entry_point
def _set_ranks(match: Byte, preferred: Byte, rank: Byte) -> None:
    for s in range(match.shape[0]):
        for w in range(match.shape[1]):
            for kind in range(match.shape[2]):
                eligible = match[s, w, kind] == _ELIGIBLE_TYPE
                rank[s, w, kind] = preferred[s, kind] if eligible else NOT_ELIGIBLE


@entry_point
def _set_bits(match: Byte, rank: Byte, bits: Bits) -> None:
    for s in range(match.shape[0]):
        for w in range(match.shape[1]):
            for kind in range(match.shape[2]):
                if match[s, w, kind] == _ELIGIBLE_TYPE:
                    bits[s, w, rank[s, w, kind]] |= np.uint64(1) << np.uint64(kind % 64)
