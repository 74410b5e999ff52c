"""What runs use: the resources that they hold, integrated over the log's time.

A job set knows what its runs hold and up to when that has been counted. Whenever this changes, and
when somebody reads it, the time since is added: to the total of the job set and to the hours of its
queue. So a run of three days is spread over its hours and counted while it is still running.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from fairlead_common.domain import shapes
from fairlead_lookout.domain.model import Amounts, JobSet, Run, Usage, UsageKey

HOUR_MS: Final = 3_600_000


class UsageMeter:
    """The usage that one batch adds. `requests`: the resources that each known shape requests."""

    def __init__(self, requests: Mapping[str, Amounts]) -> None:
        self.usage: dict[UsageKey, Usage] = {}
        self.shapes: dict[str, Amounts] = {}
        self._requests = requests

    def name_shape(self, raw: bytes, priority_class: str) -> str:
        """The name of a shape. The requests of a shape that is not known are recorded."""
        name = shapes.key(raw, priority_class)
        if not self._requests.get(name) and name not in self.shapes:
            self.shapes[name] = shapes.decode(raw).requests
        return name

    def start_run(self, job_set: JobSet, run: Run) -> None:
        """A run was leased: it holds its resources from now on."""
        self.count_until(job_set, run.leased_ms)
        held = job_set.held.setdefault(run.pool, {})
        for resource, amount in self._requests_of(run).items():
            held[resource] = held.get(resource, 0) + amount

    def end_run(self, job_set: JobSet, run: Run, now_ms: int) -> None:
        """A run holds nothing any more. If it was preempted, everything that it used is lost.

        Resources that were never counted as held are not subtracted.
        """
        self.count_until(job_set, now_ms)
        requests = self._requests_of(run)
        held = job_set.held.get(run.pool, {})
        for resource in requests.keys() & held.keys():
            held[resource] -= requests[resource]
            if held[resource] <= 0:
                del held[resource]
        if not held:
            job_set.held.pop(run.pool, None)
        if run.cause is not None and run.state != "SUCCEEDED":
            lost = self._usage_of((job_set.key[0], run.pool, start_of_hour(now_ms))).lost
            for resource, amount in requests.items():
                held_ms = max(now_ms - run.leased_ms, 0)
                lost[resource] = lost.get(resource, 0) + amount * held_ms

    def count_until(self, job_set: JobSet, now_ms: int) -> None:
        """Add what the runs of a job set have held since they were last counted."""
        if now_ms <= job_set.metered_ms:
            return
        for pool, hour_ms, held, ms in split_uncounted(job_set, now_ms):
            usage = self._usage_of((job_set.key[0], pool, hour_ms))
            for resource, amount in held.items():
                job_set.used[resource] = job_set.used.get(resource, 0) + amount * ms
                usage.used[resource] = usage.used.get(resource, 0) + amount * ms
        job_set.metered_ms = now_ms

    def _requests_of(self, run: Run) -> Amounts:
        """The resources that a run holds; nothing if its shape is no longer known."""
        return self.shapes.get(run.shape) or self._requests.get(run.shape) or {}

    def _usage_of(self, key: UsageKey) -> Usage:
        usage = self.usage.get(key)
        if usage is None:
            self.usage[key] = usage = Usage()
        return usage


def split_uncounted(
    job_set: JobSet, now_ms: int
) -> Iterator[tuple[str, int, Mapping[str, int], int]]:
    """(pool, hour, amounts held, ms of that hour) since the job set was last counted."""
    for pool, held in job_set.held.items():
        for hour_ms, ms in split_time(job_set.metered_ms, now_ms, HOUR_MS):
            yield pool, hour_ms, held, ms


def split_time(from_ms: int, to_ms: int, width_ms: int) -> Iterator[tuple[int, int]]:
    """The buckets between two times: (first ms of the bucket, ms that belong to it)."""
    at_ms = from_ms
    while at_ms < to_ms:
        start_ms = at_ms - at_ms % width_ms
        end_ms = min(start_ms + width_ms, to_ms)
        yield start_ms, end_ms - at_ms
        at_ms = end_ms


def start_of_hour(time_ms: int) -> int:
    """The first ms of the hour."""
    return time_ms - time_ms % HOUR_MS


def total_usage(job_set: JobSet, now_ms: int) -> Amounts:
    """What the runs of a job set have used until now, live runs included."""
    total = dict(job_set.used)
    for _, _, held, ms in split_uncounted(job_set, now_ms):
        for resource, amount in held.items():
            total[resource] = total.get(resource, 0) + amount * ms
    return total


def estimate_end_ms(job_set: JobSet, now_ms: int) -> int | None:
    """When the job set will be finished if jobs go on ending at the rate until its last activity.

    None if that is unknown: no job has ended yet, or it should have been finished by now.
    """
    ended = job_set.jobs - job_set.live
    if not job_set.live or not ended:
        return None
    end_ms = job_set.last_ms + (job_set.last_ms - job_set.first_ms) * job_set.live // ended
    return end_ms if end_ms > now_ms else None
