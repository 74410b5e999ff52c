"""The loop that reads the log and folds it, for the partitions that this process holds.

One connection holds the locks of the partitions and writes the view, one transaction per batch.
`batch_folder.py` folds a batch; this module connects, shares the partitions with other processes,
reads messages, and decides when to read again. The loop waits during an outage for a limited time.
A position that another process has moved (`ViewConflict`) ends this process.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import asyncpg

from fairlead_common.db import Connection, lock_session
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, STATEMENT_S_MAX
from fairlead_common.domain.records import decoders
from fairlead_common.domain.records.decoders import Undecodable
from fairlead_common.log import RECORD_BYTES_MAX, Entry, EventLog, Reader
from fairlead_common.log.coverage import Gap, ViewUnusable
from fairlead_common.log.topics import JOBS
from fairlead_common.log.validating_log import ValidatingReader, stopped_partitions
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk
from fairlead_lookout.domain.message_batches import cut_batches
from fairlead_lookout.domain.model import Message
from fairlead_lookout.service import metrics
from fairlead_lookout.service.background_task import BackgroundTask
from fairlead_lookout.service.batch_folder import BatchFolder, FoldedBatch
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store import view_coverage
from fairlead_lookout.store.event_streams import StreamWriter
from fairlead_lookout.store.fold import fold_store
from fairlead_lookout.store.fold.fold_cache import FoldCache
from fairlead_lookout.store.fold.partition_locks import BALANCE_S, PartitionLocks
from fairlead_lookout.store.fold.time_slice import TimeSlice
from fairlead_lookout.store.fold.week_expiry import WeekExpiry
from fairlead_lookout.store.outages import Outages
from fairlead_lookout.store.view_progress import ViewProgress

READ_BYTES_MAX: Final = 8 * 1024 * 1024
"""Decoded, the records of new jobs take more than twice as much memory."""
READ_RECORDS_MAX: Final = 20_000
READ_WAIT_S: Final = 1.0
READS_SILENCE_S: Final = 3_600.0
"""The connection for reads holds no locks, and is not used while a bulk request is folded."""
CLOSE_S_MAX: Final = 2.0
REPAIR_CHECK_S: Final = 1.0
"""How often a fold whose view is unusable checks whether it was repaired."""
_logger: Final = logging.getLogger("fairlead.lookout")
FEW_EVENTS: Final = 100
"""After a batch with fewer events there is no pause, so that a single job is visible at once."""
PAUSE_PER_WORK: Final = 2.0
PAUSE_S_MAX: Final = 0.8
"""The pause after a batch is twice as long as the work for it, but not longer than this."""


class _Read(NamedTuple):
    """The messages of one read, and the positions after it. `is_full`: there are probably more."""

    time_s: float
    messages: deque[Message]
    positions: dict[int, int]
    is_full: bool


class FoldLoop:
    """The fold of one process."""

    def __init__(
        self, log: EventLog, streams: StreamWriter, progress: ViewProgress, settings: Settings
    ) -> None:
        self._log = log
        self._streams = streams
        self._progress = progress
        self._settings = settings
        self._cache = FoldCache(settings.jobs_known_max)
        self._time_slice = TimeSlice()
        self._disk = Disk(settings.disk)
        self._outages = Outages("the fold", settings.away_s)
        self.stopped: Mapping[int, int] = {}
        """Partition -> position at which this fold has stopped."""
        self.unusable: ViewUnusable | None = None
        """Why the fold waits for a repair, if it does. The view is still readable."""
        self.unrepaired: Gap | None = None
        """What the view lacks until a repair, although the fold continues."""

    @property
    def problem(self) -> str | None:
        """What the fold waits for, if it does."""
        return self._outages.problem

    @property
    def disk_full(self) -> str | None:
        """Why the view does not move, if a disk is full."""
        return self._outages.disk_full

    async def run(self) -> None:
        """Fold for ever. Raises `ViewConflict`, and an outage that lasts longer than `away_s`.

        A view that its log cannot continue is not changed: the fold waits until it is repaired.
        """
        while True:
            try:
                await self._outages.run_sessions(self._session)
            except ViewUnusable as error:
                if self.unusable is None:
                    _logger.error("waits for a repair: %s", error)
                self.unusable = error
                metrics.VIEW_UNUSABLE.set(1)
            await asyncio.sleep(REPAIR_CHECK_S)

    async def _session(self) -> None:
        """Fold until the connection or the log fails."""
        async with contextlib.AsyncExitStack() as stack:
            connection = await self._connect(stack, "fairlead-lookout-fold", lock_session.SILENCE_S)
            reader = await self._connect(stack, "fairlead-lookout-fold-reads", READS_SILENCE_S)
            await self._prepare(connection)
            folder = BatchFolder(
                connection,
                reader,
                await stack.enter_async_context(BackgroundTask()),
                cache=self._cache,
                time_slice=self._time_slice,
                chunk_numbers=await fold_store.draw_chunk_numbers(connection),
                streams=self._streams,
                report=self._report_committed,
            )
            await self._fold_partitions(connection, folder)

    async def _connect(
        self, stack: contextlib.AsyncExitStack, name: str, silence_s: float
    ) -> Connection:
        """A connection that the stack closes, and the server after a silence."""
        connection = await lock_session.connect(
            self._settings.database_url,
            name=name,
            silence_s=silence_s,
            command_s_max=STATEMENT_S_MAX,
            settings={
                # All access is by key. Plans are cached, and statistics of a table that was nearly
                # empty, or of a temporary one, would make them scan.
                "enable_seqscan": "off",
                "enable_hashjoin": "off",
                "enable_mergejoin": "off",
                # A batch lost with the server is folded again from the log.
                "synchronous_commit": "off",
            },
        )
        stack.push_async_callback(_close, connection)
        return connection

    async def _fold_partitions(self, connection: Connection, folder: BatchFolder) -> None:
        """Fold the partitions that this process gets, until the connection or the log fails."""
        reader: Reader | None = None
        try:
            partitions = PartitionLocks(connection, _draw_number)
            expiry = WeekExpiry(connection, self._cache, self._settings.jobs_days)
            self._cache.clear()
            balanced_s = 0.0
            while True:
                if clock.monotonic_s() - balanced_s >= BALANCE_S:
                    balanced_s = clock.monotonic_s()
                    await folder.finish_writing()
                    await folder.keep_reader_open()
                    if await partitions.balance():
                        if reader is not None:
                            await reader.close()
                        reader, positions = await self._open_reader(connection, partitions)
                        await expiry.load(partitions.held)
                await self._outages.wait_for_space(self._disk)
                self._outages.report_progress()
                if reader is None or not partitions.held:
                    await asyncio.sleep(BALANCE_S / 4)
                    continue
                positions = await self._fold_next(folder, reader, positions)
                if expiry.is_due():
                    await folder.finish_writing()
                    await expiry.expire_some(partitions.held)
        finally:
            self._progress.set_own_partitions(frozenset())
            if reader is not None:
                await reader.close()

    async def _prepare(self, connection: Connection) -> None:
        identity = await self._log.identity()
        self.unrepaired = await view_coverage.prepare_view(connection, self._log)
        if self.unusable is not None:
            _logger.info("the view was repaired: the fold continues")
        self.unusable = None
        metrics.VIEW_UNUSABLE.set(0)
        await fold_store.create_temporary_tables(connection)
        await self._streams.drop_streams_of_other_logs(identity)

    async def _open_reader(
        self, connection: Connection, partitions: PartitionLocks
    ) -> tuple[Reader | None, dict[int, int]]:
        """A reader of the partitions that are held now. Empties the cache, because another process
        can have written since."""
        self._cache.clear()
        held = partitions.held
        metrics.PARTITIONS.set(len(held))
        self._progress.set_own_partitions(held)
        if not held:
            return None, {}
        positions = await view_coverage.read_positions(connection, held)
        self._progress.reset(positions)
        reader = await self._log.reader(JOBS, positions)
        self.stopped = stopped_partitions(reader)
        return reader, positions

    async def _fold_next(
        self, folder: BatchFolder, reader: Reader, positions: dict[int, int]
    ) -> dict[int, int]:
        """Read once and fold the messages; returns the new positions."""
        read = await self._read_messages(reader)
        if read.positions == positions:
            return positions
        events_max = self._settings.fold_events_max
        events = 0
        for batch in cut_batches(read.messages, positions, read.positions, events_max):
            events += await folder.fold(batch, events_max)
        if not read.is_full:
            worked_s = clock.monotonic_s() - read.time_s
            await asyncio.sleep(choose_pause_s(events, worked_s, self._settings))
        return read.positions

    async def _read_messages(self, reader: Reader) -> _Read:
        """Read once. The records are freed when they are decoded."""
        read = await reader.read(
            records_max=READ_RECORDS_MAX, bytes_max=READ_BYTES_MAX, wait_s=READ_WAIT_S
        )
        time_s = clock.monotonic_s()
        try:
            messages = await self._decode(read.entries)
        except Undecodable:
            if not isinstance(reader, ValidatingReader):
                raise
            read = reader.screen(read)
            messages = await self._decode(read.entries)
        return _Read(time_s, messages, read.positions, is_full_read(read.entries))

    async def _decode(self, entries: Iterable[Entry]) -> deque[Message]:
        """Raises `Undecodable`."""
        messages: deque[Message] = deque()
        for entry in entries:
            sequence = decoders.decode_jobs(entry)
            messages.append(Message(entry.partition, entry.position, entry.time_ms, sequence))
            await self._time_slice.yield_if_over()
        return messages

    def _report_committed(self, folded: FoldedBatch) -> None:
        """Report the positions and metrics of a batch that is committed."""
        self._progress.advance(folded.after, folded.job_sets)
        metrics.BATCH_S.observe(clock.monotonic_s() - folded.began_s)
        metrics.EVENTS.inc(folded.events)
        if folded.last_time_ms is not None:
            metrics.LAG_S.set((clock.now_ms() - folded.last_time_ms) / 1000)
        self._outages.report_progress()


def is_full_read(entries: Sequence[Entry]) -> bool:
    """Whether a read ended because of its limits."""
    size = sum([len(entry.value or b"") + len(entry.key) for entry in entries])
    return len(entries) >= READ_RECORDS_MAX or size > READ_BYTES_MAX - RECORD_BYTES_MAX


def choose_pause_s(events: int, worked_s: float, settings: Settings) -> float:
    """How long to wait for more events, after these, which took `worked_s` to fold.

    The longer a batch collects, the more changes of one job become one version of its row. So the
    pause is in proportion to the work: batches are large while the machine has much to do, and what
    ends a burst, or begins it, is visible at once. A full batch is a backlog, which is folded
    without a pause, as is a full read.
    """
    if not FEW_EVENTS < events < settings.fold_events_max:
        return 0.0
    return max(settings.fold_interval_s - worked_s, min(PAUSE_PER_WORK * worked_s, PAUSE_S_MAX))


def _draw_number() -> int:
    """A random number for an advisory lock."""
    return secrets.randbelow(2**31)


async def _close(connection: Connection) -> None:
    """Close the connection in any state; its locks are released."""
    try:
        async with asyncio.timeout(CLOSE_S_MAX):
            await connection.close()
    except (*CONNECTION_ERRORS, asyncpg.PostgresError):
        connection.terminate()
