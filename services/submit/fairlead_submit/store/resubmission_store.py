"""Resubmissions in Postgres: an action, and an item for each job that it is about.

The functions that take a connection belong to a transaction of the caller. They raise
`asyncpg.UndefinedTableError` or `UndefinedColumnError` if lookout has not made its views yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from fairlead_common import db
from fairlead_common.domain.records import line_chunks
from fairlead_submit.store.schema import SQL

FIND_S_MAX: Final = 30.0
"""The longest search for the jobs of an action."""


class RefusedJob(msgspec.Struct, frozen=True):
    """A job that was not resubmitted, and why."""

    id: str
    reason: str


class NewAction(NamedTuple):
    """An action to store. `digest`: of its request, which a repetition must equal."""

    id: str
    kind: str
    queue: str
    job_set: str
    by: str
    request: str
    traceparent: str
    digest: str
    keeps_client_ids: bool
    memory_factor: float


class Action(NamedTuple):
    """A stored action. `done` of `total` items were processed, and `made` of them resubmitted.

    `positions`: of everything written so far, by partition; `refused`: the first refused jobs.
    """

    id: str
    kind: str
    queue: str
    job_set: str
    by: str
    request: str
    traceparent: str
    digest: str
    keeps_client_ids: bool
    memory_factor: float
    total: int
    done: int
    made: int
    positions: dict[int, int]
    refused: list[RefusedJob]
    ended: bool
    created_ms: int
    changed_ms: int


class Item(NamedTuple):
    """A job of an action. `submitted`: its event, None if lookout has deleted the job."""

    number: int
    job_id: str
    gang: str | None
    submitted: bytes | None


class GangSize(NamedTuple):
    """The members of a gang in an action; `before`: the members in earlier steps."""

    members: int
    before: int


class Dependency(NamedTuple):
    """An item of the action that another one waits for, with what names the job in its place."""

    job_id: str
    is_refused: bool
    client_id: str | None
    annotations: dict[str, str]


async def insert_action(connection: db.Connection, action: NewAction) -> bool:
    """Store an action without items; False if its id exists."""
    return await connection.fetchval(SQL["insert_action"], *action) is not None


async def find_action(connection: db.Pool, action: str) -> Action | None:
    """The action; None if it does not exist."""
    row = await connection.fetchrow(SQL["find_action"], action)
    return None if row is None else _decode_action(row)


async def insert_named_items(connection: db.Connection, action: str, ids: Iterable[str]) -> int:
    """Make these jobs the items of the action; returns the number of those that exist."""
    status = await connection.execute(SQL["insert_named_items"], action, list(ids))
    return _count_rows(status)


async def insert_found_items(
    connection: db.Connection,
    action: str,
    chosen: Sequence[object],
    items_max: int,
    *,
    failed_only: bool,
) -> int:
    """Make the jobs that a filter finds now the items of the action; returns their number.

    `chosen`: as `job_views.make_arguments` returns it.
    """
    status = await connection.execute(
        SQL["insert_found_items"], *chosen, items_max, action, failed_only, timeout=FIND_S_MAX
    )
    return _count_rows(status)


async def set_total(connection: db.Connection, action: str, total: int) -> None:
    """Set the number of items; an action without any has ended."""
    await connection.execute(SQL["set_total"], action, total)


async def lock_next_action(connection: db.Connection) -> Action | None:
    """The oldest action that no other process works on, locked until the transaction ends."""
    row = await connection.fetchrow(SQL["lock_next_action"])
    return None if row is None else _decode_action(row)


async def read_items(
    connection: db.Connection, action: str, after: int, items_max: int
) -> list[Item]:
    """The items after this number, in order."""
    rows = await connection.fetch(SQL["read_items"], action, after, items_max)
    lines = line_chunks.read_lines(rows)
    return [
        Item(row["number"], row["job_id"], row["gang"], line)
        for row, line in zip(rows, lines, strict=True)
    ]


async def read_gang_sizes(
    connection: db.Connection, action: str, gangs: list[str], after: int
) -> dict[str, GangSize]:
    """The sizes of these gangs; `after`: the last number of the earlier steps."""
    rows = await connection.fetch(SQL["read_gang_sizes"], action, gangs, after)
    return {row["gang"]: GangSize(row["members"], row["before"]) for row in rows}


async def read_dependencies(
    connection: db.Connection, action: str, ids: list[str]
) -> list[Dependency]:
    """The jobs among these that are items of the action."""
    return [
        Dependency(
            row["job_id"],
            row["refused"],
            row["client_id"],
            msgspec.json.decode(row["annotations"] or "{}", type=dict[str, str]),
        )
        for row in await connection.fetch(SQL["read_dependencies"], action, ids)
    ]


async def refuse_items(connection: db.Connection, action: str, numbers: Iterable[int]) -> None:
    """Mark these items as refused."""
    await connection.execute(SQL["refuse_items"], action, list(numbers))


async def advance_action(
    connection: db.Connection,
    action: Action,
    done: int,
    made: int,
    positions: Mapping[int, int],
    refused: Sequence[RefusedJob],
) -> None:
    """Store the progress of an action after a step that made `made` jobs; deletes the items of an
    action that has ended.
    """
    await connection.execute(
        SQL["advance_action"],
        action.id,
        done,
        made,
        msgspec.json.encode(positions).decode(),
        msgspec.json.encode(refused).decode(),
    )
    if done >= action.total:
        await connection.execute(SQL["delete_items"], action.id)


async def delete_expired_actions(connection: db.Connection, retention_s: float) -> None:
    """Delete actions that ended this long ago."""
    await connection.execute(SQL["delete_expired_actions"], retention_s)


def _decode_action(row: Mapping[str, Any]) -> Action:
    """`Any`: a row of Postgres."""
    return Action(
        id=row["id"],
        kind=row["kind"],
        queue=row["queue"],
        job_set=row["job_set"],
        by=row["by_name"],
        request=row["request"],
        traceparent=row["traceparent"],
        digest=row["digest"],
        keeps_client_ids=row["keeps_client_ids"],
        memory_factor=row["memory_factor"],
        total=row["total"],
        done=row["done"],
        made=row["made"],
        positions=msgspec.json.decode(row["positions"], type=dict[int, int]),
        refused=msgspec.json.decode(row["refused"], type=list[RefusedJob]),
        ended=row["ended"],
        created_ms=int(row["created_at"].timestamp() * 1000),
        changed_ms=int(row["changed_at"].timestamp() * 1000),
    )


def _count_rows(status: str) -> int:
    """The number of rows that a command inserted: the last word of its status."""
    return int(status.rpartition(" ")[2])
