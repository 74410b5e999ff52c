"""The event log in tables of Postgres: the embedded default.

An append is one statement. It locks the counter of each partition that it touches until it
commits, so positions are dense and a reader sees them in the order in which they became visible.
Each producer has a connection of its own, and so has each reader of a topic that is not compacted.
Look-ups and the readers of compacted topics, which read little, share a connection, because one
costs the server 4 MB. `Notifier` has one more.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common.db.connection_pool import (
    CONNECTION_ERRORS,
    DISK_FULL,
    Connection,
    DatabaseUnavailable,
    open_pool,
)
from fairlead_common.db.lock_session import session_timeouts
from fairlead_common.db.migrations import migrate
from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogFull,
    LogUnavailable,
    PositionExpired,
    ProducerFenced,
    TopicMismatch,
)
from fairlead_common.log.append_limits import check_append, check_topic
from fairlead_common.log.postgres.cleanup import SESSION, maintain
from fairlead_common.log.postgres.connection import AnswerLost, Link, is_refusal
from fairlead_common.log.postgres.notifications import Notifier
from fairlead_common.log.postgres.record_batches import StoredBatch, limit, pack, unpack
from fairlead_common.log.postgres.statements import MIGRATIONS, PACKAGE, SCHEMA, SQL
from fairlead_common.log.protocol import (
    READ_BYTES_MAX,
    Appended,
    Batch,
    Entry,
    Positions,
    Record,
    Topic,
    partition_of,
    rotate_positions,
)

TIMEOUT_S: Final = 10.0
"""How long a call tries to reach an unavailable database."""
STATEMENT_S_MAX: Final = 15.0
"""The server cancels an append that takes longer; nothing of it is written."""
ANSWER_S_MAX: Final = 20.0
"""How long to wait for the answer to an append: longer than `STATEMENT_S_MAX`."""
POLL_S: Final = 0.5
"""How often a reader polls without a notification."""
READ_BATCHES_MAX: Final = 1_000
"""Batches whose sizes one read adds up."""

_FENCED: Final = "FLF01"
_RESUMED: Final = -1
"""Instead of a round of cleanup: it is unknown when the records below the position were read."""
_NOT_BEGUN: Final = 2**62
"""Instead of a round of cleanup: nothing was read yet."""


class _Place(msgspec.Struct, frozen=True):
    """A stored topic. `parts`: the number of each partition in the tables."""

    name: str
    compacted: bool
    parts: list[int]


class PostgresLog:
    """An `EventLog`; see `open`."""

    def __init__(self, url: str, identity: str, timeout_s: float) -> None:
        self.url = url
        self.notifier = Notifier(url)
        self._identity = identity
        self._timeout_s = timeout_s
        self.link = Link(url, timeout_s)
        self._places: dict[str, _Place] = {}
        self._opened: list[PostgresProducer | PostgresReader] = []

    @classmethod
    async def open(cls, url: str, *, timeout_s: float = TIMEOUT_S) -> "PostgresLog":
        """The log of this database; its tables are made if they are not there.

        Raises `LogUnavailable` if the database cannot be reached within `timeout_s`.
        """
        try:
            pool = await open_pool(url, size_max=1, connect_s_max=timeout_s, name="fairlead-log")
            try:
                await migrate(pool, SCHEMA, PACKAGE, MIGRATIONS)
                identity = await pool.fetchval(SQL["identity"])
            finally:
                await pool.close()
        except (DatabaseUnavailable, *CONNECTION_ERRORS, asyncpg.PostgresError) as error:
            raise LogUnavailable(f"the log in Postgres cannot be opened: {error}") from error
        return cls(url, f"postgres/{identity}", timeout_s)

    async def identity(self) -> str:
        """See `EventLog`."""
        return self._identity

    async def create(self, topic: Topic) -> None:
        """See `EventLog`."""
        check_topic(topic)
        await self.link.query(
            lambda connection: connection.execute(
                SQL["create_topic"],
                topic.name,
                topic.partitions,
                topic.compacted,
                topic.retention_s,
                topic.initial_retention_s,
            )
        )
        place = await self.place(topic.name)
        if (len(place.parts), place.compacted) != (topic.partitions, topic.compacted):
            raise TopicMismatch(
                f"the topic {topic.name} has {len(place.parts)} partitions, compacted: "
                f"{place.compacted}; expected are {topic.partitions} partitions, compacted: "
                f"{topic.compacted}"
            )

    async def producer(self, name: str) -> "PostgresProducer":
        """See `EventLog`."""
        link = Link(self.url, self._timeout_s, {"statement_timeout": f"{STATEMENT_S_MAX:g}s"})
        try:
            epoch = await link.query(
                lambda connection: connection.fetchval(SQL["begin_producer"], name)
            )
        except BaseException:
            link.drop()
            raise
        producer = PostgresProducer(self, link, name, epoch)
        self._opened.append(producer)
        return producer

    async def reader(self, topic: str, positions: Positions) -> "PostgresReader":
        """See `EventLog`."""
        place = await self.place(topic)
        unknown = [number for number in positions if not 0 <= number < len(place.parts)]
        if unknown:
            raise TopicMismatch(f"{topic} has no partition {unknown[0]}")
        own_link = None if place.compacted else Link(self.url, self._timeout_s)
        reader = PostgresReader(self, own_link, place, positions)
        self._opened.append(reader)
        return reader

    async def start_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return {row["partition"]: row["first"] for row in await self._rows(topic)}

    async def end_positions(self, topic: str) -> dict[int, int]:
        """See `EventLog`."""
        return {row["partition"]: row["next"] for row in await self._rows(topic)}

    async def skip_positions(self, topic: str, ends: Positions) -> None:
        """Give later records no position below these: for `fairlead repair` only."""
        place = await self.place(topic)
        parts = [place.parts[number] for number in ends]
        await self.link.query(
            lambda connection: connection.execute(SQL["skip_positions"], parts, list(ends.values()))
        )

    async def maintain(self, now_ms: int) -> int:
        """Drop records whose retention has ended; returns their number.

        `opening.maintain_log` calls this at intervals; several processes can.
        """
        link = Link(self.url, self._timeout_s, {**session_timeouts(), **SESSION})
        try:
            return await maintain(link, now_ms)
        finally:
            await link.close()

    async def close(self) -> None:
        """See `EventLog`."""
        for opened in tuple(self._opened):
            await opened.close()
        self._opened.clear()
        await self.notifier.close()
        await self.link.close()

    def forget(self, opened: "PostgresProducer | PostgresReader") -> None:
        """Do not close a producer or reader that its owner has closed."""
        if opened in self._opened:
            self._opened.remove(opened)

    async def place(self, topic: str) -> _Place:
        """The stored topic, which never changes. Raises `TopicMismatch` if it does not exist."""
        place = self._places.get(topic)
        if place is None:
            rows = await self._rows(topic)
            place = _Place(topic, rows[0]["compacted"], [row["part"] for row in rows])
            self._places[topic] = place
        return place

    async def _rows(self, topic: str) -> list[Any]:
        """Rows of `asyncpg`, which has no types."""
        rows: list[Any] = await self.link.query(
            lambda connection: connection.fetch(SQL["topic"], topic)
        )
        if not rows:
            raise TopicMismatch(f"the topic {topic!r} does not exist")
        return rows


class PostgresProducer:
    """A `Producer`: one epoch of a name, on a connection of its own."""

    def __init__(self, log: PostgresLog, link: Link, name: str, epoch: int) -> None:
        self.name = name
        self._log = log
        self._epoch = epoch
        self._link = link
        self._turn = asyncio.Lock()
        self._usable = True

    async def append(self, records: Sequence[Record]) -> Appended:
        """See `Producer`."""
        check_append(records)
        async with self._turn:
            if not self._usable:
                raise ProducerFenced(f"this producer {self.name!r} can no longer be used")
            if not records:
                return {}
            names, parts = await self._find_partitions(records)
            batches = pack(parts)
            # Unless the outcome is known, and good or harmless, this was the last append.
            self._usable = False
            try:
                rows = await self._link.query_once(
                    lambda connection: connection.fetch(
                        SQL["append"], self.name, self._epoch, batches
                    ),
                    ANSWER_S_MAX,
                )
            except LogUnavailable as error:
                self._usable = True
                raise AppendRefused(str(error)) from error
            except AnswerLost as error:
                raise AppendUnknown(f"the answer of Postgres was lost: {error}") from error
            except asyncpg.PostgresError as error:
                if error.sqlstate == _FENCED:
                    raise ProducerFenced(str(error)) from error
                self._usable = True
                if isinstance(error, asyncpg.DiskFullError):
                    raise LogFull(DISK_FULL.format(error)) from error
                if is_refusal(error):
                    raise AppendRefused(f"Postgres refused the append: {error}") from error
                raise
            self._usable = True
        self._log.notifier.notify({topic for topic, _ in names.values()})
        return {names[part]: following for part, following in rows}

    async def close(self) -> None:
        """See `Producer`."""
        self._usable = False
        self._log.forget(self)
        await self._link.close()

    async def _find_partitions(
        self, records: Sequence[Record]
    ) -> tuple[dict[int, tuple[str, int]], dict[int, list[Record]]]:
        """The topic and partition of each part of these records, and its records."""
        names: dict[int, tuple[str, int]] = {}
        parts: dict[int, list[Record]] = {}
        places: dict[str, _Place] = {}
        for record in records:
            place = places.get(record.topic)
            if place is None:
                place = places[record.topic] = await self._place(record.topic)
            number = record.partition
            if number is None:
                number = partition_of(record.key, len(place.parts))
            elif not 0 <= number < len(place.parts):
                raise AppendRefused(f"{record.topic} has no partition {number}")
            part = place.parts[number]
            if part not in names:
                names[part] = record.topic, number
                parts[part] = []
            parts[part].append(record)
        return names, parts

    async def _place(self, topic: str) -> _Place:
        try:
            return await self._log.place(topic)
        except (TopicMismatch, LogUnavailable) as error:
            raise AppendRefused(str(error)) from error


class PostgresReader:
    """A `Reader` on a connection of its own, or without one on that of the log."""

    def __init__(
        self, log: PostgresLog, own_link: Link | None, place: _Place, positions: Positions
    ) -> None:
        self.topic = place.name
        self._log = log
        self._own_link = own_link
        self._closed = False
        self._part_of = {number: place.parts[number] for number in positions}
        self._number_of = {part: number for number, part in self._part_of.items()}
        self._positions = dict(positions)
        # The round of cleanup in which the reading of each partition began at its start.
        self._since = {
            number: _NOT_BEGUN if not at else _RESUMED for number, at in positions.items()
        }

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """See `Reader`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            notified = self._log.notifier.next_notification(self.topic)
            before = self._positions
            entries = await self._next(records_max, bytes_max)
            left = deadline - loop.time()
            if entries or left <= 0 or self._positions != before:
                return Batch(entries, dict(self._positions))
            try:
                async with asyncio.timeout(min(left, POLL_S)):
                    await notified.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        """See `Reader`."""
        self._closed = True
        self._log.forget(self)
        if self._own_link is not None:
            await self._own_link.close()

    async def _next(self, records_max: int, bytes_max: int) -> list[Entry]:
        before = self._positions
        parts = [self._part_of[number] for number in before]
        positions = list(before.values())
        since = [self._since[number] for number in before]
        batches_max = min(records_max, READ_BATCHES_MAX)

        def call(connection: Connection) -> Any:
            return connection.fetch(SQL["read"], parts, positions, batches_max, bytes_max, since)

        if self._closed:
            raise LogUnavailable("this reader was closed")
        rows = await (self._own_link or self._log.link).query(call)
        heads, rows = rows[: len(parts)], rows[len(parts) :]
        for part, following, first, (cleanup_round,), missed in heads:
            number = self._number_of[part]
            if missed is not None or not first <= before[number] <= following:
                raise PositionExpired(self.topic, number, before[number], first)
            if self._since[number] == _NOT_BEGUN:
                self._since[number] = int(cleanup_round)
        found: list[Entry] = []
        for row in rows:
            number = self._number_of[row["part"]]
            found += unpack(StoredBatch(*row), number, before[number])
            if len(found) >= records_max:
                break
        entries = limit(found, records_max, bytes_max)
        last: tuple[int, int] | None = None
        if len(entries) < len(found):
            last = entries[-1].partition, entries[-1].position + 1
        elif rows:
            last = self._number_of[row["part"]], row["next"]
        self._advance(last, {self._number_of[head["part"]]: head["next"] for head in heads})
        return entries

    def _advance(self, last: tuple[int, int] | None, ends: dict[int, int]) -> None:
        """Advance the positions. `last`: the partition that was read last, and its position to read
        next. Partitions are read in the order of `_positions`: those before the last one were read
        to their end, or all of them if there was nothing.
        """
        after: dict[int, int] = {}
        ended = True
        for number, position in self._positions.items():
            if last is not None and number == last[0]:
                after[number] = last[1]
                ended = False
            else:
                after[number] = ends[number] if ended else position
        self._positions = rotate_positions(after, None if last is None else last[0])
