"""The view's checkpoint in Postgres: what changed, saved with the log positions.

Only the leader saves, in parts (`checkpoint_parts.py`) of one transaction each. Loading gives the
view as it was at the saved positions; the log has the rest.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

import asyncpg
import msgspec
import numpy as np

from fairlead_common.db import Connection, Pool, load
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.ids import JobId, partition_of_job
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.log import EventLog, coverage
from fairlead_common.log.coverage import Gap, ViewUnusable
from fairlead_common.log.topics import JOB_PARTITIONS, JOBS
from fairlead_scheduler.state.checkpoint import checkpoint_rows
from fairlead_scheduler.state.checkpoint.checkpoint_loader import CheckpointLoader
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedName
from fairlead_scheduler.state.checkpoint.checkpoint_parts import Changes, JobRows
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.ended_filter import IDS_MAX, EndedFilter
from fairlead_scheduler.state.jobs.job_table import EndedJob
from fairlead_scheduler.state.jobs.specs import SpecsSave
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.token_buckets import PoolBuckets, SavedBuckets
from fairlead_scheduler.state.view import View

VIEW: Final = "scheduler's checkpoint"
SQL: Final = load("fairlead_scheduler.store", "checkpoint.sql")
SAVE_S_MAX: Final = 900.0
"""Longest statement of a save: 514,000 jobs took 35 s on a busy machine."""
DEPOSED: Final = "another scheduler moved the checkpoint: this one is deposed"
_WEEK_MS: Final = 7 * 86_400_000


class OtherLog(Exception):
    """The view in this database was folded from another log."""


class NewerFormat(Exception):
    """The records in this database were written by a newer version."""


async def save_changes(
    pool: Pool, changes: Changes, nodes: Iterable[tuple[str, str, int]] = ()
) -> None:
    """Write the changes if the saved positions are still those before them.

    Raises `ViewConflict` if not.
    """
    numbered = list(nodes)
    async with pool.acquire() as connection:
        if changes.ended:
            await _make_partitions(connection, {at_ms // _WEEK_MS for *_, at_ms in changes.ended})
        await connection.execute(SQL["copied_jobs"])
        async with connection.transaction():
            moved = await connection.execute(
                SQL["move_view"], changes.before, changes.positions, changes.buckets
            )
            if moved != "UPDATE 1":
                raise ViewConflict(DEPOSED)
            await _write(connection, changes)
            if numbered:
                await connection.execute(SQL["save_nodes"], *zip(*numbered, strict=True))


async def save_specs(pool: Pool, saved: list[int], specs: SpecsSave) -> None:
    """Write submissions ahead of the changes of their jobs.

    Raises `ViewConflict` if the saved positions are not these.
    """
    async with pool.acquire() as connection, connection.transaction():
        if await connection.fetchval(SQL["lock_view"], saved) is None:
            raise ViewConflict(DEPOSED)
        await _write_specs(connection, specs)


async def _write(connection: Connection, changes: Changes) -> None:
    """What was saved late is much at once: each statement has `SAVE_S_MAX`, because a save that
    fails for its size would fail again after each restart."""
    if changes.dropped_names:
        await connection.execute(SQL["drop_names"], *zip(*changes.dropped_names, strict=True))
    if changes.names:
        await connection.executemany(SQL["save_name"], changes.names)
    if changes.new_jobs is not None:
        await _write_new_jobs(connection, changes.new_jobs)
    if changes.jobs is not None:
        await _merge_jobs(connection, changes.jobs)
    if changes.specs is not None:
        await _write_specs(connection, changes.specs)
    if changes.groups:
        saved = [(group, state) for group, state in changes.groups if state is not None]
        dropped = [group for group, state in changes.groups if state is None]
        await connection.executemany(SQL["save_group"], saved)
        await connection.execute(SQL["drop_groups"], dropped)
    if changes.arrays:
        saved_arrays = [(array, state) for array, state in changes.arrays if state is not None]
        ended = [array for array, state in changes.arrays if state is None]
        await connection.executemany(SQL["save_array"], saved_arrays)
        await connection.execute(SQL["drop_arrays"], ended)
    if changes.ended:
        await connection.copy_records_to_table(
            "ended",
            schema_name="fairlead_scheduler",
            records=changes.ended,
            timeout=SAVE_S_MAX,
        )
        ids = _join([row[0] for row in changes.ended])
        await connection.execute(SQL["remove_jobs"], ids, timeout=SAVE_S_MAX)
        await connection.execute(SQL["remove_specs"], ids, timeout=SAVE_S_MAX)


async def _write_new_jobs(connection: Connection, jobs: JobRows) -> None:
    """Directly into their table, as `_write_specs`. What an earlier leader saved, this one does not
    always know: then all are merged, and once more with those that changed, as they are both in the
    temporary table."""
    try:
        async with connection.transaction():
            await _copy_jobs(connection, jobs, "jobs", schema="fairlead_scheduler")
    except asyncpg.UniqueViolationError:
        await _merge_jobs(connection, jobs)


async def _merge_jobs(connection: Connection, jobs: JobRows) -> None:
    await _copy_jobs(connection, jobs, "copied_jobs")
    await connection.execute(SQL["merge_jobs"], timeout=SAVE_S_MAX)


async def _copy_jobs(
    connection: Connection, jobs: JobRows, table: str, schema: str | None = None
) -> None:
    await connection.copy_to_table(
        table,
        schema_name=schema,
        source=_pieces(jobs.encode()),
        columns=("job_id", "record", "rare"),
        format="binary",
        timeout=SAVE_S_MAX,
    )


async def _write_specs(connection: Connection, specs: SpecsSave) -> None:
    """Directly into their table, which takes Postgres half as long as merging. Only after a kill
    some are there already; then all are merged."""
    try:
        async with connection.transaction():
            await connection.copy_records_to_table(
                "job_specs",
                schema_name="fairlead_scheduler",
                columns=("job_id", "spec"),
                records=specs,
                timeout=SAVE_S_MAX,
            )
    except asyncpg.UniqueViolationError:
        await connection.execute(SQL["copied_specs"])
        await connection.copy_records_to_table("copied_specs", records=specs, timeout=SAVE_S_MAX)
        await connection.execute(SQL["merge_specs"], timeout=SAVE_S_MAX)


async def _pieces(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """As COPY takes them: each is encoded when the last one is on its way. Of a file asyncpg would
    make a class, which keeps it until a full garbage collection."""
    for piece in pieces:
        yield piece


def _join(ids: Sequence[JobId]) -> str:
    """Job ids as one parameter: of an array asyncpg examines each element, in 0.3 us."""
    return " ".join(ids)


async def _make_partitions(connection: Connection, weeks: set[int]) -> None:
    """Partitions for jobs that ended in these weeks, where missing: a log that is read again from
    far back brings many weeks at once."""
    have = {row["name"] for row in await connection.fetch(SQL["ended_partitions"])}
    for number in sorted(weeks):
        name = f"fairlead_scheduler.ended_{number}"
        if name not in have:
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF fairlead_scheduler.ended"
                f" FOR VALUES FROM ({number * _WEEK_MS}) TO ({(number + 1) * _WEEK_MS})"
            )


async def prune_ended(pool: Pool, before_ms: int) -> list[str]:
    """Drop the partitions of jobs that ended before this time; returns their names."""
    dropped = []
    async with pool.acquire() as connection:
        for row in await connection.fetch(SQL["ended_partitions"]):
            number = int(row["name"].rpartition("_")[2])
            if (number + 1) * _WEEK_MS <= before_ms:
                await connection.execute(f"DROP TABLE {row['name']}")
                dropped.append(row["name"])
    return dropped


async def prune_nodes(pool: Pool, names: Iterable[job_table.NodeName]) -> None:
    """Drop the numbers of these nodes."""
    if pruned := list(names):
        await pool.execute(SQL["prune_nodes"], *zip(*pruned, strict=True))


async def read_positions(pool: Pool, log_id: str, partitions: int) -> list[int] | None:
    """The saved positions, None before the first checkpoint. Raises `OtherLog`."""
    row = await pool.fetchrow(SQL["read_view"])
    if row is None:
        return None
    if row["format"] > checkpoint_rows.FORMAT:
        raise NewerFormat(
            f"a newer version of Fairlead wrote the scheduler's checkpoint (format {row['format']},"
            f" this version reads up to {checkpoint_rows.FORMAT}): start the newer version"
        )
    if row["log_id"] != log_id:
        raise OtherLog(
            f"the scheduler's view in this database belongs to the log {row['log_id']}, but the log"
            f" is {log_id}: give each log its own database, or drop schema fairlead_scheduler"
        )
    positions: list[int] = row["positions"]
    assert len(positions) == partitions, "the number of partitions is fixed for the life of a log"
    return positions


async def create_checkpoint(
    pool: Pool, log_id: str, start: Mapping[int, int], partitions: int
) -> None:
    """Make the first checkpoint of an empty view, at the start of the log."""
    positions = [start.get(partition, 0) for partition in range(partitions)]
    await pool.execute(SQL["begin_view"], log_id, positions, checkpoint_rows.FORMAT)


async def read_names(pool: Pool) -> list[SavedName]:
    """The names that the saved records refer to."""
    return [
        SavedName(row["kind"], row["number"], row["parts"])
        for row in await pool.fetch(SQL["read_names"])
    ]


async def load_view(pool: Pool, log_id: str, partitions: int, rules: Rules) -> View | None:
    """The view as it was saved, None before the first checkpoint."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
        positions = await read_positions(connection, log_id, partitions)
        if positions is None:
            return None
        saved = await connection.fetchval(SQL["read_buckets"])
        buckets = msgspec.json.decode(saved, type=dict[str, SavedBuckets])
        view = View(PoolBuckets(rules, buckets))
        view.positions = dict(enumerate(positions))
        loading = CheckpointLoader(view, await read_names(connection))
        # On a connection of its own: Postgres takes as long for these as for all records.
        snapshot = await connection.fetchval(SQL["export_snapshot"])
        reading = asyncio.create_task(_read_rare(pool, snapshot))
        try:
            decoder = checkpoint_rows.RowDecoder()

            async def restore(data: bytes) -> None:
                for block in decoder.feed(data):
                    loading.add(block)

            await connection.copy_from_query(SQL["read_jobs"], output=restore, format="binary")
            loading.add(decoder.finish())
            groups = await connection.fetch(SQL["read_groups"])
            arrays = await connection.fetch(SQL["read_arrays"])
            rare = await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    loading.index_rows()
    loading.add_groups(row["state"] for row in groups)
    loading.add_arrays(row["state"] for row in arrays)
    while rare:
        loading.add_rare(*rare.pop())
    loading.finish()
    return view


