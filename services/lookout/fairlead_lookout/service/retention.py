"""The loop that deletes old rows of the view, all but jobs: see `store/fold/job_pruning.py`."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg

from fairlead_common.db import Pool
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, REFUSAL_ERRORS
from fairlead_common.service import clock
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store import expired_rows

EVERY_S: Final = 3_600.0
_logger: Final = logging.getLogger("fairlead.lookout.retention")


async def run_retention(pool: Pool, settings: Settings) -> None:
    """Delete old rows every hour, for ever. After an error it tries again in an hour."""
    while True:
        now_ms = clock.now_ms()
        today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
        first_day = today - timedelta(days=settings.events_days)
        try:
            for day in await expired_rows.drop_old_days(pool, first_day):
                _logger.info("dropped the public events of %s", day)
            await expired_rows.delete_old_rows(pool, now_ms, settings.usage_days)
        except (*CONNECTION_ERRORS, *REFUSAL_ERRORS, asyncpg.LockNotAvailableError) as error:
            _logger.warning("old rows could not be deleted; next attempt in an hour: %s", error)
        await asyncio.sleep(EVERY_S)
