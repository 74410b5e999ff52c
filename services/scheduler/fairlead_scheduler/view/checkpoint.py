"""The view's checkpoint in Postgres: what changed, saved with the log positions in one transaction.

Only the leader saves. Loading gives the view as it was at those positions; the log has the rest.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from fairlead_common import shapes
from fairlead_common.db import Connection, Pool, load
from fairlead_common.errors import ViewConflict
from fairlead_common.ids import JobId, partition_of_job
from fairlead_common.lifecycle import JobState
from fairlead_scheduler.buckets import Levels, PoolBuckets
from fairlead_scheduler.settings import Rules
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view.columns import Columns, Ended, Rare, View

SQL: Final = load("fairlead_scheduler.view", "checkpoint.sql")
_WEEK_MS: Final = 7 * 86_400_000
_PLAIN: Final = (
    "run",
    "retries",
    "grace_s",
    "priority",
    "number",
    "submitted_ms",
    "leased_ms",
    "running_ms",
    "value",
    "start_after_ms",
    "queue_until_ms",
    "runtime_ms_max",
    "checkpoint_ms",
)
_JOB_COLUMNS: Final = (
    *("job_id", "digest", "state", "run_state", "flags", "pool", "queue", "job_set", "shape"),
    *("executor", "node", *_PLAIN, "rare"),
)


class OtherLog(Exception):
    """The view in this database was folded from another log."""


class Changes(msgspec.Struct, frozen=True):
    """Everything one save writes, copied out of the view at one moment."""

    positions: list[int]
    jobs: list[tuple[object, ...]]
    shapes: dict[str, c.ShapeClass]
    specs: list[tuple[JobId, bytes]]
    ended: list[tuple[JobId, str, str, int]]
    buckets: bytes


def take(view: View, partitions: int) -> Changes:
    """What changed since the last `take`; the view forgets that it changed."""
    rows = np.flatnonzero(view.jobs.unsaved[: view.jobs.used])
    live: list[int] = rows[~c.IS_ENDED[view.jobs.state[rows]]].tolist()
    used = {int(number) for number in np.unique(view.jobs.shape[live])} if live else set()
    named = {_shape_key(view.jobs, number): view.jobs.shapes.values[number] for number in used}
    changes = Changes(
        positions=[view.positions.get(partition, 0) for partition in range(partitions)],
        jobs=_rows(view.jobs, live),
        shapes=named,
        specs=view.specs.save(),
        ended=[(job_id, e.state.value, e.digest, e.at_ms) for job_id, e in view.ended.items()],
        buckets=msgspec.json.encode(view.buckets.levels()),
    )
    view.recent.update({job_id: ended.state for job_id, ended in view.ended.items()})
    view.ended = {}
    view.jobs.unsaved[rows] = False
    return changes


def _shape_key(jobs: Columns, number: int) -> str:
    return shapes.key(*jobs.shapes.values[number])


def _rows(jobs: Columns, rows: list[int]) -> list[tuple[object, ...]]:
    if not rows:
        return []
    encode = msgspec.json.encode
    keys = {int(n): _shape_key(jobs, int(n)) for n in np.unique(jobs.shape[rows])}
    nodes = [jobs.nodes.values[n] if n >= 0 else (None, None) for n in jobs.node[rows].tolist()]
    return list(
        zip(
            jobs.rows.every(rows),
            map(jobs.digest_of, rows),
            jobs.state[rows].tolist(),
            jobs.run_state[rows].tolist(),
            jobs.flags[rows].tolist(),
            [jobs.pools.values[n] for n in jobs.pool[rows].tolist()],
            [jobs.queues.values[n] for n in jobs.queue[rows].tolist()],
            [jobs.job_sets.values[n].name for n in jobs.job_set[rows].tolist()],
            [keys[n] for n in jobs.shape[rows].tolist()],
            [executor for executor, _ in nodes],
            [node for _, node in nodes],
            *(getattr(jobs, name)[rows].tolist() for name in _PLAIN),
            [encode(jobs.rare[row]) if row in jobs.rare else None for row in rows],
            strict=True,
        )
    )


async def save(
    pool: Pool,
    before: list[int],
    changes: Changes,
    nodes: Iterable[tuple[str, str, int]],
) -> None:
    """Write the changes if the saved positions are still `before`, else raise `ViewConflict`."""
    numbered = list(nodes)
    async with pool.acquire() as connection:
        if changes.ended:
            await _make_partitions(connection, {at_ms // _WEEK_MS for *_, at_ms in changes.ended})
        for table in ("kept_jobs", "kept_specs"):
            await connection.execute(SQL[table])
        async with connection.transaction():
            moved = await connection.execute(
                SQL["move_view"], before, changes.positions, changes.buckets
            )
            if moved != "UPDATE 1":
                raise ViewConflict("another scheduler moved the checkpoint: this one is deposed")
            await _write(connection, changes)
            if numbered:
                await connection.execute(SQL["save_nodes"], *zip(*numbered, strict=True))


async def _write(connection: Connection, changes: Changes) -> None:
    if changes.shapes:
        raws, classes = zip(*changes.shapes.values(), strict=True)
        await connection.execute(SQL["save_shapes"], list(changes.shapes), raws, classes)
    if changes.jobs:
        await connection.copy_records_to_table(
            "kept_jobs", records=changes.jobs, columns=_JOB_COLUMNS
        )
        await connection.execute(SQL["merge_jobs"])
    if changes.specs:
        await connection.copy_records_to_table("kept_specs", records=changes.specs)
        await connection.execute(SQL["merge_specs"])
    if changes.ended:
        await connection.copy_records_to_table(
            "ended", schema_name="fairlead_scheduler", records=changes.ended
        )
        ids = [row[0] for row in changes.ended]
        await connection.execute(SQL["remove_jobs"], ids)
        await connection.execute(SQL["remove_specs"], ids)


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


async def prune_shapes(pool: Pool) -> None:
    """Drop the shapes that no saved job has any more."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(SQL["hold_view"])
        await connection.execute(SQL["prune_shapes"])


