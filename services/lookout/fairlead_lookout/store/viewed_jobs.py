"""The jobs of the view, as `fairlead repair` compares them with what other services know."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fairlead_common.db import Pool
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState, RunState
from fairlead_common.domain.records import line_chunks
from fairlead_common.domain.records.events import FailureCategory, JobSubmitted
from fairlead_common.domain.repair_events import UNKNOWN_NODE, Knowledge
from fairlead_lookout.domain.transitions import LIVE
from fairlead_lookout.store.view_schema import COVERAGE

_decode: Final = msgspec.json.Decoder(JobSubmitted).decode


class ViewedJob(msgspec.Struct, frozen=True):
    """A job in the view. `submitted`: None if its specification is lost."""

    job_id: JobId
    queue: str
    job_set: str
    knowledge: Knowledge
    submitted: JobSubmitted | None


async def list_live_ids(pool: Pool, after: str, ids_max: int) -> list[JobId]:
    """The ids of live jobs after this one, in order."""
    rows = await pool.fetch(COVERAGE["list_live_ids"], sorted(LIVE), after, ids_max)
    return [JobId(row["job_id"]) for row in rows]


async def find_jobs(pool: Pool, ids: Iterable[JobId]) -> dict[JobId, ViewedJob]:
    """These jobs; those that the view does not have are left out."""
    rows = await pool.fetch(COVERAGE["find_jobs"], list(ids))
    lines = line_chunks.read_lines(rows)
    return {
        JobId(row["job_id"]): _decode_job(row, line) for row, line in zip(rows, lines, strict=True)
    }


async def find_known(pool: Pool, ids: Iterable[JobId]) -> set[JobId]:
    """Which of these ids are jobs, groups or arrays of the view."""
    return {JobId(row["id"]) for row in await pool.fetch(COVERAGE["find_known"], list(ids))}


async def find_array_results(pool: Pool, ids: Iterable[JobId]) -> dict[JobId, JobState]:
    """SUCCEEDED or FAILED for each of these arrays that has a result."""
    rows = await pool.fetch(COVERAGE["find_array_results"], list(ids))
    return {JobId(row["id"]): JobState(row["state"]) for row in rows}


def _decode_job(row: Any, line: bytes | None) -> ViewedJob:
    run_state = row["run_state"]
    knowledge = Knowledge(
        state=JobState(row["state"]),
        run=row["run"],
        run_state=None if run_state is None else RunState(run_state),
        executor=row["run_executor"] or UNKNOWN_NODE,
        node=row["run_node"] or UNKNOWN_NODE,
        pool=row["run_pool"] or row["pool"],
        priority=row["priority"],
        hold=row["held"],
        stopping=row["stopping"],
        category=_decode_category(row["category"]),
        reason=row["reason"] or row["stop_reason"] or Knowledge().reason,
        exit_code=row["exit_code"],
    )
    submitted = None if line is None else _decode(line)
    return ViewedJob(JobId(row["job_id"]), row["queue"], row["job_set"], knowledge, submitted)


def _decode_category(text: str | None) -> FailureCategory:
    """A rejected job has the code of its rejection as its category."""
    found = {str(each): each for each in FailureCategory}
    return found.get(text or "", FailureCategory.INTERNAL)
