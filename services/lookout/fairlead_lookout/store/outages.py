"""Waiting out an outage of the log or the database, within a bound."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from fairlead_common.db.connection_pool import AWAY, DISK_FULL, REFUSES, DatabaseUnavailable
from fairlead_common.domain.errors import LogUnavailable, PositionExpired
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk, Space

RETRY_S: Final = 0.2
FULL_RETRY_S: Final = 2.0
_logger: Final = logging.getLogger("fairlead.lookout")


class Outages:
    """Keeps one worker at work. `trouble` says what it waits for, if it does."""

    def __init__(self, worker: str, away_s: float) -> None:
        self.trouble: str | None = f"{worker} has not begun"
        self.full: str | None = None
        """Why nothing can be written just now, if a disk is full: no bound applies to that."""
        self._worker = worker
        self._waits = False
        self._away_s = away_s
        self._last_well_s = clock.monotonic_s()

    def well(self) -> None:
        """The worker gets on with its work."""
        if self._waits:
            _logger.info("%s goes on", self._worker)
        self.trouble = None
        self.full = None
        self._waits = False
        self._last_well_s = clock.monotonic_s()

    async def until_space(self, disk: Disk) -> None:
        """Return at once, or when the disk is full no more."""
        while disk.space is Space.FULL:
            problem = disk.problem()
            if self.full is None:
                _logger.warning("%s waits: %s", self._worker, problem)
            self.full, self._waits = problem, True
            await asyncio.sleep(FULL_RETRY_S)
        if self.full is not None:
            self.well()

    async def outlast(self, session: Callable[[], Awaitable[None]]) -> None:
        """Work in sessions, for ever: whatever ends one, the next reads its positions anew.

        A full disk is waited for without a bound.

        Raises what is no outage; `LogUnavailable` or `DatabaseUnavailable` when one lasts longer
        than the bound.
        """
        while True:
            try:
                await session()
            except PositionExpired as error:
                _logger.info("%s reads its positions again: %s", self._worker, error)
            except asyncpg.DiskFullError as error:
                self.full = DISK_FULL.format(error)
                self._wait(error, math.inf)
                await asyncio.sleep(FULL_RETRY_S)
                self._last_well_s = clock.monotonic_s()  # the bound is of what comes after this
            except (*AWAY, *REFUSES, LogUnavailable) as error:
                self._wait(error, self._away_s)
            await asyncio.sleep(RETRY_S)

    def _wait(self, error: BaseException, bound_s: float) -> None:
        reason = str(error) or type(error).__name__
        away_s = clock.monotonic_s() - self._last_well_s
        if away_s > bound_s:
            kind = LogUnavailable if isinstance(error, LogUnavailable) else DatabaseUnavailable
            raise kind(f"{self._worker}: away for {away_s:.0f} s: {reason}") from error
        if not self._waits:
            _logger.warning("%s waits: %s", self._worker, reason)
        self._waits = True
        self.trouble = f"{self._worker} waits: {reason}"
