"""Folds the log into the state: jobs, clusters and configuration, in leaders and standbys."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from fairlead_common.db import Pool
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records.decoders import Undecodable
from fairlead_common.log import EventLog, Reader, caught_up
from fairlead_common.log.compacted_view import CompactedReader
from fairlead_common.log.protocol import Batch, Positions
from fairlead_common.log.topics import CLUSTERS, CONFIG, JOBS
from fairlead_common.log.validating_log import ValidatingReader, stopped_partitions
from fairlead_common.service import clock
from fairlead_scheduler.rules.pool_failures import PoolFailures
from fairlead_scheduler.service import metrics
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.specs import CACHED_MAX
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View
from fairlead_scheduler.store import checkpoint

RECENT_JOBS_MAX = 200_000
CHECKPOINT = "checkpoint"
"""The name in `State.positions` of the saved positions of `fairlead.jobs`."""


class State:
    """Everything that a cycle reads, the locks that protect it, and the signal that it changed."""

    def __init__(self, view: View, clusters: Clusters, queues: Queues) -> None:
        self.view = view
        self.clusters = clusters
        self.queues = queues
        self.pool_failures = PoolFailures()
        self.positions: dict[str, dict[int, int]] = {}
        self.changed = asyncio.Event()
        self.settled = asyncio.Event()
        """Set once this process stands by, or has led for one cycle."""
        self.fold_lock = asyncio.Lock()
        """Held while the state changes and while a cycle decides, partly in a thread: rows do not
        change under a round."""
        self.lookup_lock = asyncio.Lock()
        """Held from the look-up of ids until their events are folded, and while a cycle waits for
        the configuration; taken before `fold_lock`."""
        self._moved = asyncio.Condition()

    async def advance(self, topic: str, positions: Positions) -> None:
        """Set the positions of a topic and wake the tasks that wait for them."""
        self.positions.setdefault(topic, {}).update(positions)
        async with self._moved:
            self._moved.notify_all()

    async def wait_until_folded(self, topic: str, positions: Positions) -> None:
        """Wait until everything before these positions of a topic is folded.

        A stopped partition of `fairlead.jobs` is not waited for: nothing of it is folded until
        another version reads it.
        """

        def is_reached() -> bool:
            stopped = self.view.stopped if topic == JOBS else frozenset()
            wanted = {each: at for each, at in positions.items() if each not in stopped}
            return caught_up(self.positions.get(topic, {}), wanted)

        async with self._moved:
            await self._moved.wait_for(is_reached)


async def follow_jobs(log: EventLog, pool: Pool, state: State) -> None:
    """Fold `fairlead.jobs` until cancelled."""
    reader = await log.reader(JOBS, dict(state.view.positions))
    await state.advance(JOBS, state.view.positions)

    async def fold(batch: Batch) -> Batch:
        view = state.view
        try:
            messages = job_fold.decode_batch(batch.entries)
        except Undecodable:
            if not isinstance(reader, ValidatingReader):
                raise
            batch = reader.screen(batch)
            messages = job_fold.decode_batch(batch.entries)
        async with state.lookup_lock:
            wanted = job_fold.find_ids_to_look_up(view, messages)
            ended_jobs = await checkpoint.find_ended(pool, wanted) if wanted else {}
            async with state.fold_lock:
                labelled = job_fold.find_specs_to_load(view, messages)
                await load_specs(pool, view, labelled)
                if view.specs.find_missing(labelled):
                    raise ViewConflict(
                        "the leader's checkpoint omits jobs that ended after this view's position;"
                        " the process must restart from that checkpoint"
                    )
                job_fold.fold_messages(view, messages, ended_jobs)
                job_fold.advance_positions(view, batch.positions)
                _count_impossible_events(view)
                view.stop_partitions(stopped_partitions(reader))
        metrics.EVENTS.inc(len(batch.entries))
        oldest_ms = min((entry.time_ms for entry in batch.entries), default=None)
        metrics.LAG.set(0.0 if oldest_ms is None else (clock.now_ms() - oldest_ms) / 1000)
        metrics.JOBS.set(len(view.jobs.rows))
        return batch

    await _follow(reader, state, fold)


def _count_impossible_events(view: View) -> None:
    for (job_state, tag), count in view.impossible.items():
        metrics.IMPOSSIBLE.labels(job_state.value, tag).inc(count)
    view.impossible.clear()


async def follow_clusters(log: EventLog, state: State) -> None:
    """Fold `fairlead.clusters` from its beginning (it is compacted) until cancelled."""
    reader = await CompactedReader.open(log, CLUSTERS)

    async def fold(batch: Batch) -> Batch:
        async with state.fold_lock:
            before = state.clusters.version
            state.clusters.fold(batch.entries)
            if state.clusters.version != before:
                state.view.version += 1
        return batch

    await _follow(reader, state, fold)


async def follow_config(log: EventLog, state: State) -> None:
    """Fold `fairlead.config` from its beginning (it is compacted) until cancelled."""
    reader = await CompactedReader.open(log, CONFIG)

    async def fold(batch: Batch) -> Batch:
        async with state.fold_lock:
            state.queues.fold(batch.entries, state.clusters)
            state.view.version += bool(batch.entries)
        return batch

    await _follow(reader, state, fold)


async def _follow(reader: Reader, state: State, fold: Callable[[Batch], Awaitable[Batch]]) -> None:
    """Read and fold until cancelled; `fold` returns what it has folded of a batch."""
    while True:
        batch = await reader.read(wait_s=1.0)
        version = state.view.version
        batch = await fold(batch)
        await state.advance(reader.topic, batch.positions)
        if state.view.version != version:
            state.changed.set()


async def load_specs(pool: Pool, view: View, ids: Iterable[JobId]) -> None:
    """Load the specs of these jobs into `view.specs`, where they stay while `fold_lock` is held."""
    missing = view.specs.find_missing(ids)
    if missing:
        view.specs.add_saved(await checkpoint.read_specs(pool, missing))


async def trim_caches_safely(state: State) -> None:
    """`trim_caches`, but never between the look-up and the fold of a batch."""
    async with state.lookup_lock, state.fold_lock:
        trim_caches(state.view)


def trim_caches(view: View) -> None:
    """Trim caches to their bounds."""
    view.trim_recent(RECENT_JOBS_MAX)
    view.specs.trim_saved(CACHED_MAX)