async def prune_nodes(pool: Pool, names: Iterable[c.NodeName]) -> None:
    """Drop the numbers of these nodes."""
    if gone := list(names):
        await pool.execute(SQL["prune_nodes"], *zip(*gone, strict=True))


async def read_positions(pool: Pool, log_id: str, partitions: int) -> list[int] | None:
    """The saved positions, None before the first checkpoint. Raises `OtherLog`."""
    row = await pool.fetchrow(SQL["read_view"])
    if row is None:
        return None
    if row["log_id"] != log_id:
        raise OtherLog(
            f"the scheduler's view in this database belongs to the log {row['log_id']}, but the log"
            f" is {log_id}: give each log its own database, or drop schema fairlead_scheduler"
        )
    positions: list[int] = row["positions"]
    assert len(positions) == partitions, "the number of partitions is fixed for the life of a log"
    return positions


async def begin(pool: Pool, log_id: str, start: Mapping[int, int], partitions: int) -> None:
    """Make the first checkpoint of an empty view, at the start of the log."""
    positions = [start.get(partition, 0) for partition in range(partitions)]
    await pool.execute(SQL["begin_view"], log_id, positions)


async def load_view(pool: Pool, log_id: str, partitions: int, rules: Rules) -> View | None:
    """The view as it was saved, None before the first checkpoint."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
        positions = await read_positions(connection, log_id, partitions)
        if positions is None:
            return None
        saved = await connection.fetchval(SQL["read_buckets"])
        levels = msgspec.json.decode(saved, type=dict[str, Levels])
        view = View(PoolBuckets(rules, levels))
        view.positions = dict(enumerate(positions))
        names = {
            row["key"]: c.ShapeClass(row["shape"], row["priority_class"])
            for row in await connection.fetch(SQL["read_shapes"])
        }
        async for block in _blocks(connection, SQL["read_jobs"], 10_000):
            _restore(view, names, block)
    _relink(view)
    return view


async def _blocks(
    connection: Connection, query: str, size: int
) -> AsyncIterator[list[Mapping[str, object]]]:
    cursor = await connection.cursor(query)
    while block := await cursor.fetch(size):
        yield block


def _restore(
    view: View, names: Mapping[str, c.ShapeClass], block: list[Mapping[str, object]]
) -> None:
    jobs = view.jobs
    rows = jobs.allocate(len(block))
    jobs.journal.extend(rows)
    jobs.rows.add([JobId(str(record["job_id"])) for record in block], rows)
    jobs.digest[rows] = [str(record["digest"]).encode() for record in block]
    for name in ("state", "run_state", "flags", *_PLAIN):
        getattr(jobs, name)[rows] = [record[name] for record in block]
    for row, record in zip(rows.tolist(), block, strict=True):
        queue, job_set = str(record["queue"]), str(record["job_set"])
        jobs.partition[row] = partition_of_job(str(record["job_id"]))
        jobs.pool[row] = jobs.pools.number(str(record["pool"]))
        jobs.queue[row] = jobs.queues.number(queue)
        jobs.job_set[row] = jobs.job_sets.number(c.JobSet(queue, job_set))
        jobs.shape[row] = jobs.shapes.number(names[str(record["shape"])])
        executor, node = record["executor"], record["node"]
        named = None if executor is None else c.NodeName(str(executor), str(node))
        jobs.node[row] = -1 if named is None else jobs.nodes.number(named)
        rare = record["rare"]
        if isinstance(rare, bytes):
            jobs.rare[row] = msgspec.json.decode(rare, type=Rare)


def _relink(view: View) -> None:
    """What is derived from the rows: who waits for whom, gangs, what needs attention."""
    jobs = view.jobs
    for row, rare in jobs.rare.items():
        for other in rare.after:
            view.dependents.setdefault(other, set()).add(jobs.rows.of(row))
        if rare.gang is not None and rare.gang_terms is not None:
            view.gangs.setdefault(rare.gang, rare.gang_terms)
            view.gang_members.setdefault(rare.gang, set()).add(jobs.rows.of(row))
            if rare.gang_started:
                view.gang_started.add(rare.gang)
    for row in view.live_rows().tolist():
        state, run_state, flags = jobs.state[row], jobs.run_state[row], jobs.flags[row]
        over = c.IS_HELD[state] and not c.IS_LIVE_RUN[run_state]
        if over or flags & (c.DOOMED | c.STOPPING):
            view.attention.add(row)


async def find_ended(pool: Pool, ids: Iterable[JobId]) -> dict[JobId, Ended]:
    """What is known of these jobs, of those that ended."""
    rows = await pool.fetch(SQL["find_ended"], sorted(ids))
    return {
        JobId(row["job_id"]): Ended(JobState(row["state"]), row["digest"], row["at_ms"])
        for row in rows
    }


async def read_specs(pool: Pool, ids: Iterable[JobId]) -> dict[JobId, bytes]:
    """The encoded `JobSubmitted` of these jobs, of those that are saved."""
    rows = await pool.fetch(SQL["read_specs"], sorted(ids))
    return {JobId(row["job_id"]): row["spec"] for row in rows}


async def read_nodes(pool: Pool) -> dict[tuple[str, str], int]:
    """(executor, node) -> the number that the node keeps while it is there."""
    rows = await pool.fetch(SQL["read_nodes"])
    return {(row["executor"], row["name"]): row["number"] for row in rows}


def prune(view: View, saved: list[int]) -> None:
    """A standby forgets what the leader's checkpoint at these positions already holds."""
    jobs = view.jobs
    rows = np.flatnonzero(jobs.unsaved[: jobs.used])
    is_saved = jobs.position[rows] < np.array(saved)[jobs.partition[rows]]
    jobs.unsaved[rows[is_saved]] = False
    view.specs.save(unless=set(jobs.rows.every(rows[~is_saved])))
    gone = [
        job_id
        for job_id, ended in view.ended.items()
        if ended.position < saved[partition_of_job(job_id)]
    ]
    for job_id in gone:
        view.recent[job_id] = view.ended.pop(job_id).state
