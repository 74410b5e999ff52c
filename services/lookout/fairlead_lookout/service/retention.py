"""Dropping what is old: events of days that are over (whole tables, one short transaction each),
shares by the minute, resource-hours, rounds. Jobs are forgotten by `job_pruning.py`."""

import asyncio
import logging
from datetime import UTC, date, datetime, timedelta
from typing import Final

import asyncpg

from fairlead_common.db import Pool
from fairlead_common.db.connection_pool import AWAY, REFUSES
from fairlead_common.db.locks import LockClass
from fairlead_common.service import clock
from fairlead_lookout.domain.fairness_fold import MINUTE_MS, MINUTES_KEPT_MS
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.service.fairness_loop import SQL as FAIRNESS
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store.fold.fold_store import SCHEMA, SQL

EVERY_S: Final = 3_600.0
ROUNDS_KEPT: Final = 1_000
_PREFIX: Final = "events_"
_logger: Final = logging.getLogger("fairlead.lookout.upkeep")


async def drop_old_days(pool: Pool, first_kept: date) -> list[date]:
    """Drop the tables of all days before `first_kept`; returns these days."""
    dropped = []
    for row in await pool.fetch(SQL["day_tables"]):
        day = datetime.strptime(row["name"].removeprefix(_PREFIX), "%Y%m%d").date()  # noqa: DTZ007
        if day >= first_kept:
            continue
        async with pool.acquire() as connection, connection.transaction():
            # A reader that holds the table for long makes this wait for the next turn instead.
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            await connection.execute(SQL["lock_days"], LockClass.LOOKOUT_DAYS)
            await connection.execute(SQL["note_dropped"], day)
            await connection.execute(SQL["note_dropped_of_queues"], day)
            await connection.execute(f"DROP TABLE IF EXISTS {SCHEMA}.{_PREFIX}{day:%Y%m%d}")
        dropped.append(day)
    return dropped


async def forget_old_sums(pool: Pool, now_ms: int, usage_days: int) -> None:
    """Forget shares and resource-hours that are too old, all but the last rounds, and counters of
    queues that count nothing."""
    oldest_ms = now_ms - usage_days * 24 * HOUR_MS
    minutes_ms = now_ms - MINUTES_KEPT_MS
    await pool.execute(FAIRNESS["forget_standing"], MINUTE_MS, minutes_ms)
    await pool.execute(FAIRNESS["forget_standing"], HOUR_MS, oldest_ms)
    await pool.execute(FAIRNESS["forget_usage"], oldest_ms)
    await pool.execute(FAIRNESS["forget_rounds"], ROUNDS_KEPT)
    await pool.execute(FAIRNESS["forget_old_rounds"], oldest_ms)
    await pool.execute(SQL["forget_queue_counts"])


async def keep_tidy(pool: Pool, settings: Settings) -> None:
    """Do so every hour, for ever. What cannot be done now is done in an hour."""
    while True:
        now_ms = clock.now_ms()
        today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
        try:
            for day in await drop_old_days(pool, today - timedelta(days=settings.events_days)):
                _logger.info("dropped the public events of %s", day)
            await forget_old_sums(pool, now_ms, settings.usage_days)
        except (*AWAY, *REFUSES, asyncpg.LockNotAvailableError) as error:
            _logger.warning("what is old stays for another hour: %s", error)
        await asyncio.sleep(EVERY_S)
