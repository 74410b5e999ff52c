"""Which ids Postgres can have among the jobs that ended: a Bloom filter (Bloom, CACM 13, 1970).

A new job whose client chose its id is looked up there, unless the filter knows that it is in vain.
The filter can name an id that is not there, but never omits one that is: it has all that were there
when the process started, and all that `View.recent` dropped since.
"""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.ids import JOB_ID_LENGTH, JobId
from fairlead_scheduler.state.jobs.job_index import Keys, pack_equal_lengths

BITS_LOG: Final = 25
"""4 MB: of 5 million ids, 4 of 100 others are looked up in vain."""
IDS_MAX: Final = 5_000_000
"""With more ids everything is looked up: a filter is of little use then."""
RANDOM_FROM: Final = 12
"""Before that come the partition and the time of an id; two words of 8 characters follow."""
_MIX: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
_HASHES: Final = np.array(
    [0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F], np.uint64
)


class EndedFilter:
    """The ids that Postgres can have."""

    def __init__(self) -> None:
        self.is_complete = False
        """Whether the ids that were there at the start have been added."""
        self._count = 0
        self._bits = np.zeros((1 << BITS_LOG) // 8, np.uint8)

    def add(self, ids: Sequence[JobId]) -> None:
        """Add ids of jobs that ended."""
        if not ids:
            return
        keys = pack_equal_lengths(ids, JOB_ID_LENGTH)
        if keys is None:  # only tests have ids of other lengths
            self._count = IDS_MAX + 1
            return
        self._count += len(ids)
        bits = _find_bits(keys)
        np.bitwise_or.at(self._bits, bits >> 3, (1 << (bits & 7)).astype(np.uint8))

    def select_possible(self, ids: Collection[JobId]) -> list[JobId]:
        """Those of these ids that Postgres can have, sorted."""
        ordered = sorted(ids)
        keys = pack_equal_lengths(ordered, JOB_ID_LENGTH)
        if not self.is_complete or self._count > IDS_MAX or keys is None:
            return ordered
        bits = _find_bits(keys)
        is_possible = (self._bits[bits >> 3] >> (bits & 7).astype(np.uint8) & 1).all(axis=0)
        return [ordered[place] for place in np.flatnonzero(is_possible).tolist()]


def _find_bits(keys: Keys) -> npt.NDArray[np.int64]:
    """The bits of each id, one row per hash."""
    characters = keys.view(np.uint8).reshape(-1, JOB_ID_LENGTH)[:, RANDOM_FROM:]
    words = np.ascontiguousarray(characters).view(np.uint64) * _MIX
    mixed = words[:, 0] ^ words[:, 1] >> np.uint64(32)
    return (mixed * _HASHES[:, np.newaxis] >> np.uint64(64 - BITS_LOG)).astype(np.int64)
