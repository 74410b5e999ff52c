"""Services read every kind of undecodable record of every topic, and stop where they must."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fairlead_common.domain.ids import run_id
from fairlead_common.domain.records import clusters
from fairlead_common.domain.records.clusters import Heartbeat
from fairlead_common.log import EventLog, Record, topics
from fairlead_common.log.memory_log import MemoryCore
from fairlead_common.log.topics import JOBS
from fairlead_common.service.health import Degraded
from fairlead_scheduler.service.service import Service
from fairlead_scheduler.service.settings import SchedulerSettings
from tests import undecodable_records
from tests.integration.lookout.lookout_harness import running as lookout
from tests.integration.scheduler.world import World, job_id, submitted
from tests.undecodable_records import PARTITION, TOPICS, UndecodableRecord
from tests.unit.lookout import builders
from tests.waiting import until_read

WAIT_S_MAX = 120.0


async def append(log: EventLog, found: Iterable[UndecodableRecord]) -> None:
    """Append what every log can hold."""
    producer = await log.producer("a stranger")
    for each in found:
        if each.is_utf8:
            await producer.append([Record(each.topic, each.key, each.value, each.partition)])


async def append_undecodable_records(world: World) -> None:
    """Every kind on every topic, that of the leases for an executor that has reported."""
    await world.log.create(topics.leases(undecodable_records.EXECUTOR))
    producer = await world.log.producer("damaged")
    await producer.append(
        [clusters.heartbeat_record(Heartbeat(executor=undecodable_records.EXECUTOR))]
    )
    for topic in TOPICS:
        await append(world.log, undecodable_records.make_records(topic))


@asynccontextmanager
async def scheduler(url: str, valkey_url: str, *skip: str) -> AsyncIterator[Service]:
    """A scheduler that runs while the block does, and never fails."""
    settings = SchedulerSettings(
        log_url=url, database_url=url, redis_url=valkey_url, checkpoint_s=0.1, skip_records=skip
    )
    async with (
        Service.open(settings) as service,
        asyncio.timeout(WAIT_S_MAX),
        asyncio.TaskGroup() as group,
    ):
        task = group.create_task(service.run())
        yield service
        task.cancel()


async def leased(world: World, *runs: str) -> dict[str, Any]:
    """The live leases, once these are among them."""
    live: dict[str, Any] = await world.live_leases(lambda found: set(runs) <= found.keys())
    return live


async def test_a_scheduler_leases_jobs_despite_undecodable_records(
    fresh_database: str, valkey_url: str
) -> None:
    async with World.open(fresh_database) as world:
        await append_undecodable_records(world)
        await world.report_nodes()
        await world.tell(submitted("a"))
        async with scheduler(fresh_database, valkey_url) as service:
            await leased(world, run_id(job_id("a"), 1))
            await append_undecodable_records(world)
            await world.tell(submitted("b"))
            await leased(world, run_id(job_id("b"), 1))
            said = await service.checks()["quarantine"]()
            assert isinstance(said, Degraded)
            assert "scheduler skipped" in said


async def test_jobs_of_a_stopped_partition_wait_until_it_continues(
    fresh_database: str, valkey_url: str
) -> None:
    before, after = (run_id(undecodable_records.job_id(name), 1) for name in ("before", "after"))
    async with World.open(fresh_database) as world:
        producer = await world.log.producer("a newer submit")
        await producer.append([undecodable_records.good(JOBS, "before")])
        found = undecodable_records.unknown_event("jobPainted")
        appended = await producer.append([Record(JOBS, found.key, found.value, PARTITION)])
        await producer.append([undecodable_records.good(JOBS, "after")])
        await world.report_nodes()
        async with scheduler(fresh_database, valkey_url) as service:
            await world.tell(submitted("a"))
            live = await leased(world, run_id(job_id("a"), 1))
            assert before not in live
            said = await service.checks()["quarantine"]()
            assert isinstance(said, Degraded)
            assert f"stopped reading partition {PARTITION}" in said
            assert "jobPainted" in said
        # As a version would that knows the event: nothing of the partition was lost.
        at = appended[JOBS, PARTITION] - 1
        async with scheduler(fresh_database, valkey_url, f"{JOBS}/{PARTITION}/{at}") as service:
            await leased(world, before, after)


async def test_a_new_leader_ends_no_run_of_a_partition_that_it_cannot_read(
    fresh_database: str, valkey_url: str
) -> None:
    """A lease that a newer leader wrote after the unknown event stays."""
    unseen = undecodable_records.good(topics.leases(undecodable_records.EXECUTOR).name, "unseen")
    async with World.open(fresh_database) as world:
        await world.log.create(topics.leases(undecodable_records.EXECUTOR))
        await append(world.log, [undecodable_records.unknown_event("jobPainted")])
        producer = await world.log.producer("a newer leader")
        await producer.append(
            [unseen, clusters.heartbeat_record(Heartbeat(executor=undecodable_records.EXECUTOR))]
        )
        await world.report_nodes()
        await world.tell(submitted("a"))
        async with scheduler(fresh_database, valkey_url):
            await leased(world, run_id(job_id("a"), 1))
        newest = await _newest(world.log, unseen.topic)
        assert newest == {unseen.key: unseen.value}


async def _newest(log: EventLog, topic: str) -> dict[str, bytes | None]:
    end, start = await log.end_positions(topic), await log.start_positions(topic)
    reader = await log.reader(topic, start)
    found: dict[str, bytes | None] = {}
    while start != end:
        batch = await reader.read()
        found |= {entry.key: entry.value for entry in batch.entries}
        start = batch.positions
    return found


async def test_lookout_lists_jobs_and_quarantine_despite_undecodable_records(
    fresh_database: str, valkey_url: str
) -> None:
    core, written = MemoryCore(), set[tuple[str, int, int]]()
    read_by_lookout = [topic for topic in TOPICS if topic != undecodable_records.LEASES]
    async with lookout(fresh_database, valkey_url, core) as world:
        for topic in read_by_lookout:
            for each in undecodable_records.make_records(topic):
                at = core.write_foreign(topic, each.partition, each.key, each.value, 1_000)
                written.add((topic, each.partition, at))
        await world.append([undecodable_records.good(topic, "sound") for topic in read_by_lookout])
        stop = undecodable_records.unknown_event("jobPainted")
        at = core.write_foreign(JOBS, PARTITION, stop.key, stop.value, 2_000)
        written.add((JOBS, PARTITION, at))
        await world.append([undecodable_records.good(JOBS, "after")])
        elsewhere = await world.append_events(builders.submitted("a"))
        jobs = await world.read("/jobs", elsewhere)
        listed = {job["id"] for job in jobs["jobs"]}
        assert {builders.job_id("a"), undecodable_records.job_id("sound")} <= listed
        assert undecodable_records.job_id("after") not in listed
        found = await until_read(
            lambda: world.read("/quarantine", limit=1_000),
            lambda found: found["total"] == len(written),
        )
        assert {(r["topic"], r["partition"], r["position"]) for r in found["records"]} == written
        newest = found["records"][0]
        assert (newest["topic"], newest["position"]) == (JOBS, at)
        (reader,) = newest["readers"]
        assert (reader["reader"], reader["outcome"], reader["stopped"]) == (
            "lookout",
            "stopped",
            True,
        )
        assert "jobPainted" in newest["head"]
        detail = await world.read(f"/jobs/{undecodable_records.job_id('sound')}")
        assert detail["why"]["code"] == "log-stopped"
        ready = await world.client.get("/readyz")
        assert ready.status_code == 200
        assert "stopped reading partition" in ready.json()["checks"]["lookout quarantine"]
        for path in ("/clusters", "/queues/sound/report", "/jobsets"):
            await world.read(path)


async def test_a_record_reported_by_several_readers_is_listed_once(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    async with lookout(fresh_database, valkey_url, core) as world:
        core.write_foreign(JOBS, 0, "k", b"garbage", 1_000)
        found = await until_read(
            lambda: world.read("/quarantine"), lambda found: found["total"] == 1
        )
        (value,) = world.service.deps.quarantine.iterate_values()
        other = value.replace(b'"reader":"lookout"', b'"reader":"scheduler"')
        key = f"{JOBS}/0/0/scheduler"
        await world.append([Record(topics.QUARANTINE, key, other)])
        found = await until_read(
            lambda: world.read("/quarantine"),
            lambda found: len(found["records"][0]["readers"]) == 2,
        )
        assert found["total"] == 1
        assert [each["reader"] for each in found["records"][0]["readers"]] == [
            "lookout",
            "scheduler",
        ]
