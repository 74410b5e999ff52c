"""What the tests of the scheduler need of the world: a log, and somebody who writes to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import asyncpg
import msgspec

from fairlead_common.domain.ids import JobId, client_job_id, job_set_partition
from fairlead_common.domain.records import clusters, configuration, leases, scheduling_reports
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat, LeaderHeartbeat, Node
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import Entry, EventLog, Producer, Record, topics
from fairlead_common.log.compacted_view import CompactedView
from fairlead_common.log.opening import open_log
from fairlead_scheduler.service.leader import APPLICATION

QUEUE, JOB_SET = "research", "trials"
EXECUTOR = "e0"
E = TypeVar("E")
PATIENCE_S = 120.0


def job_id(name: str, queue: str = QUEUE, job_set: str = JOB_SET) -> JobId:
    """The id of the job with this client id."""
    return client_job_id(job_set_partition(queue, job_set), queue, job_set, name)


def submitted(
    name: str, *, cpu: int = 1000, after: tuple[str, ...] = (), **fields: object
) -> ev.JobSubmitted:
    """A job of one core, or of as many thousandths as said; `fields` are those of the event."""
    plain = ev.JobSubmitted(
        job_id=job_id(name),
        client_id=name,
        shape=shapes.encode(shapes.Shape(requests={"cpu": cpu})),
        spec=msgspec.Raw(b'{"containers":[{"name":"main","command":["true"]}]}'),
        digest="d",
        after=tuple(job_id(other) for other in after),
    )
    return msgspec.structs.replace(plain, **fields)


async def stands_by(database: str) -> None:
    """Wait until a second scheduler waits for the leader's lock."""
    connection = await asyncpg.connect(database)
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1"
    async with asyncio.timeout(PATIENCE_S):
        while await connection.fetchval(count, f"{APPLICATION}-lock") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await connection.close()


class World:
    """Writes as submit and as an executor; reads what the scheduler wrote."""

    def __init__(self, log: EventLog, producer: Producer) -> None:
        self.log = log
        self._producer = producer

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator["World"]:
        """The topics are made, and an executor with nodes of four cores is there."""
        log = await open_log(url)
        try:
            for topic in (topics.jobs(), topics.clusters(), topics.config(), topics.reports()):
                await log.create(topic)
            await log.create(topics.leases(EXECUTOR))
            yield cls(log, await log.producer("world"))
        finally:
            await log.close()

    async def tell(self, *events: ev.AnyEvent, by: str = "somebody") -> None:
        """Append events of the one job set."""
        await self._producer.append(ev.records(QUEUE, JOB_SET, by, events))

    async def configure(self, *items: Queue | Cordon) -> None:
        """What submit tells of queues and cordons."""
        await self._producer.append([configuration.record(item) for item in items])

    async def report_nodes(self, count: int = 1, cores: int = 4, pool: str = "default") -> None:
        """The executor reports itself and its nodes, named by their pool if it is another one."""
        prefix = "n" if pool == "default" else f"{pool}-n"
        records: list[Record] = [clusters.heartbeat_record(Heartbeat(executor=EXECUTOR))]
        for number in range(count):
            node = Node(
                executor=EXECUTOR,
                name=f"{prefix}{number}",
                allocatable={"cpu": 1000 * cores},
                pool=pool,
            )
            records.append(clusters.node_record(node))
        await self._producer.append(records)

    async def events(self, enough: Callable[[list[ev.AnyEvent]], bool]) -> list[ev.AnyEvent]:
        """All events of the log so far, as soon as they are enough."""
        reader = await self.log.reader(topics.JOBS, await self.log.start_positions(topics.JOBS))
        seen: list[ev.AnyEvent] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not enough(seen):
                    for entry in (await reader.read()).entries:
                        assert entry.value is not None
                        seen += ev.decode(entry.value).events
        finally:
            await reader.close()
        return seen

    async def report(
        self, key: str, enough: Callable[[scheduling_reports.Report], bool]
    ) -> scheduling_reports.Report:
        """What the scheduler says under this key, as soon as it is enough."""
        start = await self.log.start_positions(topics.REPORTS)
        reader = await self.log.reader(topics.REPORTS, start)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    for entry in (await reader.read()).entries:
                        if entry.key == key and entry.value is not None:
                            found = scheduling_reports.decode(entry.value)
                            if enough(found):
                                return found
        finally:
            await reader.close()

    async def first(self, kind: type[E], name: str) -> E:
        """The first event of this kind about this job, once it is there."""

        def found(seen: list[ev.AnyEvent]) -> list[E]:
            return [
                event
                for event in seen
                if isinstance(event, kind) and getattr(event, "job_id", None) == job_id(name)
            ]

        return found(await self.events(lambda seen: bool(found(seen))))[0]

    async def next_leaders(self, count: int) -> list[str]:
        """The instances that append the next heartbeats of leaders."""
        end = await self.log.end_positions(topics.CLUSTERS)
        reader = await self.log.reader(topics.CLUSTERS, end)
        instances: list[str] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(instances) < count:
                    for entry in (await reader.read()).entries:
                        if entry.value is None:
                            continue
                        record = clusters.decode(entry.value)
                        if isinstance(record, LeaderHeartbeat):
                            instances.append(record.instance)
        finally:
            await reader.close()
        return instances

    async def live_leases(
        self, enough: Callable[[dict[str, leases.Lease]], bool]
    ) -> dict[str, leases.Lease]:
        """Live leases by run, as soon as they are enough."""
        name = topics.leases(EXECUTOR).name
        reader = await self.log.reader(name, await self.log.start_positions(name))
        live = CompactedView(_decode_lease)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not enough(live.values):
                    live.fold((await reader.read()).entries)
        finally:
            await reader.close()
        return live.values


def _decode_lease(entry: Entry) -> leases.Lease:
    assert entry.value is not None
    return leases.decode(entry.value)
