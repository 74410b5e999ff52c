"""What runs use, as it is used: amounts held, integrated over the log's time. Pure.

A job set knows what its runs hold and up to when that has been counted. Whenever that changes,
and when somebody asks, what was held since is added: to the set's own total and to the hours of
its queue. So a run of three days is spread over its hours and counted while it still runs.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from fairlead_common.domain import shapes
from fairlead_lookout.domain.model import Amounts, JobSet, Run, Usage, UsageKey

HOUR_MS: Final = 3_600_000


class Meter:
    """The usage that one batch adds. `requests`: what each known shape asks for."""

    def __init__(self, requests: Mapping[str, Amounts]) -> None:
        self.usage: dict[UsageKey, Usage] = {}
        self.shapes: dict[str, Amounts] = {}
        self._requests = requests

    def shape(self, raw: bytes, priority_class: str) -> str:
        """The name of a shape; what it asks for is remembered when it is new, or was forgotten."""
        name = shapes.key(raw, priority_class)
        if not self._requests.get(name) and name not in self.shapes:
            self.shapes[name] = shapes.decode(raw).requests
        return name

    def leased(self, job_set: JobSet, run: Run) -> None:
        """A run got its room."""
        self.accrue(job_set, run.leased_ms)
        held = job_set.held.setdefault(run.pool, {})
        for resource, amount in self._asked(run).items():
            held[resource] = held.get(resource, 0) + amount

    def ended(self, job_set: JobSet, run: Run, now_ms: int) -> None:
        """A run holds nothing any more; if it was preempted, all that it used is lost.

        What was never counted as held is not given back.
        """
        self.accrue(job_set, now_ms)
        asked = self._asked(run)
        held = job_set.held.get(run.pool, {})
        for resource in asked.keys() & held.keys():
            held[resource] -= asked[resource]
            if held[resource] <= 0:
                del held[resource]
        if not held:
            job_set.held.pop(run.pool, None)
        if run.cause is not None and run.state != "SUCCEEDED":
            lost = self._of((job_set.key[0], run.pool, hour(now_ms))).lost
            for resource, amount in asked.items():
                held_ms = max(now_ms - run.leased_ms, 0)
                lost[resource] = lost.get(resource, 0) + amount * held_ms

    def accrue(self, job_set: JobSet, now_ms: int) -> None:
        """Count what the set's runs have held since they were last counted."""
        if now_ms <= job_set.metered_ms:
            return
        for pool, hour_ms, held, ms in since(job_set, now_ms):
            usage = self._of((job_set.key[0], pool, hour_ms))
            for resource, amount in held.items():
                job_set.used[resource] = job_set.used.get(resource, 0) + amount * ms
                usage.used[resource] = usage.used.get(resource, 0) + amount * ms
        job_set.metered_ms = now_ms

    def _asked(self, run: Run) -> Amounts:
        """What the run holds; nothing if its shape is not known any more."""
        return self.shapes.get(run.shape) or self._requests.get(run.shape) or {}

    def _of(self, key: UsageKey) -> Usage:
        usage = self.usage.get(key)
        if usage is None:
            self.usage[key] = usage = Usage()
        return usage


def since(job_set: JobSet, now_ms: int) -> Iterator[tuple[str, int, Mapping[str, int], int]]:
    """(pool, hour, amounts held, ms of that hour) since the set was last counted."""
    for pool, held in job_set.held.items():
        for hour_ms, ms in spread(job_set.metered_ms, now_ms, HOUR_MS):
            yield pool, hour_ms, held, ms


def spread(from_ms: int, to_ms: int, width_ms: int) -> Iterator[tuple[int, int]]:
    """The buckets between two times: (the bucket's first ms, how many ms of it)."""
    at_ms = from_ms
    while at_ms < to_ms:
        start_ms = at_ms - at_ms % width_ms
        end_ms = min(start_ms + width_ms, to_ms)
        yield start_ms, end_ms - at_ms
        at_ms = end_ms


def hour(time_ms: int) -> int:
    """The first ms of the hour."""
    return time_ms - time_ms % HOUR_MS


def used(job_set: JobSet, now_ms: int) -> Amounts:
    """What the set's runs have used until now, those included that still run."""
    total = dict(job_set.used)
    for _, _, held, ms in since(job_set, now_ms):
        for resource, amount in held.items():
            total[resource] = total.get(resource, 0) + amount * ms
    return total


def eta_ms(job_set: JobSet, now_ms: int) -> int | None:
    """When the set will be done if jobs go on ending as fast as they did until its last activity.

    None if nobody knows: nothing has ended yet, or it should have been done by now.
    """
    ended = job_set.jobs - job_set.live
    if not job_set.live or not ended:
        return None
    eta = job_set.last_ms + (job_set.last_ms - job_set.first_ms) * job_set.live // ended
    return eta if eta > now_ms else None
