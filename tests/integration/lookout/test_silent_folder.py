"""A process of lookout that falls silent gives its partitions up."""

import asyncio

import pytest

from fairlead_common.db import lock_session
from fairlead_common.log.topics import JOB_PARTITIONS
from fairlead_lookout.store.fold.partition_locks import PartitionLocks

PATIENCE_S = 60.0


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_partitions_of_a_silent_process_are_taken_over(
    fresh_database: str, in_transaction: bool
) -> None:
    silent = await lock_session.connect(fresh_database, name="silent")
    before = PartitionLocks(silent, lambda: 1)
    while len(before.held) < JOB_PARTITIONS:
        await before.balance()
    if in_transaction:
        await silent.execute("BEGIN")
    other = await lock_session.connect(fresh_database, name="other")
    after = PartitionLocks(other, lambda: 2)
    async with asyncio.timeout(PATIENCE_S):
        while len(after.held) < JOB_PARTITIONS:
            await after.balance()
            await asyncio.sleep(0.5)
    silent.terminate()
    await other.close()
