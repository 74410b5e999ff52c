"""The outbox: records for `fairlead.config` that are stored with the change that they announce."""

from typing import Final, NamedTuple

from fairlead_common import db
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_submit.store.schema import SQL

CHANNEL: Final = "fairlead_submit_outbox"
"""Postgres notifies its listeners when a transaction that wrote to the outbox has committed."""


class OutboxRow(NamedTuple):
    """A record that has not been relayed. `value` None deletes the key."""

    number: int
    key: str
    value: bytes | None


async def write_to_outbox(connection: db.Connection, item: Queue | Cordon) -> None:
    """Write a queue or cordon to the outbox, in the transaction that changes it."""
    record = configuration.record(item)
    await connection.execute(SQL["insert_outbox"], record.key, record.value, CHANNEL)


async def read_outbox(connection: db.Connection, rows_max: int) -> list[OutboxRow]:
    """The oldest rows, in order."""
    rows = await connection.fetch(SQL["read_outbox"], rows_max)
    return [OutboxRow(row["number"], row["key"], row["value"]) for row in rows]


async def delete_from_outbox(connection: db.Connection, rows: list[OutboxRow]) -> None:
    """Delete rows that the log has."""
    await connection.execute(SQL["delete_outbox"], [row.number for row in rows])


async def read_newest_number(pool: db.Pool, item: Queue | Cordon) -> int | None:
    """The number of the newest row about this queue or cordon; None if all are relayed."""
    number: int | None = await pool.fetchval(
        SQL["read_newest_outbox_number"], configuration.key(item)
    )
    return number


async def has_rows(pool: db.Pool, item: Queue | Cordon, number_max: int) -> bool:
    """Whether a row about this queue or cordon, up to this number, is not relayed yet."""
    found: bool = await pool.fetchval(SQL["has_outbox_rows"], configuration.key(item), number_max)
    return found


async def delete_expired_queues(connection: db.Connection, retention_s: float) -> None:
    """Delete the rows of queues that were deleted this long ago; the log forgets them as well."""
    async with connection.transaction():
        for row in await connection.fetch(SQL["delete_expired_queues"], retention_s):
            key = configuration.key(Queue(name=row["name"]))
            await connection.execute(SQL["insert_outbox"], key, None, CHANNEL)
