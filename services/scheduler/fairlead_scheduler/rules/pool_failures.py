"""Pools whose round failed: the others go on, and each is tried again later and later. Pure.

What raised is a fault of ours or of what the pool is made of; neither is a reason to stop what can
be scheduled elsewhere.
"""

from collections.abc import Collection
from typing import Final

import msgspec

RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 60.0
MESSAGE_CHARS_MAX: Final = 300


class PoolFailure(msgspec.Struct, frozen=True):
    """Why a pool's round failed last, how often in a row, and when it is tried again (s)."""

    why: str
    times: int
    retry_s: float


class PoolFailures:
    """The pools that fail now. Times are of one monotonic clock (s)."""

    def __init__(self) -> None:
        self.by_pool: dict[str, PoolFailure] = {}

    def record_failure(self, pool: str, error: Exception, now_s: float) -> PoolFailure:
        """A round of this pool raised."""
        before = self.by_pool.get(pool)
        times = 1 if before is None else before.times + 1
        wait_s = min(RETRY_S_MAX, RETRY_S_MIN * 2 ** min(times - 1, 10))
        why = f"{type(error).__name__}: {error}"[:MESSAGE_CHARS_MAX]
        failure = self.by_pool[pool] = PoolFailure(why, times, now_s + wait_s)
        return failure

    def record_success(self, pool: str) -> bool:
        """A round of this pool went through, and its report; returns whether that is news."""
        return self.by_pool.pop(pool, None) is not None

    def forget_other_pools(self, pools: Collection[str]) -> list[str]:
        """Those that are none of these pools any more, whose troubles are over."""
        over = [pool for pool in self.by_pool if pool not in pools]
        for pool in over:
            del self.by_pool[pool]
        return over

    def must_wait(self, pool: str, now_s: float) -> bool:
        """Whether it is too early to try this pool again."""
        failure = self.by_pool.get(pool)
        return failure is not None and now_s < failure.retry_s

    def describe(self) -> str | None:
        """All of them in one sentence, None when all pools are well."""
        if not self.by_pool:
            return None
        parts = [
            f"pool {pool} has failed {failure.times} times in a row ({failure.why})"
            for pool, failure in sorted(self.by_pool.items())
        ]
        return "; ".join(parts)
