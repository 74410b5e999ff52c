"""Sums of queues and pools that are gone do not stay for ever."""

from fairlead_common.db import open_pool
from fairlead_lookout.store import expired_rows
from fairlead_lookout.store.view_schema import migrate_schema

DAY_MS = 86_400_000
NOW_MS = 1_000 * DAY_MS


async def test_old_rows_of_deleted_queues_and_pools_are_deleted(fresh_database: str) -> None:
    pool = await open_pool(fresh_database, size_max=1)
    try:
        await migrate_schema(pool)
        await pool.executemany(
            "INSERT INTO fairlead_lookout.queue_counts (queue, class, state, jobs)"
            " VALUES ($1, 'default', 'QUEUED', $2)",
            [("gone", 0), ("here", 2)],
        )
        await pool.executemany(
            "INSERT INTO fairlead_lookout.rounds (pool, at_ms, report) VALUES ($1, $2, '')",
            [("gone", NOW_MS - 30 * DAY_MS), ("here", NOW_MS - DAY_MS)],
        )
        await pool.executemany(
            "INSERT INTO fairlead_lookout.user_usage VALUES ('q', $1, 'cpu', 'anna', 1, 0)",
            [(NOW_MS - 30 * DAY_MS,), (NOW_MS - 10 * DAY_MS,)],
        )
        await expired_rows.delete_old_rows(pool, NOW_MS, usage_days=20)
        used = await pool.fetch("SELECT hour_ms FROM fairlead_lookout.user_usage")
        counts = await pool.fetch("SELECT queue, jobs FROM fairlead_lookout.queue_counts")
        rounds = await pool.fetch("SELECT pool FROM fairlead_lookout.rounds")
    finally:
        await pool.close()
    assert [tuple(row) for row in counts] == [("here", 2)]
    assert [row["pool"] for row in rounds] == ["here"]
    assert [row["hour_ms"] for row in used] == [NOW_MS - 10 * DAY_MS]
