"""Following the log: read, fold, write, again and again, for the partitions this process holds.

One connection holds the partitions' locks and writes the view, one transaction a batch: what was
known is read, `fold.apply` decides, the events go to their streams, the changes and the positions
are written; where nothing has to be read, while the next batch is folded already. An outage is
waited out within a bound; a position moved by somebody else (`ViewConflict`) ends the process.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import asyncpg

from fairlead_common.db import Connection, lock_session
from fairlead_common.db.connection_pool import AWAY, STATEMENT_S_MAX
from fairlead_common.domain.records import decoders
from fairlead_common.domain.records.decoders import Undecodable
from fairlead_common.log import Entry, EventLog, Reader
from fairlead_common.log.coverage import Gap, ViewUnusable
from fairlead_common.log.topics import JOBS
from fairlead_common.log.validating_log import ValidatingReader, stopped_partitions
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk
from fairlead_lookout.domain import event_chunks, job_fold
from fairlead_lookout.domain.batches import Batch, cut
from fairlead_lookout.domain.event_chunks import Chunk
from fairlead_lookout.domain.model import Changes, Known, Message
from fairlead_lookout.service import metrics
from fairlead_lookout.service.background_task import Behind
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store import view_coverage
from fairlead_lookout.store.event_streams import Streams
from fairlead_lookout.store.fold.bulk_candidates import Requests
from fairlead_lookout.store.fold.fold_cache import Cache
from fairlead_lookout.store.fold.fold_store import SQL, Rows, Store
from fairlead_lookout.store.fold.job_pruning import Pruner
from fairlead_lookout.store.fold.partition_locks import BALANCE_S, Partitions
from fairlead_lookout.store.fold.time_slice import Turns
from fairlead_lookout.store.outages import Outages
from fairlead_lookout.store.view_progress import Progress

READ_BYTES_MAX: Final = 4 * 1024 * 1024
READ_RECORDS_MAX: Final = 5_000
READ_WAIT_S: Final = 1.0
CLOSE_S_MAX: Final = 2.0
REPAIR_CHECK_S: Final = 1.0
"""How often a fold whose view cannot be used looks whether it was repaired."""
_logger: Final = logging.getLogger("fairlead.lookout")
FEW_EVENTS: Final = 100
"""A batch with fewer is followed by the next at once: nobody should wait for a lone job."""


class _Made(NamedTuple):
    """What a batch makes of the view, and what there is to be written of it."""

    batch: Batch
    changes: Changes
    packed: list[Chunk]
    rows: Rows


class Folder:
    """The fold of one process."""

    def __init__(
        self, log: EventLog, streams: Streams, progress: Progress, settings: Settings
    ) -> None:
        self._log = log
        self._streams = streams
        self._progress = progress
        self._settings = settings
        self._cache = Cache(settings.jobs_known_max)
        self._turns = Turns()
        self._disk = Disk(settings.disk)
        self._outages = Outages("the fold", settings.away_s)
        self.stopped: Mapping[int, int] = {}
        """Partition -> position at which this fold has stopped."""
        self.unusable: ViewUnusable | None = None
        """Why the fold waits for a repair, if it does. What the view holds is still shown."""
        self.unrepaired: Gap | None = None
        """What the view lacks and no repair has settled, although the fold goes on."""

    @property
    def trouble(self) -> str | None:
        """What the fold waits for, if it does."""
        return self._outages.trouble

    @property
    def full(self) -> str | None:
        """Why the view stands still, if a disk is full."""
        return self._outages.full

    async def run(self) -> None:
        """Fold for ever. Raises what lasts: an outage beyond the bound, `ViewConflict`.

        A view that its log cannot continue is not touched: the fold waits until it is repaired.
        """
        while True:
            try:
                await self._outages.outlast(self._session)
            except ViewUnusable as error:
                if self.unusable is None:
                    _logger.error("waits for a repair: %s", error)
                self.unusable = error
                metrics.VIEW_UNUSABLE.set(1)
            await asyncio.sleep(REPAIR_CHECK_S)

    async def _session(self) -> None:
        """Fold until the connection or the log fails."""
        connection = await lock_session.connect(
            self._settings.database_url,
            name="fairlead-lookout-fold",
            command_s_max=STATEMENT_S_MAX,
            settings={
                # Everything is by key. Plans are kept, and statistics of a table that was nearly
                # empty, or of a temporary one, would make them scan.
                "enable_seqscan": "off",
                "enable_hashjoin": "off",
                "enable_mergejoin": "off",
                # A batch lost with the server is folded again from the log.
                "synchronous_commit": "off",
            },
        )
        reader: Reader | None = None
        try:
            await self._prepare(connection)
            store = Store(connection, self._cache, self._turns)
            partitions = Partitions(connection, _number)
            pruner = Pruner(connection, self._cache, self._settings.jobs_days)
            self._cache.clear()
            balanced_s = 0.0
            while True:
                if clock.monotonic_s() - balanced_s >= BALANCE_S:
                    balanced_s = clock.monotonic_s()
                    if await partitions.balance():
                        if reader is not None:
                            await reader.close()
                        reader, positions = await self._open_reader(connection, partitions)
                await self._outages.until_space(self._disk)
                self._outages.well()
                if reader is None or not partitions.held:
                    await asyncio.sleep(BALANCE_S / 4)
                    continue
                positions = await self._turn(connection, store, reader, positions)
                await pruner.turn(partitions.held)
        finally:
            self._progress.owns(frozenset())
            if reader is not None:
                await reader.close()
            await _close(connection)

    async def _prepare(self, connection: Connection) -> None:
        identity = await self._log.identity()
        self.unrepaired = await view_coverage.begin(connection, self._log)
        if self.unusable is not None:
            _logger.info("the view was repaired: going on")
        self.unusable = None
        metrics.VIEW_UNUSABLE.set(0)
        await connection.execute(SQL["make_kept_tables"])
        await self._streams.belong_to(identity)

    async def _open_reader(
        self, connection: Connection, partitions: Partitions
    ) -> tuple[Reader | None, dict[int, int]]:
        """A reader of what is held now; what is in memory may belong to others by now."""
        self._cache.clear()
        held = partitions.held
        metrics.PARTITIONS.set(len(held))
        self._progress.owns(held)
        if not held:
            return None, {}
        rows = await connection.fetch(SQL["positions_of"], sorted(held))
        positions = {row["partition"]: row["position"] for row in rows}
        self._progress.begin(positions)
        reader = await self._log.reader(JOBS, positions)
        self.stopped = stopped_partitions(reader)
        return reader, positions

    async def _turn(
        self,
        connection: Connection,
        store: Store,
        reader: Reader,
        positions: dict[int, int],
    ) -> dict[int, int]:
        """Read once and fold that; returns the positions reached."""
        read = await reader.read(
            records_max=READ_RECORDS_MAX, bytes_max=READ_BYTES_MAX, wait_s=READ_WAIT_S
        )
        if read.positions == positions:
            return positions
        began_s = clock.monotonic_s()
        try:
            messages = await self._decode(read.entries)
        except Undecodable:
            if not isinstance(reader, ValidatingReader):
                raise
            read = reader.screen(read)
            messages = await self._decode(read.entries)
        folded = 0
        async with Behind() as behind:
            for batch in cut(messages, positions, read.positions, self._settings.fold_events_max):
                if batch.is_request:
                    await behind.done()
                    folded += await self._fold_request(connection, store, batch)
                else:
                    folded += await self._fold(connection, store, batch, behind)
        if folded > FEW_EVENTS:
            rest_s = self._settings.fold_interval_s - (clock.monotonic_s() - began_s)
            await asyncio.sleep(max(rest_s, 0.0))
        return read.positions

    async def _decode(self, entries: Iterable[Entry]) -> list[Message]:
        """Raises `Undecodable`."""
        messages: list[Message] = []
        for entry in entries:
            sequence = decoders.decode_jobs(entry)
            messages.append(Message(entry.partition, entry.position, entry.time_ms, sequence))
            await self._turns.give_way()
        return messages

    async def _fold_request(self, connection: Connection, store: Store, whole: Batch) -> int:
        """One request about many jobs, in a transaction for each so many of them; where the view
        is within it is kept with the position."""
        requests = Requests(connection)
        folded = 0
        while True:
            part = await requests.part(whole, self._settings.fold_events_max)
            async with Behind() as behind:
                folded += await self._fold(connection, store, part, behind)
            if part.left is None:
                return folded

    async def _fold(
        self, connection: Connection, store: Store, batch: Batch, behind: Behind
    ) -> int:
        """One batch in one transaction; returns its number of events.

        If all that it needs is in memory, it is written behind: while the next one is folded, on
        top of what this one made. If that cannot be committed the session ends, and with it what
        is in memory.
        """
        began_s = clock.monotonic_s()
        known = await store.remembered(batch)
        if known is not None:
            made = await self._make(store, known, batch)
            self._cache.settle(made.changes)
            await behind.begin(self._write(connection, store, made, began_s))
            return made.changes.events
        await behind.done()
        try:
            async with connection.transaction():
                made = await self._make(store, await store.load(batch), batch)
                await self._put(store, made)
        except BaseException:
            store.forget_written()
            raise
        self._cache.settle(made.changes)
        self._written(made, began_s)
        return made.changes.events

    async def _make(self, store: Store, known: Known, batch: Batch) -> _Made:
        """Fold a batch: nothing is written yet."""
        changes = await self._apply(known, batch)
        packed: list[Chunk] = []
        for chunk in event_chunks.pack(known.sets, changes.lines):
            packed.append(chunk)
            await self._turns.give_way()
        return _Made(batch, changes, packed, await store.rows(known, changes, packed, batch))

    async def _write(
        self, connection: Connection, store: Store, made: _Made, began_s: float
    ) -> None:
        try:
            async with connection.transaction():
                await self._put(store, made)
        except BaseException:
            store.forget_written()
            raise
        self._written(made, began_s)

    async def _put(self, store: Store, made: _Made) -> None:
        await self._streams.publish(made.packed)
        await store.write(made.rows)

    def _written(self, made: _Made, began_s: float) -> None:
        """It is committed: say so to whoever waits for it."""
        self._progress.advance(made.batch.after)
        metrics.BATCH_S.observe(clock.monotonic_s() - began_s)
        metrics.EVENTS.inc(made.changes.events)
        if made.batch.messages:
            metrics.LAG_S.set((clock.now_ms() - made.batch.messages[-1].time_ms) / 1000)
        self._outages.well()

    async def _apply(self, known: Known, batch: Batch) -> Changes:
        work = job_fold.Fold(known)
        for _ in work.steps(batch.messages):
            await self._turns.give_way()
        return work.changes()


def _number() -> int:
    """A number for a lock: any that Postgres takes."""
    return secrets.randbelow(2**31)


async def _close(connection: Connection) -> None:
    """Give the connection up, with its locks, whatever state it is in."""
    try:
        async with asyncio.timeout(CLOSE_S_MAX):
            await connection.close()
    except (*AWAY, asyncpg.PostgresError):
        connection.terminate()
