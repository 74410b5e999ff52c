"""How much one caller may ask: buckets that fill with time, and requests under way. Pure.

A bucket is one number, the moment when it will be full again (the generic cell rate algorithm), so
that ten thousand callers take a megabyte, and nobody has to fill buckets. Everything counts per
process: behind n processes a caller may ask n times as much.
"""

import math
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K")


class RateLimitResult(msgspec.Struct, frozen=True, gc=False):
    """What is left in a bucket; `wait_s` above 0: nothing was, and then there will be."""

    left: int
    wait_s: float
    full_s: float


class RateLimiter(Generic[K]):
    """A bucket of `burst` for each key, filling at `per_second`; at most `keys_max` remembered."""

    def __init__(self, per_second: float, burst: int, keys_max: int) -> None:
        self._each_s = 1.0 / per_second
        self._depth_s = burst / per_second
        self._keys_max = keys_max
        self._full_at: dict[K, float] = {}

    def take(self, key: K, now_s: float) -> RateLimitResult:
        """Take one from the bucket, if there is one."""
        full_at = max(self._full_at.get(key, 0.0), now_s) + self._each_s
        wait_s = full_at - now_s - self._depth_s
        if wait_s > 1e-9:
            return RateLimitResult(0, wait_s, full_at - self._each_s - now_s)
        if key not in self._full_at and len(self._full_at) >= self._keys_max:
            self._make_room(now_s)
        self._full_at[key] = full_at
        left = int((self._depth_s - (full_at - now_s)) / self._each_s + 1e-6)
        return RateLimitResult(left, 0.0, full_at - now_s)

    def wait_s(self, key: K, now_s: float) -> float:
        """How long until there is one to take; 0 or less: there is."""
        return self._full_at.get(key, 0.0) + self._each_s - now_s - self._depth_s

    def _make_room(self, now_s: float) -> None:
        """Forget who has a full bucket anyway, or else who came first."""
        self._full_at = {key: at for key, at in self._full_at.items() if at > now_s}
        while len(self._full_at) >= self._keys_max:
            del self._full_at[next(iter(self._full_at))]

    def __len__(self) -> int:
        return len(self._full_at)


class ConcurrencyLimiter(Generic[K]):
    """How many requests of each key are under way; keys without any are forgotten."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._counts: dict[K, int] = {}

    def begin(self, key: K) -> bool:
        """Count one more, if it may begin."""
        count = self._counts.get(key, 0)
        if count >= self.most:
            return False
        self._counts[key] = count + 1
        return True

    def end(self, key: K) -> None:
        """One of them has ended."""
        if (count := self._counts[key]) > 1:
            self._counts[key] = count - 1
        else:
            del self._counts[key]

    def __len__(self) -> int:
        return len(self._counts)


def retry_after_s(wait_s: float) -> int:
    """As `Retry-After` wants it: whole, and never too short."""
    return max(1, math.ceil(wait_s))
