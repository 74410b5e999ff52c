"""Pools whose round failed: the others go on, and each is tried again later and later. Pure.

What raised is a fault of ours or of what the pool is made of; neither is a reason to stop what can
be scheduled elsewhere.
"""

from collections.abc import Collection
from typing import Final

import msgspec

AGAIN_S_MIN: Final = 1.0
AGAIN_S_MAX: Final = 60.0
WORDS_MAX: Final = 300


class Trouble(msgspec.Struct, frozen=True):
    """Why a pool's round failed last, how often in a row, and when it is tried again (s)."""

    why: str
    times: int
    again_s: float


class Troubles:
    """The pools that fail now. Times are of one monotonic clock (s)."""

    def __init__(self) -> None:
        self.by_pool: dict[str, Trouble] = {}

    def failed(self, pool: str, error: Exception, now_s: float) -> Trouble:
        """A round of this pool raised."""
        before = self.by_pool.get(pool)
        times = 1 if before is None else before.times + 1
        wait_s = min(AGAIN_S_MAX, AGAIN_S_MIN * 2 ** min(times - 1, 10))
        why = f"{type(error).__name__}: {error}"[:WORDS_MAX]
        trouble = self.by_pool[pool] = Trouble(why, times, now_s + wait_s)
        return trouble

    def well(self, pool: str) -> bool:
        """A round of this pool went through, and its report; returns whether that is news."""
        return self.by_pool.pop(pool, None) is not None

    def gone(self, pools: Collection[str]) -> list[str]:
        """Those that are none of these pools any more, whose troubles are over."""
        over = [pool for pool in self.by_pool if pool not in pools]
        for pool in over:
            del self.by_pool[pool]
        return over

    def waits(self, pool: str, now_s: float) -> bool:
        """Whether it is too early to try this pool again."""
        trouble = self.by_pool.get(pool)
        return trouble is not None and now_s < trouble.again_s

    def said(self) -> str | None:
        """All of them in one sentence, None when all pools are well."""
        if not self.by_pool:
            return None
        parts = [
            f"pool {pool} has failed {trouble.times} times in a row ({trouble.why})"
            for pool, trouble in sorted(self.by_pool.items())
        ]
        return "; ".join(parts)
