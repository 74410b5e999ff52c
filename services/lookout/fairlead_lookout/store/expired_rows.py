"""Deleting old rows: public events (the table of one day in one short transaction), shares,
resource-hours, rounds. Old jobs are dropped by `week_tables.py`."""

from datetime import date
from typing import Final

from fairlead_common.db import Pool
from fairlead_common.db.locks import LockClass
from fairlead_lookout.domain.fairness_fold import MINUTE_MS, MINUTES_RETAINED_MS
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.store.dated_tables import drop_tables, list_days
from fairlead_lookout.store.view_schema import FAIRNESS, FOLD, SCHEMA

ROUNDS_RETAINED: Final = 1_000
EVENTS: Final = f"{SCHEMA}.events"


async def drop_old_days(pool: Pool, first_day: date) -> list[date]:
    """Drop the tables of all days before `first_day`; returns these days."""
    old = [day for day in await list_days(pool, EVENTS) if day < first_day]
    for day in old:
        table = f"{EVENTS}_{day:%Y%m%d}"
        async with drop_tables(pool, LockClass.LOOKOUT_TABLES, table) as connection:
            await connection.execute(FOLD["record_dropped"], day)
            await connection.execute(FOLD["record_dropped_of_queues"], day)
    return old


async def delete_old_rows(pool: Pool, now_ms: int, usage_days: int) -> None:
    """Delete shares, resource-hours and preemptions that are too old, all but the last rounds,
    and counters of queues that are 0."""
    oldest_ms = now_ms - usage_days * 24 * HOUR_MS
    minutes_ms = now_ms - MINUTES_RETAINED_MS
    await pool.execute(FAIRNESS["delete_shares"], MINUTE_MS, minutes_ms)
    await pool.execute(FAIRNESS["delete_shares"], HOUR_MS, oldest_ms)
    await pool.execute(FAIRNESS["delete_usage"], oldest_ms)
    await pool.execute(FAIRNESS["delete_user_usage"], oldest_ms)
    await pool.execute(FAIRNESS["delete_excess_rounds"], ROUNDS_RETAINED)
    await pool.execute(FAIRNESS["delete_old_rounds"], oldest_ms)
    await pool.execute(FOLD["delete_preemptions"], oldest_ms)
    await pool.execute(FOLD["delete_queue_counts"])
