"""Waits during an outage of the log or the database, for a limited time."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from fairlead_common.db.connection_pool import (
    CONNECTION_ERRORS,
    DISK_FULL,
    REFUSAL_ERRORS,
    DatabaseUnavailable,
)
from fairlead_common.domain.errors import LogUnavailable, PositionExpired
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk, Space

RETRY_S: Final = 0.2
FULL_RETRY_S: Final = 2.0
_logger: Final = logging.getLogger("fairlead.lookout")


class Outages:
    """The outages of one worker. `problem`: what it waits for, if it waits."""

    def __init__(self, worker: str, away_s: float) -> None:
        self.problem: str | None = f"{worker} has not started"
        self.disk_full: str | None = None
        """Why nothing can be written now, if a disk is full. There is no limit for this."""
        self._worker = worker
        self._waits = False
        self._away_s = away_s
        self._last_progress_s = clock.monotonic_s()

    def report_progress(self) -> None:
        """Note that the worker works: a later outage is timed from now."""
        if self._waits:
            _logger.info("%s works again", self._worker)
        self.problem = None
        self.disk_full = None
        self._waits = False
        self._last_progress_s = clock.monotonic_s()

    async def wait_for_space(self, disk: Disk) -> None:
        """Return as soon as the disk is not full."""
        while disk.space is Space.FULL:
            problem = disk.problem()
            if self.disk_full is None:
                _logger.warning("%s waits: %s", self._worker, problem)
            self.disk_full, self._waits = problem, True
            await asyncio.sleep(FULL_RETRY_S)
        if self.disk_full is not None:
            self.report_progress()

    async def run_sessions(self, session: Callable[[], Awaitable[None]]) -> None:
        """Run one session after another, for ever; each reads its positions again.

        While a disk is full it waits without a limit.

        Raises every error that is not an outage, and `LogUnavailable` or `DatabaseUnavailable`
        when an outage lasts longer than `away_s`.
        """
        while True:
            try:
                await session()
            except PositionExpired as error:
                _logger.info("%s reads its positions again: %s", self._worker, error)
            except asyncpg.DiskFullError as error:
                self.disk_full = DISK_FULL.format(error)
                self._note_outage(error, math.inf)
                await asyncio.sleep(FULL_RETRY_S)
                self._last_progress_s = clock.monotonic_s()  # the limit does not include this time
            except (*CONNECTION_ERRORS, *REFUSAL_ERRORS, LogUnavailable) as error:
                self._note_outage(error, self._away_s)
            await asyncio.sleep(RETRY_S)

    def _note_outage(self, error: BaseException, limit_s: float) -> None:
        reason = str(error) or type(error).__name__
        away_s = clock.monotonic_s() - self._last_progress_s
        if away_s > limit_s:
            kind = LogUnavailable if isinstance(error, LogUnavailable) else DatabaseUnavailable
            raise kind(f"{self._worker}: unavailable for {away_s:.0f} s: {reason}") from error
        if not self._waits:
            _logger.warning("%s waits: %s", self._worker, reason)
        self._waits = True
        self.problem = f"{self._worker} waits: {reason}"
