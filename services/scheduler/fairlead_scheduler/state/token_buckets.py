"""Token buckets for rules L4 and L8. Pure: time is an argument. A new bucket is full.

Buckets are folded from the log: `JobRunLeased` and `JobRunPreempting` take tokens at the time of
their message. So a new leader has the tokens that its predecessors left, and killing leaders
refills no bucket.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_scheduler.state.pool_rules import Rate, Rules

UNLIMITED = float("inf")
CLOCK_DIFFERENCE_MS: Final = 60_000
"""Clocks differ by less. If the last use of a bucket is this far in the future, the clock was set
back."""


class SavedTokens(msgspec.Struct, frozen=True, array_like=True):
    """The tokens of a bucket when it was last used, as a checkpoint saves them."""

    tokens: float
    at_ms: int


class Bucket:
    """The tokens of one rate; without a rate they are unlimited."""

    def __init__(self, rate: Rate | None, saved: SavedTokens | None = None) -> None:
        self._rate = rate
        burst = UNLIMITED if rate is None else rate.burst
        self._last = SavedTokens(burst, 0) if saved is None else saved

    @property
    def burst(self) -> float:
        """The most tokens that it holds."""
        return UNLIMITED if self._rate is None else self._rate.burst

    @property
    def used_ms(self) -> int:
        """When tokens were last taken."""
        return self._last.at_ms

    def tokens(self, now_ms: int) -> float:
        """The tokens at this time; a time before the last use adds none."""
        if self._rate is None:
            return UNLIMITED
        elapsed_ms = max(0, now_ms - self._last.at_ms)
        refilled = self._last.tokens + elapsed_ms / 1000 * self._rate.per_second
        return min(self._rate.burst, refilled)

    def take(self, count: float, now_ms: int) -> None:
        """Take tokens; the start that crosses the limit can make them negative."""
        if self._rate is not None:
            left = self.tokens(now_ms) - count
            self._last = SavedTokens(left, max(now_ms, self._last.at_ms))

    def follow_clock(self, now_ms: int) -> None:
        """Refill from this time on if the clock was set back; it would not refill for as long as
        that otherwise. Only for a leader: a reader of the log reads one partition after another.
        """
        if now_ms < self._last.at_ms - CLOCK_DIFFERENCE_MS:
            self._last = SavedTokens(self._last.tokens, now_ms)

    def save(self, now_ms: int) -> SavedTokens | None:
        """What to save; None if the bucket is full."""
        return self._last if self.tokens(now_ms) < self.burst else None


class SavedBuckets(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The buckets of one pool, as a checkpoint saves them; a missing bucket is full."""

    all: SavedTokens | None = None
    preemptions: SavedTokens | None = None
    queues: dict[str, SavedTokens] = {}


class Buckets:
    """The buckets of one pool: for all starts, per queue, and for preemptions."""

    def __init__(self, rules: Rules, saved: SavedBuckets | None = None) -> None:
        saved = saved or SavedBuckets()
        self.all = Bucket(rules.rate, saved.all)
        self.preemptions = Bucket(rules.preemption_rate, saved.preemptions)
        self._queue_rate = rules.queue_rate
        self._queues = {
            name: Bucket(rules.queue_rate, tokens) for name, tokens in saved.queues.items()
        }

    @property
    def limits_queues(self) -> bool:
        """Whether each queue has a rate."""
        return self._queue_rate is not None

    def queue(self, name: str) -> Bucket:
        """The bucket of a queue; a new one is full."""
        if self._queue_rate is None:
            return Bucket(None)
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = Bucket(self._queue_rate)
        return found

    def take_start_tokens(self, queue: str, count: int, now_ms: int) -> None:
        """Take the tokens for this number of started jobs of a queue."""
        self.all.take(count, now_ms)
        self.queue(queue).take(count, now_ms)

    def follow_clock(self, now_ms: int) -> None:
        """`Bucket.follow_clock` of all."""
        for bucket in (self.all, self.preemptions, *self._queues.values()):
            bucket.follow_clock(now_ms)

    def save(self) -> SavedBuckets:
        """What to save. Buckets that were full again at the newest use are omitted and dropped: the
        next reader of one gets a full bucket."""
        every = (self.all, self.preemptions, *self._queues.values())
        newest_ms = max(bucket.used_ms for bucket in every)
        found = {name: bucket.save(newest_ms) for name, bucket in self._queues.items()}
        queues = {name: tokens for name, tokens in found.items() if tokens is not None}
        self._queues = {name: self._queues[name] for name in queues}
        return SavedBuckets(self.all.save(newest_ms), self.preemptions.save(newest_ms), queues)


class PoolBuckets:
    """The buckets of all pools, each under its rules; no buckets without rates."""

    def __init__(self, rules: Rules, saved: Mapping[str, SavedBuckets] | None = None) -> None:
        self._rules = rules
        self._own = {pool: rules.for_pool(pool) for pool in rules.pools}
        self._limited = any(
            each.rate or each.queue_rate or each.preemption_rate
            for each in (rules, *self._own.values())
        )
        self._unlimited = Buckets(rules)
        """The buckets of every pool if no rate is set: they never change."""
        self._pools = {
            pool: Buckets(self._of(pool), buckets) for pool, buckets in (saved or {}).items()
        }

    @property
    def limited(self) -> bool:
        """Whether any rate is set."""
        return self._limited

    def pool(self, name: str) -> Buckets:
        """The buckets of a pool; new ones are full."""
        if not self._limited:
            return self._unlimited
        found = self._pools.get(name)
        if found is None:
            found = self._pools[name] = Buckets(self._of(name))
        return found

    def _of(self, pool: str) -> Rules:
        return self._own.get(pool, self._rules)

    def save(self) -> dict[str, SavedBuckets]:
        """What to save, by pool; pools with only full buckets are dropped."""
        found = {name: buckets.save() for name, buckets in self._pools.items()}
        found = {name: saved for name, saved in found.items() if saved != SavedBuckets()}
        self._pools = {name: self._pools[name] for name in found}
        return found