async def _read_rare(pool: Pool, snapshot: str) -> list[tuple[bytes, bytes]]:
    """The answer of `read_rare`, as the transaction that exported the snapshot sees it."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
        await connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        await connection.execute(SQL["memory_for_rare"])
        return [(row["ids"], row["properties"]) for row in await connection.fetch(SQL["read_rare"])]


async def find_ended(pool: Pool, ids: Iterable[JobId]) -> dict[JobId, EndedJob]:
    """What is known of these jobs, of those that ended."""
    rows = await pool.fetch(SQL["find_ended"], _join(sorted(ids)))
    return {
        JobId(row["job_id"]): EndedJob(JobState(row["state"]), row["digest"], row["at_ms"])
        for row in rows
    }


async def load_ended_filter(pool: Pool, ended: EndedFilter) -> None:
    """Add the ids of all jobs that ended, unless they are too many for the filter."""
    rest = ""

    async def add(data: bytes) -> None:
        nonlocal rest
        *ids, rest = (rest + data.decode()).split("\n")
        ended.add([JobId(each) for each in ids])

    async with pool.acquire() as connection:
        await connection.copy_from_query(
            SQL["read_ended_ids"], IDS_MAX + 1, output=add, timeout=SAVE_S_MAX
        )
    ended.is_complete = True


async def read_specs(pool: Pool, ids: Iterable[JobId]) -> dict[JobId, bytes]:
    """The encoded `JobSubmitted` of these jobs, of those that are saved."""
    rows = await pool.fetch(SQL["read_specs"], _join(sorted(ids)))
    return {JobId(row["job_id"]): row["spec"] for row in rows}


async def read_nodes(pool: Pool) -> dict[tuple[str, str], int]:
    """(executor, node) -> the number that the node keeps while it is there."""
    rows = await pool.fetch(SQL["read_nodes"])
    return {(row["executor"], row["name"]): row["number"] for row in rows}


def forget_saved(view: View, saved: list[int]) -> None:
    """A standby forgets what the leader's checkpoint at these positions already holds."""
    jobs = view.jobs
    rows = np.flatnonzero(jobs.unsaved[: jobs.used])
    is_saved = jobs.position[rows] < np.array(saved)[jobs.partition[rows]]
    jobs.unsaved[rows[is_saved]] = False
    jobs.in_checkpoint[rows[is_saved]] = True
    view.unsaved_groups = {
        group: position
        for group, position in view.unsaved_groups.items()
        if position >= saved[partition_of_job(JobId(group))]
    }
    view.unsaved_arrays = {
        array: position
        for array, position in view.unsaved_arrays.items()
        if position >= saved[partition_of_job(array)]
    }
    view.specs.forget_saved(jobs.rows.ids_at(rows[~is_saved]))
    saved_ids = [
        job_id
        for job_id, ended in view.ended.items()
        if ended.position < saved[partition_of_job(job_id)]
    ]
    for job_id in saved_ids:
        view.recent[job_id] = view.ended.pop(job_id).state


