"""Which part of the log the view has: whether the log can continue it, and what it lacks."""

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead_common.db import Connection, Pool
from fairlead_common.log import EventLog
from fairlead_common.log import coverage as log_coverage
from fairlead_common.log.coverage import Gap, LogState, Mismatch, Span, ViewUnusable
from fairlead_common.log.topics import JOBS, REPORTS
from fairlead_common.service import clock
from fairlead_lookout.store.view_schema import COVERAGE, FOLD

VIEW: Final = "view of lookout"
SCHEDULER_VIEW: Final = "scheduler's checkpoint"


async def read_progress(connection: Connection) -> tuple[str, dict[int, int]] | None:
    """The identity of the view's log and its positions; None for a new view."""
    rows = await connection.fetch(FOLD["positions"])
    log = await connection.fetchval(COVERAGE["source"])
    if log is None or not rows:
        return None
    return log, {row["partition"]: row["position"] for row in rows}


async def find_gap(connection: Connection, log: EventLog) -> Gap | None:
    """Why the log cannot continue the view, if it cannot."""
    saved = await read_progress(connection)
    return log_coverage.compare(VIEW, saved, await log_coverage.read_log_state(log, JOBS))


async def find_unrepaired(connection: Connection, state: LogState) -> Gap | None:
    """What the view lacks because the log had removed it, until a repair."""
    rows = await connection.fetch(COVERAGE["unrepaired"])
    if not rows:
        return None
    spans = {
        row["partition"]: Span(
            row["from_position"], row["to_position"], state.end[row["partition"]]
        )
        for row in rows
    }
    mismatch = (
        Mismatch.EXPIRED if any(span.position for span in spans.values()) else Mismatch.MISSING
    )
    return Gap(VIEW, (mismatch,), spans, state.identity, state.identity)


async def prepare_view(connection: Connection, log: EventLog) -> Gap | None:
    """Make the view ready to follow the log; returns what it lacks, if anything.

    A new view of a log that has removed its first events starts at the first event that exists,
    with a gap. Raises `ViewUnusable` for a view that the log cannot continue.
    """
    saved = await read_progress(connection)
    state = await log_coverage.read_log_state(log, JOBS)
    gap = log_coverage.compare(VIEW, saved, state)
    if gap is not None and gap.mismatches != (Mismatch.MISSING,):
        raise ViewUnusable(gap)
    async with connection.transaction():
        await connection.fetchval(FOLD["log_identity"], state.identity)
        if gap is not None:
            await _add_gaps(connection, gap)
        await connection.execute(
            FOLD["create_partitions"], list(state.start.keys()), list(state.start.values())
        )
    return await find_unrepaired(connection, state)


async def _add_gaps(connection: Connection, gap: Gap) -> None:
    if missing := gap.missing:
        await connection.execute(
            COVERAGE["add_gaps"],
            list(missing),
            [span.position for span in missing.values()],
            [span.start for span in missing.values()],
            clock.now_ms(),
        )


async def relocate(pool: Pool, log: EventLog, gap: Gap) -> None:
    """Move the view to where the log can continue it, and record what it lacks. Only for
    `fairlead repair`.

    The log must reach at least to the view's positions: see `log.end_advance`.
    """
    positions: Mapping[int, int] = {n: span.start for n, span in gap.missing.items()}
    reports_end = await log.end_positions(REPORTS)
    async with pool.acquire() as connection, connection.transaction():
        await _add_gaps(connection, gap)
        await connection.execute(COVERAGE["relocate_source"], await log.identity())
        await connection.execute(COVERAGE["relocate"], list(positions), list(positions.values()))
        for partition, end in reports_end.items():
            await connection.execute(COVERAGE["delete_shares_progress"], partition, end)


async def find_scheduler_gap(pool: Pool, log: EventLog) -> Gap | None:
    """Why the log cannot continue the scheduler's checkpoint, if it cannot. None if the checkpoint
    is not in this database."""
    if not await pool.fetchval(COVERAGE["has_scheduler"]):
        return None
    row = await pool.fetchrow(COVERAGE["scheduler_progress"])
    saved = None if row is None else (row["log_id"], dict(enumerate(row["positions"])))
    state = await log_coverage.read_log_state(log, JOBS)
    return log_coverage.compare(SCHEDULER_VIEW, saved, state)


async def read_positions(connection: Connection, partitions: Iterable[int]) -> dict[int, int]:
    """The positions that the view reads next in these partitions."""
    rows = await connection.fetch(FOLD["positions_of"], sorted(partitions))
    return {row["partition"]: row["position"] for row in rows}


async def close_gaps(pool: Pool) -> None:
    """Record that the view lacks nothing any more."""
    await pool.execute(COVERAGE["close_gaps"], clock.now_ms())
