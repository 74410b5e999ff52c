"""Deleting old rows: public events (the table of one day in one short transaction), shares,
resource-hours, rounds. Old jobs are dropped by `week_tables.py`."""

from datetime import date, datetime
from typing import Final

from fairlead_common.db import Pool
from fairlead_common.db.locks import LockClass
from fairlead_lookout.domain.fairness_fold import MINUTE_MS, MINUTES_RETAINED_MS
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.store.view_schema import FAIRNESS, FOLD, SCHEMA

ROUNDS_RETAINED: Final = 1_000
_PREFIX: Final = "events_"


async def drop_old_days(pool: Pool, first_day: date) -> list[date]:
    """Drop the tables of all days before `first_day`; returns these days."""
    dropped = []
    for row in await pool.fetch(FOLD["day_tables"]):
        day = datetime.strptime(row["name"].removeprefix(_PREFIX), "%Y%m%d").date()  # noqa: DTZ007
        if day >= first_day:
            continue
        async with pool.acquire() as connection, connection.transaction():
            # Behind a long read of the table this fails and is tried again in the next hour.
            await connection.execute("SET LOCAL lock_timeout = '2s'")
            await connection.execute(FOLD["lock_days"], LockClass.LOOKOUT_DAYS)
            await connection.execute(FOLD["record_dropped"], day)
            await connection.execute(FOLD["record_dropped_of_queues"], day)
            await connection.execute(f"DROP TABLE IF EXISTS {SCHEMA}.{_PREFIX}{day:%Y%m%d}")
        dropped.append(day)
    return dropped


async def delete_old_rows(pool: Pool, now_ms: int, usage_days: int) -> None:
    """Delete shares, resource-hours and preemptions that are too old, all but the last rounds,
    and counters of queues that are 0."""
    oldest_ms = now_ms - usage_days * 24 * HOUR_MS
    minutes_ms = now_ms - MINUTES_RETAINED_MS
    await pool.execute(FAIRNESS["delete_shares"], MINUTE_MS, minutes_ms)
    await pool.execute(FAIRNESS["delete_shares"], HOUR_MS, oldest_ms)
    await pool.execute(FAIRNESS["delete_usage"], oldest_ms)
    await pool.execute(FAIRNESS["delete_excess_rounds"], ROUNDS_RETAINED)
    await pool.execute(FAIRNESS["delete_old_rounds"], oldest_ms)
    await pool.execute(FOLD["delete_preemptions"], oldest_ms)
    await pool.execute(FOLD["delete_queue_counts"])
