"""Quotas: the maximum number and size of live jobs, of each queue and of all queues.

The usage is read from lookout's view; what this process has appended and the view has not folded
yet is added. It is read every few seconds, and again before a request is refused. Without a view
the usage is unknown, and nothing is refused.
"""

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.problems import Problem
from fairlead_common.log.protocol import caught_up
from fairlead_common.service import clock
from fairlead_submit.domain.policy import Quotas
from fairlead_submit.service import metrics
from fairlead_submit.store.job_views import JobViews

REFRESH_S: Final = 5.0
BYTES_S_MIN: Final = 10.0
BYTES_PAUSE_FACTOR: Final = 50
"""Summing bytes reads a row of each live job: the pause is this multiple of its duration."""
UNKNOWN_S: Final = 1.0
"""How long submissions do not ask again for a usage that is not known."""
QUEUE_GAUGES_MAX: Final = 1_000
"""Maximum number of queues with their own gauge."""
_logger: Final = logging.getLogger("fairlead.submit.quotas")


class Usage(msgspec.Struct):
    """A number of jobs and their bytes."""

    jobs: int = 0
    bytes: int = 0


class QuotaTracker:
    """Checks submissions against the quotas. `run` must be running to keep the gauges current."""

    def __init__(self, quotas: Quotas, job_views: JobViews) -> None:
        self._quotas = quotas
        self._job_views = job_views
        self._used: dict[str, Usage] | None = None
        self._used_by_all = Usage()
        self._unknown_until_s = float("-inf")
        self._reservations: dict[int, Reservation] = {}
        """By identity. Their totals are maintained, since there are thousands per second."""
        self._reserved: dict[str, Usage] = {}
        self._reserved_by_all = Usage()
        self._read_s = self._bytes_due_s = float("-inf")
        self._reading = asyncio.Lock()

    def reserve(self, queue: str, jobs: int, size: int) -> "Reservation":
        """A context manager that counts these jobs while its block appends them. It raises a 403
        `Problem` if they would exceed a quota, and `DatabaseUnavailable`.
        """
        return Reservation(self, queue, Usage(jobs, size))

    async def check(self, queue: str, jobs: int, size: int) -> None:
        """Raises a 403 `Problem` if these jobs would exceed a quota."""
        if self._used is None and clock.monotonic_s() >= self._unknown_until_s:
            await self._refresh()
        if self._exceeded(queue, jobs, size) is None:
            return
        await self._refresh()
        exceeded = self._exceeded(queue, jobs, size)
        if exceeded is not None:
            metrics.QUOTA_REFUSALS.labels(exceeded[0]).inc()
            raise Problem("forbidden", exceeded[1])

    async def run(self) -> None:
        """Keep the usage and its gauges current until cancelled."""
        for field in msgspec.structs.fields(self._quotas):
            most = getattr(self._quotas, field.name)
            metrics.QUOTA.labels(field.encode_name).set(float("inf") if most is None else most)
        while True:
            try:
                await self._refresh()
            except WorldError as error:
                _logger.warning("the usage of quotas is not known: %s", error)
            await asyncio.sleep(REFRESH_S)

    def _exceeded(self, queue: str, jobs: int, size: int) -> tuple[str, str] | None:
        """(setting, message) of the first quota that these jobs would exceed."""
        if self._used is None:
            return None
        own = self._usage_of(queue)
        whole = self._usage_of(None)
        quotas = self._quotas
        for name, most, used, more in (
            ("queueJobsMax", quotas.queue_jobs_max, own.jobs, jobs),
            ("jobsMax", quotas.jobs_max, whole.jobs, jobs),
            ("queueBytesMax", quotas.queue_bytes_max, own.bytes, size),
            ("bytesMax", quotas.bytes_max, whole.bytes, size),
        ):
            if most is not None and more and used + more > most:
                where = f"Queue {queue!r}" if name.startswith("queue") else "This installation"
                what = "bytes of live jobs" if "ytes" in name else "live jobs"
                return name, (
                    f"{where} has {used} {what}, and this request adds {more}; the quota is {most}"
                    f" (setting `quotas.{name}`). Nothing was changed. Wait until jobs have ended,"
                    " cancel some, or have the operator raise the quota."
                )
        return None

    def _usage_of(self, queue: str | None) -> Usage:
        """The usage of one queue, or (None) of all."""
        assert self._used is not None
        if queue is None:
            known, more = self._used_by_all, self._reserved_by_all
        else:
            known, more = self._used.get(queue, Usage()), self._reserved.get(queue, Usage())
        return Usage(known.jobs + more.jobs, known.bytes + more.bytes)

    def add(self, reservation: "Reservation") -> bool:
        """Count a reservation, and whether that was possible: not while the usage is unknown."""
        if self._used is None:
            return False
        self._reservations[id(reservation)] = reservation
        self._count(reservation, 1)
        return True

    def remove(self, reservation: "Reservation") -> None:
        """Do not count a reservation any more."""
        del self._reservations[id(reservation)]
        self._count(reservation, -1)

    def _count(self, reservation: "Reservation", times: int) -> None:
        """Add a reservation to the totals, or (-1) subtract it."""
        for total in (
            self._reserved.setdefault(reservation.queue, Usage()),
            self._reserved_by_all,
        ):
            total.jobs += times * reservation.use.jobs
            total.bytes += times * reservation.use.bytes
        if self._reserved[reservation.queue] == Usage():
            del self._reserved[reservation.queue]

    async def _refresh(self) -> None:
        asked_s = clock.monotonic_s()
        async with self._reading:
            if self._read_s > asked_s:
                return  # another task has read it since
            self._read_s = clock.monotonic_s()
            live = await self._job_views.count_live_by_queue()
            if live is None:
                self._unknown_until_s = clock.monotonic_s() + UNKNOWN_S
                return
            jobs = live.jobs
            before = self._used or {}
            sizes: Mapping[str, int] | None = None
            if clock.monotonic_s() >= self._bytes_due_s:
                sizes = await self._read_bytes()
            counted = self._find_counted(live.positions)
            if sizes is None:  # the previous sizes, and what was appended since
                added = dict.fromkeys(jobs, 0)
                for item in counted:
                    added[item.queue] = added.get(item.queue, 0) + item.use.bytes
                sizes = {
                    name: before.get(name, Usage()).bytes + added[name] if count else 0
                    for name, count in jobs.items()
                }
            self._used = {name: Usage(count, sizes.get(name, 0)) for name, count in jobs.items()}
            self._used_by_all = Usage(
                sum(use.jobs for use in self._used.values()),
                sum(use.bytes for use in self._used.values()),
            )
            for item in counted:
                self.remove(item)
            self._set_gauges()

    def _find_counted(self, positions: Mapping[int, int]) -> list["Reservation"]:
        """The reservations whose jobs the view had folded at these positions."""
        return [
            item
            for item in self._reservations.values()
            if item.positions is not None and caught_up(positions, item.positions)
        ]

    async def _read_bytes(self) -> Mapping[str, int] | None:
        began_s = clock.monotonic_s()
        sizes = await self._job_views.measure_live_by_queue()
        took_s = clock.monotonic_s() - began_s
        self._bytes_due_s = clock.monotonic_s() + max(BYTES_S_MIN, BYTES_PAUSE_FACTOR * took_s)
        return sizes

    def _set_gauges(self) -> None:
        metrics.LIVE_JOBS.clear()
        metrics.LIVE_BYTES.clear()
        names = {*(self._used or ()), *self._reserved}
        used = {name: self._usage_of(name) for name in names}
        for name in sorted(used, key=lambda name: -used[name].jobs)[:QUEUE_GAUGES_MAX]:
            metrics.LIVE_JOBS.labels(name).set(used[name].jobs)
            metrics.LIVE_BYTES.labels(name).set(used[name].bytes)


class Reservation:
    """Jobs that are being appended, or that the view has perhaps not folded yet. Its own class,
    because a generator as a context manager costs every submission several microseconds.
    """

    def __init__(self, tracker: QuotaTracker, queue: str, use: Usage) -> None:
        self._tracker = tracker
        self._is_counted = False
        self.queue: Final = queue
        self.use: Final = use
        self.positions: Mapping[int, int] | None = None

    async def __aenter__(self) -> Self:
        await self._tracker.check(self.queue, self.use.jobs, self.use.bytes)
        self._is_counted = self._tracker.add(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_counted and self.positions is None:
            self._tracker.remove(self)

    def appended(self, positions: Mapping[int, int]) -> None:
        """The jobs are in the log: they count until the view has passed these positions."""
        self.positions = positions
