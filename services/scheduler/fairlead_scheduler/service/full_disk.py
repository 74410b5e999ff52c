"""Retries writes that failed because the disk is full, until there is space."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from fairlead_common.db.connection_pool import DISK_FULL
from fairlead_common.domain.errors import StorageFull
from fairlead_common.service.disk import Disk, Space

T = TypeVar("T")

RETRY_S: Final = 1.0
_logger = logging.getLogger("fairlead.scheduler")


class FullDisk:
    """Retries writes while the disk is full. `problem`: why it waits; None if it does not."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.problem: str | None = None

    async def retry_until_space(self, write: Callable[[], Awaitable[T]]) -> T:
        """The result of `write`, which must be atomic; it is tried until there is space for it."""
        while True:
            try:
                self.disk.check(Space.FULL)
                result = await write()
            except StorageFull as error:
                self._wait(str(error))
            except asyncpg.DiskFullError as error:
                self._wait(DISK_FULL.format(error))
            else:
                if self.problem is not None:
                    _logger.info("the disk has space again; the scheduler continues")
                self.problem = None
                return result
            await asyncio.sleep(RETRY_S)

    def _wait(self, problem: str) -> None:
        if self.problem is None:
            _logger.warning("the scheduler is waiting for disk space: %s", problem)
        self.problem = problem
