"""Submitting jobs: any number of them, safe to repeat."""

from collections.abc import Callable, Iterable

from fairlead import errors
from fairlead.asynchronous.client_connection import AsyncConnection
from fairlead.calls import submission_batches
from fairlead.calls.submission_batches import AnyJob
from fairlead.models.job_models import Checked, CheckedJob, Submitted, SubmittedJob


class SubmissionMethods(AsyncConnection):
    """The methods that submit jobs."""

    async def submit(
        self,
        queue: str,
        job_set: str,
        jobs: Iterable[AnyJob],
        *,
        defaults: AnyJob | None = None,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> Submitted:
        """Submit any number of jobs; `defaults` holds the fields that all of them share.

        Long lists are sent in several requests; `on_progress` is called after each with the number
        of jobs accepted so far. Jobs without a client id get one, so that repeating a request
        creates no job twice. If a request is refused, `Refused.accepted` has the jobs of the
        earlier requests.
        """
        name = f"c{self._transport.random_bits():016x}"
        accepted: list[SubmittedJob] = []
        position = ""
        for batch in submission_batches.cut(jobs, name):
            request = submission_batches.submission(queue, job_set, defaults, batch)
            try:
                answer = await self._ask(request, Submitted)
            except errors.Refused as refused:
                raise submission_batches.refusal_of(refused, batch, accepted) from None
            accepted += answer.jobs
            if not all(job.duplicate for job in answer.jobs):
                position = answer.position
                self._writes.record(queue, job_set, position)
            elif not position:  # duplicates are not written to the log
                position = answer.position
            on_progress(len(accepted))
        return Submitted(position=position, jobs=tuple(accepted))

    async def check(
        self,
        queue: str,
        job_set: str,
        jobs: Iterable[AnyJob],
        *,
        defaults: AnyJob | None = None,
    ) -> Checked:
        """Let the server validate jobs, and check whether each could ever run, without creating
        them.

        Raises `Invalid` with all field errors of the first request that has one.
        """
        checked: list[CheckedJob] = []
        for batch in submission_batches.cut(jobs, "dry-run"):
            request = submission_batches.submission(queue, job_set, defaults, batch, dry_run=True)
            try:
                checked += (await self._ask(request, Checked)).jobs
            except errors.Refused as refused:
                raise submission_batches.refusal_of(refused, batch) from None
        return Checked(jobs=tuple(checked))
