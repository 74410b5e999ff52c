"""Token buckets for rules L4 and L8: pure, time is an argument, and a full bucket starts.

They are a fold of the log: whoever folds `JobRunLeased` and `JobRunPreempting` takes the tokens, at
the time of the message. So a new leader knows to the token what its predecessors have used, and
killing leaders fills no bucket.
"""

from collections.abc import Mapping

import msgspec

from fairlead_scheduler.state.pool_rules import Rate, Rules

UNLIMITED = float("inf")


class Level(msgspec.Struct, frozen=True, array_like=True):
    """What was in a bucket at a time; what is saved of it."""

    tokens: float
    at_ms: int


class Bucket:
    """Tokens now, of one rate. Without a rate it never runs dry."""

    def __init__(self, rate: Rate | None, level: Level | None = None) -> None:
        self._rate = rate
        burst = UNLIMITED if rate is None else rate.burst
        self._level = Level(burst, 0) if level is None else level

    @property
    def burst(self) -> float:
        """The most that it holds."""
        return UNLIMITED if self._rate is None else self._rate.burst

    @property
    def used_ms(self) -> int:
        """When tokens were last taken."""
        return self._level.at_ms

    def tokens(self, now_ms: int) -> float:
        """What is in it at this time; time that lies before the last use adds nothing."""
        if self._rate is None:
            return UNLIMITED
        elapsed_ms = max(0, now_ms - self._level.at_ms)
        refilled = self._level.tokens + elapsed_ms / 1000 * self._rate.per_second
        return min(self._rate.burst, refilled)

    def take(self, count: float, now_ms: int) -> None:
        """Use tokens up; it may be overdrawn by the offer that crossed the limit."""
        if self._rate is not None:
            left = self.tokens(now_ms) - count
            self._level = Level(left, max(now_ms, self._level.at_ms))

    def level(self, now_ms: int) -> Level | None:
        """What is to be saved of it: nothing of a full one."""
        return self._level if self.tokens(now_ms) < self.burst else None


class Levels(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The buckets of one pool as they are saved; those that are missing are full."""

    all: Level | None = None
    preemptions: Level | None = None
    queues: dict[str, Level] = {}


class Buckets:
    """The buckets of one pool: global, per queue, and for preemptions."""

    def __init__(self, rules: Rules, levels: Levels | None = None) -> None:
        levels = levels or Levels()
        self.all = Bucket(rules.rate, levels.all)
        self.preemptions = Bucket(rules.preemption_rate, levels.preemptions)
        self._queue_rate = rules.queue_rate
        self._queues = {
            name: Bucket(rules.queue_rate, level) for name, level in levels.queues.items()
        }

    def queue(self, name: str) -> Bucket:
        """The bucket of a queue, full when first asked for."""
        if self._queue_rate is None:
            return Bucket(None)
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = Bucket(self._queue_rate)
        return found

    def take_start_tokens(self, queue: str, count: int, now_ms: int) -> None:
        """So many jobs of a queue were given a node."""
        self.all.take(count, now_ms)
        self.queue(queue).take(count, now_ms)

    def levels(self) -> Levels:
        """What is to be saved; buckets that were full again at the newest use are left out, and
        forgotten: who asks for one of them gets a full one."""
        every = (self.all, self.preemptions, *self._queues.values())
        newest_ms = max(bucket.used_ms for bucket in every)
        found = {name: bucket.level(newest_ms) for name, bucket in self._queues.items()}
        queues = {name: level for name, level in found.items() if level is not None}
        self._queues = {name: self._queues[name] for name in queues}
        return Levels(self.all.level(newest_ms), self.preemptions.level(newest_ms), queues)


class PoolBuckets:
    """The buckets of all pools, each under its rules. Without rates nothing is kept."""

    def __init__(self, rules: Rules, saved: Mapping[str, Levels] | None = None) -> None:
        self._rules = rules
        self._own = {pool: rules.for_pool(pool) for pool in rules.pools}
        self._limited = any(
            each.rate or each.queue_rate or each.preemption_rate
            for each in (rules, *self._own.values())
        )
        self._pools = {
            pool: Buckets(self._of(pool), levels) for pool, levels in (saved or {}).items()
        }

    @property
    def limited(self) -> bool:
        """Whether there is any rate to be kept."""
        return self._limited

    def pool(self, name: str) -> Buckets:
        """The buckets of a pool, full when first asked for."""
        if not self._limited:
            return Buckets(self._rules)
        found = self._pools.get(name)
        if found is None:
            found = self._pools[name] = Buckets(self._of(name))
        return found

    def _of(self, pool: str) -> Rules:
        return self._own.get(pool, self._rules)

    def levels(self) -> dict[str, Levels]:
        """What is to be saved, by pool; pools of which all buckets are full are forgotten."""
        found = {name: buckets.levels() for name, buckets in self._pools.items()}
        found = {name: levels for name, levels in found.items() if levels != Levels()}
        self._pools = {name: self._pools[name] for name in found}
        return found
