"""The jobs of a mapped task: its instances submit them together, each of them waits for its own."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairlead import Filter, Job, SubmitResult, SubmittedJob
from fairlead_airflow.jobs import job_names, job_results
from fairlead_airflow.jobs.shared_events import JobSetEvents, outlast_outages

log: Final = logging.getLogger(__name__)


class LaterTry(NamedTuple):
    """A try after the first one. `job`: with the client id of the first try. `reported`: the client
    id of the job with which an earlier try succeeded, after which the task was cleared."""

    job: Job
    reported: str | None


class MappedJobs:
    """Submits the jobs of a mapped task. Each instance of the task has an object of its own. The
    objects of a process share `events`, by which one request submits the jobs of all of them.

    Raises `FairleadError` if the server refuses a request.
    """

    def __init__(
        self,
        events: JobSetEvents,
        queue: str,
        job_set: str,
        defaults: Mapping[str, Any] | None,
    ) -> None:
        self._events = events
        self._queue = queue
        self._job_set = job_set
        self._defaults = defaults

    async def submit_first_try(self, jobs: Sequence[Job], index: int) -> SubmittedJob:
        """The job of the instance with this index, in its first try. The first caller submits the
        jobs of all instances."""

        async def submit() -> SubmitResult:
            log.info("Submitting %d jobs to %s/%s", len(jobs), self._queue, self._job_set)
            return await self._submit(jobs)

        return (await self._events.run_once("submission", submit)).jobs[index]

    async def submit_later_try(self, later: LaterTry) -> SubmittedJob:
        """The job of the try before, or else a new one.

        When all instances of a task are cleared, their triggers start together: the states of their
        jobs are read once, and what has to run again is submitted at once.
        """
        return await self._events.run_together("tries", later, self._submit_later_tries)

    async def _submit_later_tries(self, tries: list[LaterTry]) -> list[SubmittedJob]:
        log.info("Reading the jobs of %s/%s for %d tries", self._queue, self._job_set, len(tries))
        found = await outlast_outages(
            lambda: job_results.list_jobs(
                self._events.client,
                Filter(queue=self._queue, job_set=self._job_set),
                [each.job for each in tries],
                after=self._events.position,
            )
        )
        states = job_results.read_states(found)
        jobs = [job_names.renew_reported_job(each.job, states, each.reported) for each in tries]
        return list((await self._submit(jobs)).jobs)

    async def _submit(self, jobs: Sequence[Job]) -> SubmitResult:
        return await outlast_outages(
            lambda: self._events.client.submit(
                self._queue, self._job_set, jobs, defaults=self._defaults
            )
        )
