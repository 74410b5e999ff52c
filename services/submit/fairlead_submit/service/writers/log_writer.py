"""Group commit: requests that arrive during an append are appended together in the next one.

Each request is answered after its own commit. A request that the log refuses fails alone. After an
unknown outcome all requests of the group fail, and the producer is created again. The number of
pending bytes is limited; further requests are refused.
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
"""Maximum number of records of one append."""

SPLIT_S_MAX: Final = 2.0
"""A refusal that took longer is caused by an unavailable log, not by one bad request."""

RETRY_S: Final = 1
_ENDING: Final = "This server is shutting down; nothing was written. Try again."
_logger = logging.getLogger("fairlead.submit")


class _PendingRequest(msgspec.Struct, gc=False):
    records: Sequence[Record]
    size: int
    answer: "asyncio.Future[dict[int, int]]"


class LogWriter:
    """Appends the records of many requests. `run` must be running."""

    def __init__(
        self, log: EventLog, name: str, *, append_bytes_max: int, pending_bytes_max: int
    ) -> None:
        self._log = log
        self._name = name
        self._append_bytes_max = append_bytes_max
        self._pending_bytes_max = pending_bytes_max
        self._pending: deque[_PendingRequest] = deque()
        self._bytes = 0
        self._new_request = asyncio.Event()
        self._producer: Producer | None = None
        self._ended = False
        self.failure: str | None = None
        """Why the last append failed, or None."""
        metrics.PENDING_BYTES.set_function(lambda: self._bytes)
        metrics.PENDING_REQUESTS.set_function(lambda: len(self._pending))

    async def append(self, records: Sequence[Record]) -> dict[int, int]:
        """Append all records or none, and return {partition: position after them} once durable.

        Raises a 503 `Problem` if too many bytes are pending, `RecordTooLarge`, and what
        `Producer.append` raises.
        """
        size = check_append(records)
        if self._ended:
            raise LogUnavailable(_ENDING)
        if self._pending and self._bytes + size > self._pending_bytes_max:
            raise Problem(
                "unavailable",
                "Too many requests are waiting for the log. Try again in a moment.",
                retry_after_s=RETRY_S,
            )
        answer: asyncio.Future[dict[int, int]] = asyncio.get_running_loop().create_future()
        self._pending.append(_PendingRequest(records, size, answer))
        self._bytes += size
        self._new_request.set()
        return await answer

    async def run(self) -> None:
        """Append until cancelled. Raises `ProducerFenced` if another process has the same name."""
        try:
            while True:
                await self._new_request.wait()
                self._new_request.clear()
                while self._pending:
                    await self._append_group()
        finally:
            self._ended = True
            _fail(self._pending, LogUnavailable(_ENDING))
            if self._producer is not None:
                await self._producer.close()

    async def _append_group(self) -> None:
        """Append as many pending requests as fit in one append."""
        group = self._next_group()
        try:
            producer = await self._get_producer()
        except LogError as error:
            self._fail_group(group, error, "unavailable")
            return
        try:
            await self._append(producer, group, clock.monotonic_s() + SPLIT_S_MAX)
        except asyncio.CancelledError:
            _fail(group, AppendUnknown("the server was shut down before the log answered"))
            raise
        except ProducerFenced as error:
            self._fail_group(group, error, "fenced")
            raise

    def _next_group(self) -> list[_PendingRequest]:
        group: list[_PendingRequest] = []
        size = count = 0
        while self._pending:
            item = self._pending[0]
            size += item.size
            count += len(item.records)
            if group and (size > self._append_bytes_max or count > RECORDS_MAX):
                break
            group.append(self._pending.popleft())
            self._bytes -= item.size
        return group

    async def _get_producer(self) -> Producer:
        if self._producer is None:
            self._producer = await self._log.producer(self._name)
        return self._producer

    async def _append(
        self, producer: Producer, group: Sequence[_PendingRequest], split_until_s: float
    ) -> None:
        """Append the group. If it is refused, append its halves: a bad request fails alone."""
        records = [record for item in group for record in item.records]
        try:
            with metrics.APPEND_SECONDS.time():
                appended = await producer.append(records)
        except AppendRefused as error:
            if len(group) == 1 or clock.monotonic_s() > split_until_s:
                self._fail_group(group, error, "refused")
                return
            half = len(group) // 2
            for part in (group[:half], group[half:]):
                if self._producer is producer:
                    await self._append(producer, part, split_until_s)
                else:
                    _fail(part, LogUnavailable("the connection to the log is being opened again"))
            return
        except AppendUnknown as error:
            self._producer = None
            self._fail_group(group, error, "unknown")
            with contextlib.suppress(LogError):
                await producer.close()
            return
        self.failure = None
        metrics.APPENDS.labels("done").inc()
        positions = {partition: position for (_, partition), position in appended.items()}
        for item in group:
            if not item.answer.done():
                item.answer.set_result(_select_positions(item.records, positions, appended))

    def _fail_group(self, group: Sequence[_PendingRequest], error: LogError, outcome: str) -> None:
        metrics.APPENDS.labels(outcome).inc()
        self.failure = str(error)
        keys = (record.key for item in group for record in item.records)
        fields = job_sets_fields(keys)
        _logger.warning("%d requests could not be written: %s", len(group), error, extra=fields)
        _fail(group, error)


def _select_positions(
    records: Sequence[Record], positions: Mapping[int, int], appended: Appended
) -> dict[int, int]:
    """The positions of the partitions that this request wrote to."""
    numbers = {record.partition for record in records}
    assert None not in numbers, "submit names the partition of each of its records"
    assert len(positions) == len(appended), "submit writes jobs to one topic"
    return {number: positions[number] for number in numbers if number is not None}


def _fail(group: Sequence[_PendingRequest] | deque[_PendingRequest], error: LogError) -> None:
    for item in group:
        if not item.answer.done():
            item.answer.set_exception(error)
