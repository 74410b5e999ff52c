"""What runs use: the resources that they hold, integrated over the log's time.

A job set knows what its runs hold and up to when that has been counted. Whenever this changes, and
when a request reads it, the time since is added: to the total of the job set and to the hours of
its queue and of the users who submitted the jobs. So a run of three days is spread over its hours
and counted while it is still running.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Raw

from fairlead_common.domain.scheduling import shapes
from fairlead_lookout.domain.model import Amounts, JobSet, Run, Usage, UsageKey

HOUR_MS: Final = 3_600_000

_Step: TypeAlias = tuple[JobSet, str, str, str, int, bool]
"""(job set, pool, user, shape, time in ms, whether the runs end)"""


class UsageMeter:
    """The usage that one batch adds. `requests`: the resources that each known shape requests.

    Runs that start one after the other at one time, with one shape and user, are added to what
    their job set holds at once, and so are runs that end: call `finish_runs` before `held` is used
    elsewhere.
    """

    def __init__(self, requests: Mapping[str, Amounts]) -> None:
        self.usage: dict[UsageKey, Usage] = {}
        self.shapes: dict[str, Amounts] = {}
        self._requests = requests
        self._names: dict[tuple[bytes, str], str] = {}
        self._step: _Step | None = None
        self._runs = 0

    def name_shape(self, raw: Raw, priority_class: str) -> str:
        """The name of a shape. The requests of a shape that is not known are recorded."""
        key = (bytes(raw), priority_class)
        name = self._names.get(key)
        if name is None:
            self._names[key] = name = shapes.key(*key)
            if not self._requests.get(name) and name not in self.shapes:
                self.finish_runs()
                self.shapes[name] = shapes.decode(raw).requests
        return name

    def start_run(self, job_set: JobSet, user: str, run: Run) -> None:
        """A run was leased: it holds its resources from now on."""
        self._add_step((job_set, run.pool, user, run.shape, run.leased_ms, False))

    def end_run(self, job_set: JobSet, user: str, run: Run, now_ms: int) -> None:
        """A run holds nothing any more. If it was preempted, everything that it used is lost.

        Resources that were never counted as held are not subtracted.
        """
        self._add_step((job_set, run.pool, user, run.shape, now_ms, True))
        if run.cause is not None and run.state != "SUCCEEDED":
            lost = self._usage_of((job_set.key[0], run.pool, start_of_hour(now_ms), user)).lost
            for resource, amount in self._requests_of(run.shape).items():
                held_ms = max(now_ms - run.leased_ms, 0)
                lost[resource] = lost.get(resource, 0) + amount * held_ms

    def finish_runs(self) -> None:
        """Add what was collected to what the job sets hold."""
        step, runs = self._step, self._runs
        self._step, self._runs = None, 0
        if step is None:
            return
        job_set, pool, user, shape, time_ms, is_end = step
        self.count_until(job_set, time_ms)
        requests = self._requests_of(shape)
        users = job_set.held.setdefault(pool, {})
        held = users.setdefault(user, {})
        if not is_end:
            for resource, amount in requests.items():
                held[resource] = held.get(resource, 0) + runs * amount
            return
        for resource in requests.keys() & held.keys():
            held[resource] -= runs * requests[resource]
            if held[resource] <= 0:
                del held[resource]
        if not held:
            del users[user]
        if not users:
            del job_set.held[pool]

    def _add_step(self, step: _Step) -> None:
        if step != self._step:
            self.finish_runs()
            self._step = step
        self._runs += 1

    def count_until(self, job_set: JobSet, now_ms: int) -> None:
        """Add what the runs of a job set have held since they were last counted."""
        if now_ms <= job_set.metered_ms:
            return
        for pool, user, hour_ms, held, ms in split_uncounted(job_set, now_ms):
            usage = self._usage_of((job_set.key[0], pool, hour_ms, user))
            for resource, amount in held.items():
                job_set.used[resource] = job_set.used.get(resource, 0) + amount * ms
                usage.used[resource] = usage.used.get(resource, 0) + amount * ms
        job_set.metered_ms = now_ms

    def _requests_of(self, shape: str) -> Amounts:
        """The resources that a run holds; nothing if its shape is no longer known."""
        return self.shapes.get(shape) or self._requests.get(shape) or {}

    def _usage_of(self, key: UsageKey) -> Usage:
        usage = self.usage.get(key)
        if usage is None:
            self.usage[key] = usage = Usage()
        return usage


def split_uncounted(
    job_set: JobSet, now_ms: int
) -> Iterator[tuple[str, str, int, Mapping[str, int], int]]:
    """(pool, user, hour, amounts held, ms of that hour) since the job set was last counted."""
    for pool, users in job_set.held.items():
        for hour_ms, ms in split_time(job_set.metered_ms, now_ms, HOUR_MS):
            for user, held in users.items():
                yield pool, user, hour_ms, held, ms


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
    for _, _, _, held, ms in split_uncounted(job_set, now_ms):
        for resource, amount in held.items():
            total[resource] = total.get(resource, 0) + amount * ms
    return total


def estimate_end_ms(job_set: JobSet, now_ms: int) -> int | None:
    """When the job set will have ended if jobs end at the same rate as until its last activity.

    None if that is unknown: no job has ended yet, or that time has passed.
    """
    ended = job_set.jobs - job_set.live
    if not job_set.live or not ended:
        return None
    end_ms = job_set.last_ms + (job_set.last_ms - job_set.first_ms) * job_set.live // ended
    return end_ms if end_ms > now_ms else None
