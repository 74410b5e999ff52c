"""Quotas: how many live jobs a queue, and all queues together, are allowed to have, and how large.

What is used is read from lookout's view, plus what this process has appended and the view has not
folded yet. It is read again every few seconds, and before anything is refused. Without a view
nothing is known, and nothing refused.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.problems import Problem
from fairlead_common.service import clock
from fairlead_submit.domain.policy import Quotas
from fairlead_submit.service import metrics
from fairlead_submit.store.job_views import Known

REFRESH_S: Final = 5.0
BYTES_S_MIN: Final = 10.0
BYTES_REST: Final = 50
"""Adding up bytes reads a row of each live job: it rests for so many times as long as it took."""
QUEUES_SHOWN: Final = 1_000
"""Queues that have a gauge of their own."""
_logger: Final = logging.getLogger("fairlead.submit.quotas")


class Use(msgspec.Struct):
    """Jobs and bytes."""

    jobs: int = 0
    bytes: int = 0


class _Reservation(msgspec.Struct, eq=False):
    """Jobs that are being appended, or were and may not be in the view yet."""

    queue: str
    use: Use
    positions: Mapping[int, int] | None = None


class QuotaKeeper:
    """Checks submissions against the quotas. `run` must be running to keep the gauges current."""

    def __init__(self, quotas: Quotas, known: Known) -> None:
        self._quotas = quotas
        self._known = known
        self._used: dict[str, Use] | None = None
        self._used_by_all = Use()
        self._reservations: dict[int, _Reservation] = {}
        """By identity. Their sums are kept, for there are thousands of them a second."""
        self._reserved: dict[str, Use] = {}
        self._reserved_by_all = Use()
        self._read_s = self._bytes_due_s = float("-inf")
        self._reading = asyncio.Lock()

    @asynccontextmanager
    async def reserve(self, queue: str, jobs: int, size: int) -> AsyncIterator["Reserved"]:
        """Count these jobs while the block appends them. Raises a 403 `Problem` beyond a quota,
        and `DatabaseUnavailable`.
        """
        reservation = _Reservation(queue, Use(jobs, size))
        await self.check(queue, jobs, size)
        is_counted = self._used is not None
        if is_counted:
            self._reservations[id(reservation)] = reservation
            self._count(reservation, 1)
        try:
            yield Reserved(reservation)
        finally:
            if is_counted and reservation.positions is None:
                self._release(reservation)

    async def check(self, queue: str, jobs: int, size: int) -> None:
        """Raises a 403 `Problem` if so much more is beyond a quota."""
        if self._used is None:
            await self._refresh()
        if self._exceeded(queue, jobs, size) is None:
            return
        await self._refresh()
        exceeded = self._exceeded(queue, jobs, size)
        if exceeded is not None:
            metrics.QUOTA_REFUSALS.labels(exceeded[0]).inc()
            raise Problem("forbidden", exceeded[1])

    async def run(self) -> None:
        """Keep the use and its gauges current until cancelled."""
        for field in msgspec.structs.fields(self._quotas):
            most = getattr(self._quotas, field.name)
            metrics.QUOTA.labels(field.encode_name).set(float("inf") if most is None else most)
        while True:
            try:
                await self._refresh()
            except WorldError as error:
                _logger.warning("the use of quotas is not known: %s", error)
            await asyncio.sleep(REFRESH_S)

    def _exceeded(self, queue: str, jobs: int, size: int) -> tuple[str, str] | None:
        """(setting, sentence) of the first quota that so much more would exceed."""
        if self._used is None:
            return None
        own = self._use_of(queue)
        whole = self._use_of(None)
        quotas = self._quotas
        for name, most, used, more, where in (
            ("queueJobsMax", quotas.queue_jobs_max, own.jobs, jobs, f"Queue {queue!r}"),
            ("jobsMax", quotas.jobs_max, whole.jobs, jobs, "This installation"),
            ("queueBytesMax", quotas.queue_bytes_max, own.bytes, size, f"Queue {queue!r}"),
            ("bytesMax", quotas.bytes_max, whole.bytes, size, "This installation"),
        ):
            if most is not None and more and used + more > most:
                what = "bytes of live jobs" if "ytes" in name else "live jobs"
                return name, (
                    f"{where} has {used} {what}, and this request adds {more}; the quota is {most}"
                    f" (setting `quotas.{name}`). Nothing was done. Wait until jobs have ended,"
                    " cancel some, or have the operator raise the quota."
                )
        return None

    def _use_of(self, queue: str | None) -> Use:
        """Of one queue, or of all."""
        assert self._used is not None
        if queue is None:
            known, more = self._used_by_all, self._reserved_by_all
        else:
            known, more = self._used.get(queue, Use()), self._reserved.get(queue, Use())
        return Use(known.jobs + more.jobs, known.bytes + more.bytes)

    def _count(self, reservation: _Reservation, times: int) -> None:
        """Add what is reserved to the sums, or (-1) take it away."""
        for total in (
            self._reserved.setdefault(reservation.queue, Use()),
            self._reserved_by_all,
        ):
            total.jobs += times * reservation.use.jobs
            total.bytes += times * reservation.use.bytes
        if self._reserved[reservation.queue] == Use():
            del self._reserved[reservation.queue]

    def _release(self, reservation: _Reservation) -> None:
        del self._reservations[id(reservation)]
        self._count(reservation, -1)

    async def _refresh(self) -> None:
        asked_s = clock.monotonic_s()
        async with self._reading:
            if self._read_s > asked_s:
                return  # somebody has read since
            self._read_s = clock.monotonic_s()
            # Whatever the view has passed before it is read is in what is read.
            passed = await self._passed()
            jobs = await self._known.live_by_queue()
            if jobs is None:
                return
            before = self._used or {}
            sizes: Mapping[str, int] | None = None
            if clock.monotonic_s() >= self._bytes_due_s:
                sizes = await self._read_bytes()
            if sizes is None:  # as they were, and what was appended since
                added = dict.fromkeys(jobs, 0)
                for item in passed:
                    added[item.queue] = added.get(item.queue, 0) + item.use.bytes
                sizes = {
                    name: before.get(name, Use()).bytes + added[name] if count else 0
                    for name, count in jobs.items()
                }
            self._used = {name: Use(count, sizes.get(name, 0)) for name, count in jobs.items()}
            self._used_by_all = Use(
                sum(use.jobs for use in self._used.values()),
                sum(use.bytes for use in self._used.values()),
            )
            for item in passed:
                self._release(item)
            self._show()

    async def _passed(self) -> list[_Reservation]:
        """Those that are in the view."""
        appended = [
            (item, item.positions) for item in self._reservations.values() if item.positions
        ]
        partitions = {number for _, positions in appended for number in positions}
        at = await self._known.view_positions(partitions) if partitions else {}
        return [
            item
            for item, positions in appended
            if all(at.get(number, 0) >= passed for number, passed in positions.items())
        ]

    async def _read_bytes(self) -> Mapping[str, int] | None:
        began_s = clock.monotonic_s()
        sizes = await self._known.live_bytes_by_queue()
        took_s = clock.monotonic_s() - began_s
        self._bytes_due_s = clock.monotonic_s() + max(BYTES_S_MIN, BYTES_REST * took_s)
        return sizes

    def _show(self) -> None:
        metrics.LIVE_JOBS.clear()
        metrics.LIVE_BYTES.clear()
        names = {*(self._used or ()), *self._reserved}
        used = {name: self._use_of(name) for name in names}
        for name in sorted(used, key=lambda name: -used[name].jobs)[:QUEUES_SHOWN]:
            metrics.LIVE_JOBS.labels(name).set(used[name].jobs)
            metrics.LIVE_BYTES.labels(name).set(used[name].bytes)


class Reserved:
    """A reservation, for whoever appends."""

    def __init__(self, reservation: _Reservation) -> None:
        self._reservation = reservation

    def appended(self, positions: Mapping[int, int]) -> None:
        """It is in the log: it counts until the view has passed these positions."""
        self._reservation.positions = positions
