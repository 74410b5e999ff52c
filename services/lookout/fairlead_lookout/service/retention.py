"""The loop that deletes old rows and tables of the view.

Jobs are taken out of the counters before their tables are dropped: see `store/fold/week_expiry.py`.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

import asyncpg

from fairlead_common.db import Pool
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, REFUSAL_ERRORS
from fairlead_common.domain.timestamps import find_day
from fairlead_common.service import clock
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store import expired_rows, job_weeks, week_tables

EVERY_S: Final = 3_600.0
_logger: Final = logging.getLogger("fairlead.lookout.retention")


async def run_retention(pool: Pool, settings: Settings) -> None:
    """Delete old rows every hour, for ever. After an error it tries again in an hour."""
    while True:
        now_ms = clock.now_ms()
        first_day = find_day(now_ms) - timedelta(days=settings.events_days)
        try:
            for day in await expired_rows.drop_old_days(pool, first_day):
                _logger.info("dropped the public events of %s", day)
            for week in await week_tables.drop_expired_weeks(pool):
                first = find_day(job_weeks.start_ms(week))
                _logger.info("dropped the jobs of the week that began on %s", first)
            await expired_rows.delete_old_rows(pool, now_ms, settings.usage_days)
        except (*CONNECTION_ERRORS, *REFUSAL_ERRORS, asyncpg.LockNotAvailableError) as error:
            _logger.warning("old rows could not be deleted; next attempt in an hour: %s", error)
        await asyncio.sleep(EVERY_S)
