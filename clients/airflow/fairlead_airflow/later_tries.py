"""Later tries of mapped task instances: the jobs for which they wait, with few requests for many.

When all instances of a task are cleared, their triggers start together. The states of their jobs
are read once, and what has to run again is submitted at once.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead import Filter, Job, SubmittedJob
from fairlead_airflow import job_names, job_results, shared_events
from fairlead_airflow.shared_events import JobSetEvents

log: Final = logging.getLogger(__name__)


class LaterTry(NamedTuple):
    """A try after the first one. `job`: with the client id of the first try. `reported`: the client
    id of the job with which an earlier try succeeded, after which the task was cleared."""

    job: Job
    reported: str | None


async def submit_tries(
    events: JobSetEvents,
    queue: str,
    job_set: str,
    defaults: Mapping[str, Any] | None,
    tries: list[LaterTry],
) -> list[SubmittedJob]:
    """The job of each try: that of the try before, or else a new one.

    Raises `FairleadError` if the server refuses a request.
    """
    log.info("Reading the jobs of %s/%s for %d tries", queue, job_set, len(tries))
    client = events.client
    where = Filter(queue=queue, job_set=job_set)

    async def read_states() -> dict[str, str]:
        found = [job async for job in client.iter_jobs(where, after=events.position)]
        return job_results.read_states(found)

    states = await shared_events.outlast_outages(read_states)
    jobs = [job_names.renew_reported_job(each.job, states, each.reported) for each in tries]

    async def submit() -> Sequence[SubmittedJob]:
        return (await client.submit(queue, job_set, jobs, defaults=defaults)).jobs

    return list(await shared_events.outlast_outages(submit))
