"""Group commit: requests that arrive during an append go together into the next.

Each request is answered after its own commit. A request that the log refuses fails alone; after
an unknown outcome all of its group are told so, and the producer is made anew. What waits is
bounded; whoever comes beyond that is told to come again.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogError,
    LogUnavailable,
    ProducerFenced,
)
from fairlead_common.domain.problems import Problem
from fairlead_common.log.append_limits import check_append
from fairlead_common.log.protocol import Appended, EventLog, Producer, Record
from fairlead_common.service import clock
from fairlead_common.service.json_logging import job_sets_fields
from fairlead_submit.service import metrics

RECORDS_MAX: Final = 10_000
"""Most records of one append."""

SPLIT_S_MAX: Final = 2.0
"""A refusal that took longer came from a log that is away, not from one bad request."""

RETRY_S: Final = 1
_ENDING: Final = "this server is ending; nothing was written"
_logger = logging.getLogger("fairlead.submit")


class _Waiting(msgspec.Struct, gc=False):
    records: Sequence[Record]
    size: int
    answer: "asyncio.Future[dict[int, int]]"


class Writer:
    """Appends for many callers at once. `run` must be running."""

    def __init__(
        self, log: EventLog, name: str, *, append_bytes_max: int, pending_bytes_max: int
    ) -> None:
        self._log = log
        self._name = name
        self._append_bytes_max = append_bytes_max
        self._pending_bytes_max = pending_bytes_max
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._came = asyncio.Event()
        self._producer: Producer | None = None
        self._ended = False
        self.trouble: str | None = None
        """Why nothing can be written just now, if so."""
        metrics.PENDING_BYTES.set_function(lambda: self._bytes)
        metrics.PENDING_REQUESTS.set_function(lambda: len(self._waiting))

    async def append(self, records: Sequence[Record]) -> dict[int, int]:
        """Append all or none, and return {partition: position passed} when that is durable.

        Raises a 503 `Problem` when too much waits, `RecordTooLarge`, and what
        `Producer.append` raises.
        """
        check_append(records)
        if self._ended:
            raise LogUnavailable(_ENDING)
        size = sum(len(record.value or b"") for record in records)
        if self._waiting and self._bytes + size > self._pending_bytes_max:
            raise Problem(
                "unavailable",
                "More requests wait for the log than may; come again in a moment.",
                retry_after_s=RETRY_S,
            )
        answer: asyncio.Future[dict[int, int]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(records, size, answer))
        self._bytes += size
        self._came.set()
        return await answer

    async def run(self) -> None:
        """Write until cancelled. Raises `ProducerFenced` if another process has our name."""
        try:
            while True:
                await self._came.wait()
                self._came.clear()
                while self._waiting:
                    await self._turn()
        finally:
            self._ended = True
            _fail(self._waiting, LogUnavailable(_ENDING))
            if self._producer is not None:
                await self._producer.close()

    async def _turn(self) -> None:
        """Append what waits, as much as one append may hold."""
        group = self._next_group()
        try:
            producer = await self._ready()
        except LogError as error:
            self._failed(group, error, "unavailable")
            return
        try:
            await self._write(producer, group, clock.monotonic_s() + SPLIT_S_MAX)
        except asyncio.CancelledError:
            _fail(group, AppendUnknown("this server ended before the log had answered"))
            raise
        except ProducerFenced as error:
            self._failed(group, error, "fenced")
            raise

    def _next_group(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        size = count = 0
        while self._waiting:
            item = self._waiting[0]
            size += item.size
            count += len(item.records)
            if group and (size > self._append_bytes_max or count > RECORDS_MAX):
                break
            group.append(self._waiting.popleft())
            self._bytes -= item.size
        return group

    async def _ready(self) -> Producer:
        if self._producer is None:
            self._producer = await self._log.producer(self._name)
        return self._producer

    async def _write(
        self, producer: Producer, group: Sequence[_Waiting], split_until_s: float
    ) -> None:
        """Append the group; when it is refused, its halves, so that a bad request fails alone."""
        records = [record for item in group for record in item.records]
        try:
            with metrics.APPEND_SECONDS.time():
                appended = await producer.append(records)
        except AppendRefused as error:
            if len(group) == 1 or clock.monotonic_s() > split_until_s:
                self._failed(group, error, "refused")
                return
            half = len(group) // 2
            for part in (group[:half], group[half:]):
                if self._producer is producer:
                    await self._write(producer, part, split_until_s)
                else:
                    _fail(part, LogUnavailable("the log is being reached anew"))
            return
        except AppendUnknown as error:
            self._producer = None
            self._failed(group, error, "unknown")
            with contextlib.suppress(LogError):
                await producer.close()
            return
        self.trouble = None
        metrics.APPENDS.labels("done").inc()
        positions = {partition: position for (_, partition), position in appended.items()}
        for item in group:
            if not item.answer.done():
                item.answer.set_result(_own(item.records, positions, appended))

    def _failed(self, group: Sequence[_Waiting], error: LogError, outcome: str) -> None:
        metrics.APPENDS.labels(outcome).inc()
        self.trouble = str(error)
        keys = (record.key for item in group for record in item.records)
        fields = job_sets_fields(keys)
        _logger.warning("%d requests could not be written: %s", len(group), error, extra=fields)
        _fail(group, error)


def _own(
    records: Sequence[Record], positions: Mapping[int, int], appended: Appended
) -> dict[int, int]:
    """The positions of the partitions that this request wrote to; all are told by number."""
    numbers = {record.partition for record in records}
    assert None not in numbers, "submit names the partition of each of its records"
    assert len(positions) == len(appended), "submit writes jobs to one topic"
    return {number: positions[number] for number in numbers if number is not None}


def _fail(group: Sequence[_Waiting] | deque[_Waiting], error: LogError) -> None:
    for item in group:
        if not item.answer.done():
            item.answer.set_exception(error)
