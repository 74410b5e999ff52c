"""What the log says, folded afresh, beside what the views in Postgres say."""

from collections.abc import AsyncIterator, Mapping

import asyncpg
import numpy as np

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.story import Story
from fairlead_common.log import Entry, caught_up
from fairlead_common.log.opening import open_log
from fairlead_common.log.topics import JOBS
from fairlead_scheduler.state.checkpoint import checkpoint_rows
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.job_table import JOB_STATES
from fairlead_scheduler.state.view import View


async def logged(log_url: str) -> AsyncIterator[list[Entry]]:
    """All records of `fairlead.jobs`, batch by batch."""
    log = await open_log(log_url)
    try:
        end = await log.end_positions(JOBS)
        reader = await log.reader(JOBS, await log.start_positions(JOBS))
        positions: dict[int, int] = {}
        while not caught_up(positions, end):
            batch = await reader.read()
            yield batch.entries
            positions = batch.positions
    finally:
        await log.close()


async def replayed(log_url: str) -> dict[str, str]:
    """job -> state after a fold of the whole log."""
    view = View()
    async for entries in logged(log_url):
        job_fold.fold_messages(view, job_fold.decode_batch(entries), {})
    states: dict[str, str] = {i: ended.state.value for i, ended in view.ended.items()}
    for job_id, row in view.jobs.rows.items():
        states.setdefault(job_id, JOB_STATES[int(view.jobs.state[row])].value)
    return states


async def shown_by_lookout(database_url: str) -> dict[str, str]:
    """job -> state in lookout's view."""
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch("SELECT id, state FROM fairlead_lookout.jobs")
    finally:
        await connection.close()
    return {row["id"]: row["state"] for row in rows}


async def saved_by_scheduler(database_url: str) -> dict[str, str]:
    """job -> state in the scheduler's checkpoint, live and ended."""
    connection = await asyncpg.connect(database_url)
    try:
        ended = await connection.fetch("SELECT job_id, state FROM fairlead_scheduler.ended")
        live = await connection.fetch("SELECT job_id, record FROM fairlead_scheduler.jobs")
    finally:
        await connection.close()
    packed = np.frombuffer(b"".join(row["record"] for row in live), checkpoint_rows.RECORD)
    states = {
        row["job_id"]: JOB_STATES[code].value
        for row, code in zip(live, packed["state"].tolist(), strict=True)
    }
    return states | {row["job_id"]: row["state"] for row in ended}


async def unexplained(log_url: str, repeated: Mapping[str, int]) -> dict[str, list[str]]:
    """The stories of the repeated jobs (job -> runs that ended) whose log does not explain them.

    Each run but the last has to have ended otherwise than by success.
    """
    stories = {JobId(job_id): Story(JobId(job_id)) for job_id in repeated}
    async for entries in logged(log_url):
        for entry in entries:
            sequence = ev.decode(entry.value or b"")
            for job_id in {e.job_id for e in sequence.events if isinstance(e, ev.JobEvent)}:
                if job_id in stories:
                    stories[job_id].fold(entry.time_ms, sequence)
    found: dict[str, list[str]] = {}
    for repeated_id, count in repeated.items():
        story = stories[JobId(repeated_id)].entries
        ends = sum(entry.event in ("jobRunLost", "jobRunFailed") for entry in story)
        if ends < count - 1:
            found[repeated_id] = [entry.line() for entry in story]
    return found
