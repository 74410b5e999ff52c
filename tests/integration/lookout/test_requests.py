"""A request about many jobs is folded in parts; no end of the process shows where they met."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fairlead_common.db import open_pool
from fairlead_common.domain import ids
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events, line_chunks
from fairlead_common.log import topics
from fairlead_common.log.memory_log import MemoryCore, MemoryLog
from fairlead_common.service import clock
from fairlead_lookout.domain.event_chunks import Chunk
from fairlead_lookout.domain.model import Message
from fairlead_lookout.service.fold_loop import FoldLoop
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store.event_streams import StreamWriter
from fairlead_lookout.store.view_progress import ViewProgress
from fairlead_lookout.store.view_schema import SCHEMA, migrate_schema
from tests.unit.lookout.builders import QUEUE, PlainView, leased, submitted

PART = 4
REQUESTS = {
    "cancel": events.JobsCancelRequested(filter=events.JobFilter(queue=QUEUE), reason="enough"),
    "cancel what waits": events.JobsCancelRequested(
        filter=events.JobFilter(queue=QUEUE, states=(JobState.QUEUED,))
    ),
    "preempt": events.JobsPreemptRequested(filter=events.JobFilter(queue=QUEUE)),
    "reprioritise a label": events.JobsReprioritized(
        filter=events.JobFilter(queue=QUEUE, labels={"odd": "1"}), priority=7
    ),
    "cancel a set": events.JobsCancelRequested(
        filter=events.JobFilter(queue=QUEUE, job_set="none")
    ),
}


class Ended(Exception):
    """The process is gone."""


class Mortal(StreamWriter):
    """Ends the process when it is about to commit for the second time."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._batches = 0

    async def publish(self, chunks: Sequence[Chunk]) -> None:
        self._batches += 1
        if self._batches > 1:
            raise Ended
        await super().publish(chunks)


@pytest.mark.parametrize("asked", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_bulk_request_in_parts_has_the_result_of_one_fold(
    fresh_database: str, valkey_url: str, asked: events.AnyEvent
) -> None:
    core, pool = MemoryCore(), await open_pool(fresh_database)
    log = MemoryLog(clock.now_ms, core)
    await log.create(topics.jobs())
    await migrate_schema(pool)
    await _submit(log, asked)
    settings = Settings(
        database_url=fresh_database,
        redis_url=valkey_url,
        fold_events_max=PART,
        fold_interval_s=0.0,
    )
    end = await log.end_positions(topics.JOBS)
    parts_seen = 0
    async with asyncio.timeout(60):
        while True:
            progress, streams = ViewProgress(pool), Mortal(valkey_url)
            folding = asyncio.create_task(FoldLoop(log, streams, progress, settings).run())
            reached = asyncio.create_task(progress.wait_for(end, 60.0))
            await asyncio.wait({folding, reached}, return_when=asyncio.FIRST_COMPLETED)
            for task in (folding, reached):
                task.cancel()
            outcome, _ = await asyncio.gather(folding, reached, return_exceptions=True)
            await streams.close()
            parts_seen += await pool.fetchval(f"SELECT count(within)::int FROM {SCHEMA}.progress")
            if not isinstance(outcome, Ended):
                assert isinstance(outcome, asyncio.CancelledError), outcome
                break
    assert (parts_seen > 0) == (asked is not REQUESTS["cancel a set"])
    plain = PlainView()
    for message in _log(core):
        plain.fold(message)
    await _compare(pool, plain)
    await pool.close()


async def _submit(log: MemoryLog, asked: events.AnyEvent) -> None:
    """Jobs of four sets of one partition, some of them running, and then the request."""
    producer = await log.producer("test")
    partition = ids.job_set_partition(QUEUE, "set-0")
    names = _names_of(partition)
    for name, many in zip(names, (3, 9, 1, 13), strict=True):
        written: list[events.AnyEvent] = [
            submitted(f"j{n}", name, labels={"odd": "1"} if n % 2 else {}) for n in range(many)
        ]
        written += [leased(f"j{n}", job_set=name) for n in range(0, many, 3)]
        await producer.append(events.records(QUEUE, name, "anna", written))
    await producer.append(events.records(QUEUE, "", "anna", [asked], partition=partition))
    await producer.append(events.records(QUEUE, names[0], "anna", [submitted("late", names[0])]))


def _names_of(partition: int) -> list[str]:
    """Four job sets of this partition."""
    found = (
        name
        for name in map("set-{}".format, itertools.count())
        if ids.job_set_partition(QUEUE, name) == partition
    )
    return list(itertools.islice(found, 4))


def _log(core: MemoryCore) -> list[Message]:
    batch = core.read(topics.JOBS, core.start_positions(topics.JOBS))
    return [
        Message(entry.partition, entry.position, entry.time_ms, events.decode(entry.value or b""))
        for entry in batch.entries
    ]


async def _compare(pool: Any, plain: PlainView) -> None:
    rows = await pool.fetch(f"SELECT id, state, stopping, priority FROM {SCHEMA}.jobs")
    assert {tuple(row) for row in rows} == {
        (job.id, job.state, job.stopping, job.priority) for job in plain.cache.jobs.values()
    }
    counts = await pool.fetch(f"SELECT * FROM {SCHEMA}.queue_counts WHERE jobs <> 0")
    assert {tuple(row)[:3]: row["jobs"] for row in counts} == {
        key: jobs for key, jobs in plain.counted.items() if jobs
    }
    retained = await pool.fetch(
        f"SELECT s.job_set, e.lines FROM {SCHEMA}.events e JOIN {SCHEMA}.job_sets s"
        " ON s.number = e.set_number ORDER BY e.last_position, e.last_item"
    )
    written: dict[tuple[str, str], list[object]] = {}
    for row in retained:
        lines = line_chunks.decompress(row["lines"]).split(b"\n")
        written.setdefault((QUEUE, row["job_set"]), []).extend(map(msgspec.json.decode, lines))
    assert written == plain.published
