"""Queues and cordons: rows with versions in Postgres, copied to the log through an outbox.

A change and its outbox row are written in one transaction, so that the log gets every change and
no other. Folds of `fairlead.config` use the highest version.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec
from cachetools import TTLCache

from fairlead_common import db
from fairlead_common.db.locks import LockClass
from fairlead_common.domain.permissions import ALL_QUEUES, Caller, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.service import clock
from fairlead_common.service.single_flight import SingleFlight
from fairlead_common.web.requests import etags
from fairlead_submit.domain.callers import is_visible
from fairlead_submit.store.outbox import write_to_outbox
from fairlead_submit.store.schema import SQL

CACHE_S: Final = 1.0
CACHE_MAX: Final = 10_000
_encoder: Final = msgspec.json.Encoder()


class QueueStore:
    """Reads and changes queues. Every method can raise `DatabaseUnavailable`."""

    def __init__(self, pool: db.Pool, now_s: Callable[[], float] = clock.monotonic_s) -> None:
        self._pool = pool
        self._cache: TTLCache[str, Queue] = TTLCache(CACHE_MAX, CACHE_S, timer=now_s)
        self._single_flight: SingleFlight[str, Queue | None] = SingleFlight()

    async def get_cached(self, name: str) -> Queue | None:
        """The queue, perhaps as it was `CACHE_S` ago. An unknown queue is looked up."""
        try:
            return self._cache[name]  # a third of the cost of `get`
        except KeyError:
            pass
        return await self._single_flight.run(name, lambda: self.get(name))

    async def get(self, name: str) -> Queue | None:
        """The queue as it is now."""
        if "\0" in name:
            return None
        value = await self._read(lambda: self._pool.fetchval(SQL["get_queue"], name))
        if value is None:
            self._cache.pop(name, None)
            return None
        return self._keep(_decode_queue(value))

    async def get_visible(self, name: str | None, caller: Caller) -> Queue | None:
        """As `get_cached`; None for a queue that the caller is not permitted to view."""
        queue = None if name is None else await self.get_cached(name)
        return queue if queue is not None and is_visible(queue, caller) else None

    async def list_page(
        self, after: str, limit: int, scope: QueueScope = ALL_QUEUES
    ) -> list[Queue]:
        """At most `limit` queues within scope whose names come after this one, by name."""
        rows = await self._read(
            lambda: self._pool.fetch(SQL["list_queues"], after, limit, *scope.arguments())
        )
        return [_decode_queue(row["value"]) for row in rows]

    async def count(self, limit: int, scope: QueueScope) -> int:
        """How many queues are within scope, up to a bound."""
        count: int = await self._read(
            lambda: self._pool.fetchval(SQL["count_queues"], limit, *scope.arguments())
        )
        return count

    async def create(self, queue: Queue, *, dry_run: bool = False) -> Queue | None:
        """Create the queue and return it with its version; None if the name exists."""
        if dry_run:
            return None if await self.get(queue.name) else queue
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                version = await connection.fetchval(SQL["next_version"])
                made = msgspec.structs.replace(queue, version=version)
                value = _encoder.encode(made)
                if not await connection.fetchval(SQL["insert_queue"], queue.name, version, value):
                    return None
                await write_to_outbox(connection, made)
        return self._keep(made)

    async def change(
        self,
        name: str,
        change: Callable[[Queue], Queue],
        if_match: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Queue:
        """Replace the queue by `change` of it. Raises a 404 or 412 `Problem`.

        A dry run returns the result with the present version.
        """
        if "\0" in name:
            raise queue_not_found(name)
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                value = await connection.fetchval(SQL["lock_queue"], name)
                if value is None:
                    raise queue_not_found(name)
                queue = _decode_queue(value)
                if if_match is not None and not etags.matches(if_match, make_etag(queue)):
                    raise etag_mismatch(queue, if_match)
                changed = change(queue)
                if msgspec.structs.replace(changed, by=queue.by) == queue:
                    return queue
                if dry_run:
                    return changed
                version = await connection.fetchval(SQL["next_version"])
                made = msgspec.structs.replace(changed, version=version)
                await connection.execute(
                    SQL["update_queue"], name, version, _encoder.encode(made), made.deleted
                )
                await write_to_outbox(connection, made)
        self._cache.pop(name, None)
        return made if made.deleted else self._keep(made)

    def _keep(self, queue: Queue) -> Queue:
        self._cache[queue.name] = queue
        return queue

    async def _read(self, query: Callable[[], db.Pool]) -> db.Pool:
        """Whatever asyncpg answers; it has no types."""
        with db.translate_errors():
            return await query()


class CordonStore:
    """Stores cordons. Raises `DatabaseUnavailable`."""

    def __init__(self, pool: db.Pool) -> None:
        self._pool = pool

    async def set_cordon(self, cordon: Cordon) -> Cordon:
        """Store a cordon and return it with its version, or the present one if it is equal."""
        key = configuration.key(cordon)
        with db.translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(SQL["lock_cordon"], LockClass.CORDON, key)
                value = await connection.fetchval(SQL["get_cordon"], key)
                if value is not None:
                    known = configuration.decode(value)
                    assert isinstance(known, Cordon)
                    if msgspec.structs.replace(cordon, version=known.version, by=known.by) == known:
                        return known
                version = await connection.fetchval(SQL["next_version"])
                made = msgspec.structs.replace(cordon, version=version)
                await connection.execute(SQL["put_cordon"], key, version, _encoder.encode(made))
                await write_to_outbox(connection, made)
        return made


async def ensure_queue(pool: db.Pool, name: str) -> bool:
    """Create the queue if it does not exist; returns whether it was created."""
    return await QueueStore(pool).create(Queue(name=name)) is not None


def make_etag(queue: Queue) -> str:
    """The ETag of this version of the queue."""
    return f'"{queue.version}"'


def etag_mismatch(queue: Queue, if_match: str) -> Problem:
    """The 412 for a request that is based on another version."""
    return Problem(
        "precondition-failed",
        f"Queue {queue.name!r} has changed: its ETag is {make_etag(queue)}, and If-Match is"
        f" {if_match[:80]}. Read the queue and send the change again.",
    )


def queue_not_found(name: str) -> Problem:
    """The 404 for a queue that does not exist."""
    return Problem("not-found", f"There is no queue {name[:80]!r}.")


def _decode_queue(value: bytes) -> Queue:
    item = configuration.decode(value)
    assert isinstance(item, Queue)
    return item


class StoredConfiguration(NamedTuple):
    """All queues and cordons, the keys that are still in the outbox, and the last version.

    `items` have no entry for a value that cannot be decoded: readers of the log skip it too.
    """

    items: dict[str, Queue | Cordon]
    outbox_keys: set[str]
    version: int


async def read_configuration(pool: db.Pool) -> StoredConfiguration:
    """The configuration at one moment."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
        values = [row["value"] for row in await connection.fetch(SQL["read_configuration"])]
        keys = {row["key"] for row in await connection.fetch(SQL["read_outbox_keys"])}
        version = await connection.fetchval(SQL["read_last_version"])
    found = [item for value in values if (item := decode_item(value)) is not None]
    return StoredConfiguration({configuration.key(item): item for item in found}, keys, version)


async def restore_configuration(
    pool: db.Pool,
    version: int,
    newer_in_log: Iterable[Queue | Cordon],
    newer_in_tables: Iterable[Queue | Cordon],
) -> None:
    """Store what is newer in the log, and announce what is newer in the tables.

    Versions to come are above `version`.
    """
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(SQL["raise_versions"], version)
        for item in newer_in_log:
            value = _encoder.encode(item)
            match item:
                case Queue():
                    row = (item.name, item.version, value, item.deleted)
                    await connection.execute(SQL["restore_queue"], *row)
                case Cordon():
                    key = configuration.key(item)
                    await connection.execute(SQL["put_cordon"], key, item.version, value)
        for item in newer_in_tables:
            await write_to_outbox(connection, item)


def decode_item(value: bytes) -> Queue | Cordon | None:
    """A stored or logged queue or cordon; None if it cannot be decoded."""
    try:
        return configuration.decode(value)
    except msgspec.DecodeError:
        return None
