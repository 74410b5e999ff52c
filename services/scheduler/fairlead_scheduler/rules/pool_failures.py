"""Records pools whose round raised. Other pools continue; these are tried again after a back-off.
Pure.

The cause is a defect of Fairlead or unusual data of the pool; neither is a reason to stop
scheduling in other pools.
"""

from collections.abc import Collection
from typing import Final

import msgspec

RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 60.0
MESSAGE_CHARS_MAX: Final = 300


class PoolFailure(msgspec.Struct, frozen=True):
    """Why the last round of a pool failed, the number of failures in a row, and the time of the
    next try (s, monotonic clock)."""

    why: str
    times: int
    retry_s: float


class PoolFailures:
    """The pools whose last round failed. Times are of one monotonic clock (s)."""

    def __init__(self) -> None:
        self.by_pool: dict[str, PoolFailure] = {}

    def record_failure(self, pool: str, error: Exception, now_s: float) -> PoolFailure:
        """Record that a round of this pool raised."""
        before = self.by_pool.get(pool)
        times = 1 if before is None else before.times + 1
        wait_s = min(RETRY_S_MAX, RETRY_S_MIN * 2 ** min(times - 1, 10))
        why = f"{type(error).__name__}: {error}"[:MESSAGE_CHARS_MAX]
        failure = self.by_pool[pool] = PoolFailure(why, times, now_s + wait_s)
        return failure

    def record_success(self, pool: str) -> bool:
        """Record that a round and its report succeeded; returns whether the pool had failed."""
        return self.by_pool.pop(pool, None) is not None

    def forget_other_pools(self, pools: Collection[str]) -> list[str]:
        """Drop the failures of pools other than these; returns the dropped pools."""
        over = [pool for pool in self.by_pool if pool not in pools]
        for pool in over:
            del self.by_pool[pool]
        return over

    def must_wait(self, pool: str, now_s: float) -> bool:
        """Whether it is too early for the next try of this pool."""
        failure = self.by_pool.get(pool)
        return failure is not None and now_s < failure.retry_s

    def describe(self) -> str | None:
        """All failures in one sentence; None without failures."""
        if not self.by_pool:
            return None
        parts = [
            f"pool {pool} has failed {failure.times} times in a row ({failure.why})"
            for pool, failure in sorted(self.by_pool.items())
        ]
        return "; ".join(parts)
