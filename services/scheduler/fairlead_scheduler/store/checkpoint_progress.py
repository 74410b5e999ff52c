"""Where the checkpoint stands in the log: whether the log can continue it, and moving it there."""

from collections.abc import Mapping
from typing import Final

from fairlead_common.db import Pool
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.log import EventLog, coverage
from fairlead_common.log.coverage import Gap, ViewUnusable
from fairlead_common.log.topics import JOB_PARTITIONS, JOBS
from fairlead_scheduler.store import checkpoint
from fairlead_scheduler.store.checkpoint import SQL

VIEW: Final = "scheduler's checkpoint"


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
        await checkpoint.begin(pool, log_id, positions, JOB_PARTITIONS)
        return
    after = [positions.get(partition, 0) for partition in range(JOB_PARTITIONS)]
    known = [before[1].get(partition, 0) for partition in range(JOB_PARTITIONS)]
    moved = await pool.execute(SQL["relocate_view"], known, log_id, after)
    if moved != "UPDATE 1":
        raise ViewConflict("a scheduler moved its checkpoint during the repair: stop it first")
