"""The limits of one caller: its request rate and its concurrent requests. Pure.

A bucket is one number, the time at which it will be full again (the generic cell rate algorithm),
so that ten thousand callers take a megabyte and nothing has to refill buckets. The limits are per
process: with n processes a caller has n times the limit.
"""

import math
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K")


class RateLimitResult(msgspec.Struct, frozen=True, gc=False):
    """The requests left in a bucket. `wait_s` above 0: none is left until then."""

    left: int
    wait_s: float
    full_s: float


class RateLimiter(Generic[K]):
    """A bucket of `burst` for each key, refilled with `per_second`; at most `keys_max` keys."""

    def __init__(self, per_second: float, burst: int, keys_max: int) -> None:
        self._each_s = 1.0 / per_second
        self._depth_s = burst / per_second
        self._keys_max = keys_max
        self._full_at: dict[K, float] = {}

    def take(self, key: K, now_s: float) -> RateLimitResult:
        """Take one request from the bucket, if one is left."""
        full_at = max(self._full_at.get(key, 0.0), now_s) + self._each_s
        wait_s = full_at - now_s - self._depth_s
        if wait_s > 1e-9:
            return RateLimitResult(0, wait_s, full_at - self._each_s - now_s)
        if key not in self._full_at and len(self._full_at) >= self._keys_max:
            self._remove_buckets(now_s)
        self._full_at[key] = full_at
        left = int((self._depth_s - (full_at - now_s)) / self._each_s + 1e-6)
        return RateLimitResult(left, 0.0, full_at - now_s)

    def wait_s(self, key: K, now_s: float) -> float:
        """The seconds until a request is available; 0 or less: now."""
        return self._full_at.get(key, 0.0) + self._each_s - now_s - self._depth_s

    def _remove_buckets(self, now_s: float) -> None:
        """Remove full buckets, and then the oldest ones."""
        self._full_at = {key: at for key, at in self._full_at.items() if at > now_s}
        while len(self._full_at) >= self._keys_max:
            del self._full_at[next(iter(self._full_at))]

    def __len__(self) -> int:
        return len(self._full_at)


class ConcurrencyLimiter(Generic[K]):
    """Counts the concurrent requests of each key; forgets keys without any."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._counts: dict[K, int] = {}

    def begin(self, key: K) -> bool:
        """Count a request; False if the limit is reached."""
        count = self._counts.get(key, 0)
        if count >= self.most:
            return False
        self._counts[key] = count + 1
        return True

    def end(self, key: K) -> None:
        """A request of this key has ended."""
        if (count := self._counts[key]) > 1:
            self._counts[key] = count - 1
        else:
            del self._counts[key]

    def __len__(self) -> int:
        return len(self._counts)


def retry_after_s(wait_s: float) -> int:
    """The value of `Retry-After`: whole seconds, rounded up."""
    return max(1, math.ceil(wait_s))
