"""What lookout mirrors of a topic holds no more than the topic does."""

import asyncio

from fairlead_common.domain.records import scheduling_reports
from fairlead_common.domain.records.scheduling_reports import Waiting
from fairlead_common.log import topics
from fairlead_common.log.memory_log import MemoryLog
from fairlead_lookout.store.topic_caches import ReportCache


def waiting(number: int) -> Waiting:
    """Why the jobs of a queue and a pool of their own wait."""
    return Waiting(pool=f"p{number}", queue=f"q{number}", code="c", sentence="s", shape="x", jobs=1)


async def test_pools_and_queues_without_reports_are_removed() -> None:
    log = MemoryLog(lambda: 0)
    await log.create(topics.reports())
    producer = await log.producer("test")
    mirror = ReportCache(log, away_s=10.0)
    following = asyncio.create_task(mirror.run())
    said = [waiting(number) for number in range(50)]
    try:
        async with asyncio.timeout(60):
            await producer.append([scheduling_reports.record(each) for each in said])
            while len(mirror.values) < len(said):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await producer.append(
                [scheduling_reports.deletion_record(scheduling_reports.key(each)) for each in said]
            )
            while mirror.values:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
    assert not mirror.times_ms
    assert mirror._keys_of_pool == mirror._keys_of_queue == {}
