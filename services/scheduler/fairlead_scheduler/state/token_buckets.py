"""Token buckets for rules L4 and L8. Pure; time is an argument; a new bucket is full.

They are a fold of the log: folding `JobRunLeased` and `JobRunPreempting` takes the tokens, at the
time of the message. So a new leader has exactly the tokens that its predecessors left, and killing
leaders refills no bucket.
"""

from collections.abc import Mapping

import msgspec

from fairlead_scheduler.state.pool_rules import Rate, Rules

UNLIMITED = float("inf")


class Level(msgspec.Struct, frozen=True, array_like=True):
    """The tokens of a bucket at a time; this is what a checkpoint saves."""

    tokens: float
    at_ms: int


class Bucket:
    """The tokens of one rate; without a rate they are unlimited."""

    def __init__(self, rate: Rate | None, level: Level | None = None) -> None:
        self._rate = rate
        burst = UNLIMITED if rate is None else rate.burst
        self._level = Level(burst, 0) if level is None else level

    @property
    def burst(self) -> float:
        """The most tokens that it holds."""
        return UNLIMITED if self._rate is None else self._rate.burst

    @property
    def used_ms(self) -> int:
        """When tokens were last taken."""
        return self._level.at_ms

    def tokens(self, now_ms: int) -> float:
        """The tokens at this time; a time before the last use adds none."""
        if self._rate is None:
            return UNLIMITED
        elapsed_ms = max(0, now_ms - self._level.at_ms)
        refilled = self._level.tokens + elapsed_ms / 1000 * self._rate.per_second
        return min(self._rate.burst, refilled)

    def take(self, count: float, now_ms: int) -> None:
        """Take tokens; the start that crosses the limit can make the level negative."""
        if self._rate is not None:
            left = self.tokens(now_ms) - count
            self._level = Level(left, max(now_ms, self._level.at_ms))

    def level(self, now_ms: int) -> Level | None:
        """What to save; None if the bucket is full."""
        return self._level if self.tokens(now_ms) < self.burst else None


class Levels(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The saved buckets of one pool; a missing bucket is full."""

    all: Level | None = None
    preemptions: Level | None = None
    queues: dict[str, Level] = {}


class Buckets:
    """The buckets of one pool: for all starts, per queue, and for preemptions."""

    def __init__(self, rules: Rules, levels: Levels | None = None) -> None:
        levels = levels or Levels()
        self.all = Bucket(rules.rate, levels.all)
        self.preemptions = Bucket(rules.preemption_rate, levels.preemptions)
        self._queue_rate = rules.queue_rate
        self._queues = {
            name: Bucket(rules.queue_rate, level) for name, level in levels.queues.items()
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

    def levels(self) -> Levels:
        """What to save. Buckets that were full again at the newest use are omitted and dropped: the
        next reader of one gets a full bucket."""
        every = (self.all, self.preemptions, *self._queues.values())
        newest_ms = max(bucket.used_ms for bucket in every)
        found = {name: bucket.level(newest_ms) for name, bucket in self._queues.items()}
        queues = {name: level for name, level in found.items() if level is not None}
        self._queues = {name: self._queues[name] for name in queues}
        return Levels(self.all.level(newest_ms), self.preemptions.level(newest_ms), queues)


class PoolBuckets:
    """The buckets of all pools, each under its rules; no buckets without rates."""

    def __init__(self, rules: Rules, saved: Mapping[str, Levels] | None = None) -> None:
        self._rules = rules
        self._own = {pool: rules.for_pool(pool) for pool in rules.pools}
        self._limited = any(
            each.rate or each.queue_rate or each.preemption_rate
            for each in (rules, *self._own.values())
        )
        self._unlimited = Buckets(rules)
        """Those of every pool where no rate is set: they never change."""
        self._pools = {
            pool: Buckets(self._of(pool), levels) for pool, levels in (saved or {}).items()
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

    def levels(self) -> dict[str, Levels]:
        """What to save, by pool; pools with only full buckets are dropped."""
        found = {name: buckets.levels() for name, buckets in self._pools.items()}
        found = {name: levels for name, levels in found.items() if levels != Levels()}
        self._pools = {name: self._pools[name] for name in found}
        return found
