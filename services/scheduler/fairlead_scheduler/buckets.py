"""Token buckets for rules L4 and L8: pure, time is an argument, and a full bucket starts."""

from fairlead_scheduler.settings import Rate

UNLIMITED = float("inf")


class Bucket:
    """Tokens now, of one rate. Without a rate it never runs dry."""

    def __init__(self, rate: Rate | None) -> None:
        self._rate = rate
        self._tokens = UNLIMITED if rate is None else rate.burst
        self._at_ms: int | None = None

    @property
    def burst(self) -> float:
        """The most that it holds."""
        return UNLIMITED if self._rate is None else self._rate.burst

    def tokens(self, now_ms: int) -> float:
        """What is in it at this time."""
        if self._rate is None:
            return UNLIMITED
        elapsed_ms = 0 if self._at_ms is None else max(0, now_ms - self._at_ms)
        refilled = self._tokens + elapsed_ms / 1000 * self._rate.per_second
        self._tokens = min(self._rate.burst, refilled)
        self._at_ms = now_ms
        return self._tokens

    def take(self, count: float) -> None:
        """Use tokens up; it may be overdrawn by the offer that crossed the limit."""
        self._tokens -= count


class Buckets:
    """The buckets of one pool: global, per queue, and for preemptions."""

    def __init__(
        self, rate: Rate | None, queue_rate: Rate | None, preemption_rate: Rate | None
    ) -> None:
        self.all = Bucket(rate)
        self.preemptions = Bucket(preemption_rate)
        self._queue_rate = queue_rate
        self._queues: dict[str, Bucket] = {}

    def queue(self, name: str) -> Bucket:
        """The bucket of a queue, full when first asked for."""
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = Bucket(self._queue_rate)
        return found