async def read_progress(pool: Pool) -> tuple[str, dict[int, int]] | None:
    """The identity of the checkpoint's log and its positions; None before the first checkpoint."""
    row = await pool.fetchrow(SQL["read_view"])
    return None if row is None else (row["log_id"], dict(enumerate(row["positions"])))


async def find_gap(log: EventLog, pool: Pool) -> Gap | None:
    """What keeps the log from continuing the checkpoint, if anything does."""
    saved = await read_progress(pool)
    return coverage.compare(VIEW, saved, await coverage.read_log_state(log, JOBS))


async def require_usable(log: EventLog, pool: Pool) -> None:
    """Raises `ViewUnusable` where the log cannot continue the checkpoint."""
    gap = await find_gap(log, pool)
    if gap is not None:
        raise ViewUnusable(gap)


async def relocate(pool: Pool, log_id: str, positions: Mapping[int, int]) -> None:
    """Have the checkpoint continue at these positions of this log: `fairlead repair` only.

    The caller holds the leader's lock. Raises `ViewConflict` if the checkpoint moved meanwhile.
    """
    before = await read_progress(pool)
    if before is None:
        await create_checkpoint(pool, log_id, positions, JOB_PARTITIONS)
        return
    after = [positions.get(partition, 0) for partition in range(JOB_PARTITIONS)]
    known = [before[1].get(partition, 0) for partition in range(JOB_PARTITIONS)]
    moved = await pool.execute(SQL["relocate_view"], known, log_id, after)
    if moved != "UPDATE 1":
        raise ViewConflict("a scheduler moved its checkpoint during the repair: stop it first")
