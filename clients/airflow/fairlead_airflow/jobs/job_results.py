"""Waiting for jobs, and what is reported of ended ones: their states and the ends of their logs."""

import functools
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any, Final

from fairlead import ArrayView, AsyncClient, Filter, Job, JobView, SubmittedJob, errors
from fairlead.models.job_models import SUCCEEDED, JobFields
from fairlead_airflow.jobs import function_jobs
from fairlead_airflow.jobs.shared_events import JobSetEvents, outlast_outages

DETAILS_MAX: Final = 20
"""Above this number of jobs their states are read as a list."""
LOGGED_JOBS_MAX: Final = 20
LogKey = tuple[str, int]
"""(id of the job, number of the run)."""
LOG_BYTES_MAX: Final = 1_000_000
LINE_CHARACTERS_MAX: Final = 10_000
CANCELLED: Final = "CANCELLED"
STOPPING_CANCEL: Final = "cancel"
RESULT_LINES: Final = 100
"""A result is among the last lines: programs print little when they end."""


async def wait_for_jobs(
    events: JobSetEvents, where: Filter, ids: Sequence[str], arrays: Collection[str] = ()
) -> list[JobFields]:
    """Wait until these jobs have ended; returns them in order. `arrays`: which ids are arrays."""
    seen = dict.fromkeys(ids, 0)
    ended: dict[str, JobFields] = {}
    while open_ids := [job_id for job_id in ids if job_id not in ended]:
        for job_id in open_ids:
            seen[job_id] = await events.wait_for_end(job_id, seen[job_id])
        async for job in _read_jobs(
            events, where, [each for each in open_ids if each not in arrays]
        ):
            if job.has_ended:
                ended[job.id] = job
        for array_id in set(open_ids).intersection(arrays):
            array = await outlast_outages(
                functools.partial(events.client.array, array_id, after=events.position)
            )
            if array.ended is not None:
                ended[array_id] = describe_array(array)
    return [ended[job_id] for job_id in ids]


async def _read_jobs(
    events: JobSetEvents, where: Filter, ids: Sequence[str]
) -> AsyncIterator[JobFields]:
    """These jobs, as they are after the last event."""
    client, after = events.client, events.position
    if len(ids) <= DETAILS_MAX:
        for job_id in ids:
            yield await outlast_outages(functools.partial(client.job, job_id, after=after))
        return

    async def read_all() -> list[JobView]:
        return [job async for job in client.iter_jobs(where, after=after)]

    wanted = set(ids)
    for job in await outlast_outages(read_all):
        if job.id in wanted:
            yield job


async def list_jobs(
    client: AsyncClient,
    where: Filter,
    jobs: Sequence[Job],
    *,
    q: str | None = None,
    after: str | None = None,
) -> list[JobFields]:
    """The jobs of the job set `where`, and its arrays if `jobs` has some. `q`: part of the names of
    the jobs; `after`: a position that the view has to have reached."""
    found: list[JobFields] = [job async for job in client.iter_jobs(where, q=q, after=after)]
    if has_array(jobs):
        arrays = client.arrays(queue=where.queue, job_set=where.job_set, after=after)
        found += [describe_array(array) async for array in arrays]
    return found


def read_states(jobs: Iterable[JobFields]) -> dict[str, str]:
    """The states of jobs by client id. A job that is being cancelled counts as cancelled: the next
    try of its task does not wait for it."""
    return {
        job.client_id or "": CANCELLED if job.stopping == STOPPING_CANCEL else job.state
        for job in jobs
    }


def summarize_job(job: JobFields) -> dict[str, Any]:
    """What the XCom of a task holds of a job, in JSON."""
    return {
        "id": job.id,
        "clientId": job.client_id,
        "state": job.state,
        "exitCode": job.exit_code,
    }


def find_arrays(jobs: Iterable[SubmittedJob]) -> list[str]:
    """The ids of the arrays among submitted jobs."""
    return [job.id for job in jobs if job.tasks is not None]


def has_array(jobs: Sequence[Job]) -> bool:
    """Whether one of these jobs is an array."""
    return any(job.array is not None for job in jobs)


def describe_array(array: ArrayView) -> JobFields:
    """The array as one job, which succeeds if all its tasks do; RUNNING until they have ended."""
    bad = array.tasks - array.states.get(SUCCEEDED, 0)
    reason = None
    if array.ended is None:
        state = "RUNNING"
    elif bad == 0:
        state = SUCCEEDED
    else:
        state, reason = "FAILED", f"{bad} of {array.tasks} tasks did not succeed"
        if array.reason:
            reason = f"{reason}: {array.reason}"
    return JobFields(
        id=array.id,
        queue=array.queue,
        job_set=array.job_set,
        state=state,
        client_id=array.client_id,
        ended=array.ended,
        reason=reason,
    )


def describe_failures(jobs: Sequence[JobFields]) -> str:
    """One sentence on the jobs that did not succeed; empty if all did."""
    bad = [job for job in jobs if job.state != SUCCEEDED]
    if not bad:
        return ""
    first = bad[0]
    reason = first.reason or first.message or ""
    return (
        f"{len(bad)} of {len(jobs)} jobs did not succeed; the first is {first.client_id}"
        f" ({first.id}): {first.state}{f', {reason}' if reason else ''}"
    )


async def write_logs(
    client: AsyncClient,
    jobs: Sequence[JobFields],
    lines_max: int,
    log: logging.Logger,
    written: Collection[LogKey] = (),
) -> None:
    """Write the last lines of the jobs' logs into `log`, those of failed jobs first. `written`:
    runs whose logs are there already."""
    if lines_max <= 0:
        return
    chosen = sorted(jobs, key=lambda job: job.state == SUCCEEDED)[:LOGGED_JOBS_MAX]
    for job in chosen:
        log.info("Job %s (%s) ended: %s", job.client_id, job.id, job.state)
        if job.run == 0 or (job.id, job.run) in written:
            continue
        for stream in ("stdout", "stderr"):
            try:
                lines = await _read_tail(client, job.id, stream, lines_max)
            except errors.FairleadError as error:
                log.warning("The %s of job %s cannot be read: %s", stream, job.id, error)
                continue
            for line in lines:
                if line and not line.startswith(function_jobs.RESULT_MARK):
                    log.info("[%s %s] %s", job.client_id, stream, line)
    if len(chosen) < len(jobs):
        log.info("The logs of %d other jobs are on the dashboard.", len(jobs) - len(chosen))


async def read_function_result(client: AsyncClient, job: JobFields) -> Any:
    """What the function of a job returned. Raises `NoResult`."""
    return function_jobs.read_result(
        await _read_tail(client, job.id, "stdout", RESULT_LINES, characters_max=None)
    )


async def _read_tail(
    client: AsyncClient,
    job_id: str,
    stream: str,
    lines_max: int,
    characters_max: int | None = LINE_CHARACTERS_MAX,
) -> list[str]:
    """The last lines of a log, in at most `LOG_BYTES_MAX`; longer lines are cut."""
    read = bytearray()
    chunks = client.logs(job_id, stream=stream, tail=lines_max)
    async for chunk in chunks:
        read += chunk
        del read[:-LOG_BYTES_MAX]
    text = bytes(read).decode(errors="replace")
    return [line[:characters_max] for line in text.split("\n")]
