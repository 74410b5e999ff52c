"""Opens the log that a URL names, and maintains it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from fairlead_common.domain.errors import LogUnavailable, LogUrlInvalid
from fairlead_common.log.disk_guard import DiskGuardedLog
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.postgres.event_log import PostgresLog
from fairlead_common.log.protocol import EventLog
from fairlead_common.service.disk import Disk
from fairlead_common.service.startup_retries import until_available

CLEANUP_S: Final = 30.0
_logger = logging.getLogger("fairlead.log")


async def open_log(url: str, disk: Disk | None = None, *, wait_s: float = 0.0) -> EventLog:
    """The log at `postgresql://...`, `kafka://...` or `kafka+tls://...` (see `kafka/address.py`).

    With a disk, appends are refused while it is full. An unavailable log is tried again for
    `wait_s`. Raises `LogUrlInvalid` for any other URL, and `LogUnavailable` past that bound.
    """
    retrying = until_available("the log", (LogUnavailable,), wait_s, _logger)
    log: EventLog = await retrying(_open, url)
    return log if disk is None or not disk.is_watched else DiskGuardedLog(log, disk)


async def _open(url: str) -> EventLog:
    match urlsplit(url).scheme:
        case "postgres" | "postgresql":
            return await PostgresLog.open(url)
        case "kafka" | "kafka+tls":
            from fairlead_common.log.kafka.event_log import (
                KafkaLog,  # its client takes long to import
            )

            return await KafkaLog.open(url)
        case scheme:
            raise LogUrlInvalid(
                "a log's URL begins with postgresql://, kafka:// or kafka+tls://, "
                f"not with {scheme!r}"
            )


async def maintain_log(
    log: EventLog, clock_ms: Callable[[], int], *, every_s: float = CLEANUP_S
) -> None:
    """Drop records whose retention has ended, at intervals, for ever. Kafka does that itself.

    Several processes can run this task: only one of them does the work. An outage of the log is
    ignored here; readers and producers report it.
    """
    if isinstance(log, DiskGuardedLog):
        log = log.inner
    if not isinstance(log, PostgresLog):
        from fairlead_common.log.kafka.event_log import KafkaLog

        # A wrapper that is not known here would prevent every cleanup.
        assert isinstance(log, KafkaLog | MemoryLog), f"no cleanup for {type(log).__name__}"
        return
    while True:
        with contextlib.suppress(LogUnavailable):
            await log.maintain(clock_ms())
        await asyncio.sleep(every_s)
