"""Folds batches and writes them: one is written while the next is loaded and folded.

A batch is folded on top of the result of the one before, which is in memory, and is written in the
background if nothing that it needs is still being written. Otherwise it waits for that, and is
loaded, folded and written in one transaction.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fairlead_common.db import Connection
from fairlead_common.service import clock
from fairlead_lookout.domain.event_chunks import Chunk, pack_chunks
from fairlead_lookout.domain.message_batches import Batch, take_messages
from fairlead_lookout.domain.model import Changes, JobSetKey, StoredRecords
from fairlead_lookout.domain.view_fold import JobFold
from fairlead_lookout.service.background_task import BackgroundTask
from fairlead_lookout.store.event_streams import StreamWriter
from fairlead_lookout.store.fold import fold_rows
from fairlead_lookout.store.fold.bulk_candidates import BulkCandidates
from fairlead_lookout.store.fold.fold_cache import FoldCache
from fairlead_lookout.store.fold.fold_rows import FoldRows
from fairlead_lookout.store.fold.fold_store import FoldStore
from fairlead_lookout.store.fold.record_loader import RecordLoader
from fairlead_lookout.store.fold.time_slice import TimeSlice

BULK_JOBS_MAX: Final = 10_000
"""Jobs of a part of a bulk request, at most."""


class FoldedBatch(NamedTuple):
    """What is written and then reported of a batch. Its messages and changes, which are several
    times as large, are freed before."""

    began_s: float
    after: dict[int, int]
    last_time_ms: int | None
    events: int
    job_sets: frozenset[JobSetKey]
    chunks: list[Chunk]
    rows: FoldRows


class BatchFolder:
    """Folds the batches of one session, in their order.

    `connection` holds the locks and writes; others use it only after `finish_writing`. `reader`
    reads while a batch is written. `chunk_numbers`: for chunks of submissions. `report` is called
    for each batch when it is committed.
    """

    def __init__(
        self,
        connection: Connection,
        reader: Connection,
        background: BackgroundTask,
        *,
        cache: FoldCache,
        time_slice: TimeSlice,
        chunk_numbers: Iterator[int],
        streams: StreamWriter,
        report: Callable[[FoldedBatch], None],
    ) -> None:
        self._connection = connection
        self._background = background
        self._cache = cache
        self._time_slice = time_slice
        self._streams = streams
        self._report = report
        self._loader = RecordLoader(connection, reader, cache, time_slice)
        self._store = FoldStore(connection, cache, time_slice, chunk_numbers)
        self._candidates = BulkCandidates(connection)

    async def finish_writing(self) -> None:
        """Wait for the batch that is being written. Raises its error."""
        await self._background.wait()

    async def keep_reader_open(self) -> None:
        """Keep the connection for reads open while no batch uses it."""
        await self._loader.keep_reader_open()

    async def fold(self, batch: Batch, events_max: int) -> int:
        """Fold a batch, and possibly leave its write to the background; returns its number of
        events. If that write fails, the session ends and the cache is emptied."""
        if not batch.is_bulk_request:
            return await self._fold_one(batch)
        return await self._fold_in_parts(batch, min(events_max, BULK_JOBS_MAX))

    async def _fold_in_parts(self, bulk_request: Batch, jobs_max: int) -> int:
        """Fold a bulk request in parts, one transaction each; the progress is saved with the
        position."""
        await self.finish_writing()
        events = 0
        while True:
            part = await self._candidates.read_part(bulk_request, jobs_max)
            events += await self._fold_one(part)
            if part.progress_after is None:
                return events

    async def _fold_one(self, batch: Batch) -> int:
        """Fold a batch in one transaction."""
        began_s = clock.monotonic_s()
        stored = await self._loader.load_ahead(batch)
        if stored is not None:
            folded, changes = await self._fold_stored(stored, batch, began_s)
            await self._take_over(changes)
            await self._background.start(self._write_ahead(folded))
            self._loader.start_writing(changes)
            return folded.events
        await self.finish_writing()
        try:
            async with self._connection.transaction():
                folded, changes = await self._fold_stored(
                    await self._loader.load(batch), batch, began_s
                )
                await self._publish_and_write(folded)
        except BaseException:
            self._store.forget_written()
            raise
        await self._take_over(changes)
        self._report(folded)
        return folded.events

    async def _fold_stored(
        self, stored: StoredRecords, batch: Batch, began_s: float
    ) -> tuple[FoldedBatch, Changes]:
        """Fold a batch without writing anything. Its messages are freed as they are folded."""
        times_ms = {message.partition: message.time_ms for message in batch.messages}
        last_time_ms = batch.messages[-1].time_ms if batch.messages else None
        changes = await self._apply_messages(stored, batch)
        chunks: list[Chunk] = []
        for chunk in pack_chunks(stored.job_sets, changes.lines):
            chunks.append(chunk)
            await self._time_slice.yield_if_over()
        moves = fold_rows.encode_moves(batch, times_ms, changes.published)
        rows = await self._store.encode_rows(stored, changes, chunks, moves)
        folded = FoldedBatch(
            began_s=began_s,
            after=batch.after,
            last_time_ms=last_time_ms,
            events=changes.events,
            job_sets=frozenset(changes.job_sets),
            chunks=chunks,
            rows=rows,
        )
        return folded, changes

    async def _apply_messages(self, stored: StoredRecords, batch: Batch) -> Changes:
        fold = JobFold(stored)
        for _ in fold.apply(take_messages(batch.messages)):
            await self._time_slice.yield_if_over()
        return fold.changes()

    async def _take_over(self, changes: Changes) -> None:
        for _ in self._cache.apply(changes):
            await self._time_slice.yield_if_over()

    async def _write_ahead(self, folded: FoldedBatch) -> None:
        """Write a batch whose changes are in memory already."""
        try:
            async with self._connection.transaction():
                await self._publish_and_write(folded)
        except BaseException:
            self._store.forget_written()
            raise
        self._loader.end_writing()
        self._report(folded)

    async def _publish_and_write(self, folded: FoldedBatch) -> None:
        await self._streams.publish(folded.chunks)
        await self._store.write(folded.rows)
