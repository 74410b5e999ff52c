"""The upkeep of the log in Postgres while lookout folds out of the same database."""

import asyncpg
import pytest

from fairlead_common.log.postgres.event_log import PostgresLog
from fairlead_common.log.protocol import Record
from fairlead_common.log.topics import JOB_PARTITIONS, leases
from fairlead_common.service import clock
from fairlead_lookout.store.fold.partition_locks import PartitionLocks

RUNS = 3_000
LIVE = 50


@pytest.fixture
async def folding(fresh_database: str) -> asyncpg.Connection:
    """A connection that holds the locks of all of lookout's partitions."""
    connection = await asyncpg.connect(fresh_database)
    partitions = PartitionLocks(connection, lambda: 1)
    while len(partitions.held) < JOB_PARTITIONS:
        await partitions.balance()
    yield connection
    await connection.close()


async def test_the_log_is_compacted_while_lookout_holds_its_partitions(
    fresh_database: str, folding: asyncpg.Connection
) -> None:
    log = await PostgresLog.open(fresh_database)
    topic = leases("one")
    await log.create(topic)
    producer = await log.producer("scheduler")
    for begin in range(0, RUNS, 1_000):
        runs = [f"run-{number}" for number in range(begin, begin + 1_000)]
        await producer.append([Record(topic.name, run, b"lease") for run in runs])
        await producer.append([Record(topic.name, run, None) for run in runs])
    await producer.append([Record(topic.name, f"live-{n}", b"lease") for n in range(LIVE)])
    now_ms = clock.now_ms()
    await log.maintain(now_ms)
    count = "SELECT count(*) FROM fairlead_log.records"
    assert await folding.fetchval(count) == RUNS + LIVE, "the leases that ended are still there"
    await log.maintain(now_ms + 86_400_000)
    assert await folding.fetchval(count) == LIVE, "the tombstones are still there"
    await log.close()
