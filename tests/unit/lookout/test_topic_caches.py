"""What lookout mirrors of a topic holds no more than the topic does."""

import asyncio

from fairlead_common.domain.records import configuration, scheduling_reports
from fairlead_common.domain.records.scheduling_reports import WaitingReport
from fairlead_common.log import topics
from fairlead_common.log.memory_log import MemoryLog
from fairlead_lookout.store.topic_caches import ConfigurationCache, ReportCache


def waiting(number: int) -> WaitingReport:
    """Why the jobs of a queue and a pool of their own wait."""
    return WaitingReport(
        pool=f"p{number}", queue=f"q{number}", code="c", sentence="s", shape="x", jobs=1
    )


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
            while len(mirror.entries) < len(said):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await producer.append(
                [scheduling_reports.deletion_record(scheduling_reports.key(each)) for each in said]
            )
            while mirror.entries:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        following.cancel()
    assert mirror._keys_of_pool == mirror._keys_of_queue == {}


async def test_a_cache_is_current_once_it_has_what_the_topic_had_when_it_was_asked() -> None:
    log = MemoryLog(lambda: 0)
    await log.create(topics.config())
    await (await log.producer("submit")).append(
        [configuration.record(configuration.Queue(name="a"))]
    )
    mirror = ConfigurationCache(log, away_s=10.0)
    waits = asyncio.create_task(mirror.wait_until_current(60.0))
    following = asyncio.create_task(mirror.run())
    try:
        assert await waits
        assert mirror.find_queue("a") is not None
        assert await mirror.wait_until_current(60.0)
        log.core.away = True
        assert not await mirror.wait_until_current(60.0)
    finally:
        following.cancel()


async def test_keys_deleted_while_the_log_was_away_are_removed() -> None:
    log = MemoryLog(lambda: 0)
    await log.create(topics.reports())
    producer = await log.producer("test")
    mirror = ReportCache(log, away_s=10.0)
    reports = [waiting(number) for number in range(3)]
    await producer.append([scheduling_reports.record(each) for each in reports])
    for left in (reports, reports[:1]):
        following = asyncio.create_task(mirror.run())
        async with asyncio.timeout(60):
            while not mirror.ready:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert mirror.entries.keys() == {scheduling_reports.key(each) for each in left}
        following.cancel()
        await asyncio.wait([following])
        await producer.append(
            [scheduling_reports.deletion_record(scheduling_reports.key(each)) for each in left[1:]]
        )
    assert not mirror.has_pool("p1")
    assert mirror.has_pool("p0")


async def test_a_changed_queue_or_cordon_is_noticed() -> None:
    log = MemoryLog(lambda: 0)
    await log.create(topics.config())
    producer = await log.producer("test")
    changed = asyncio.Event()
    mirror = ConfigurationCache(log, away_s=10.0, on_change=changed.set)
    following = asyncio.create_task(mirror.run())
    cordon = configuration.Cordon(executor="e", cordoned=True, version=1)
    try:
        async with asyncio.timeout(60):
            await producer.append([configuration.record(cordon)])
            await changed.wait()
    finally:
        following.cancel()
    assert mirror.find_cordon("e") == cordon
