# Generated from fairlead/asynchronous/submission_methods.py (`make client`).
"""The methods that submit jobs. Repeating a submission creates no job twice."""

from collections.abc import Callable, Iterable, Mapping

from fairlead import errors
from fairlead.blocking.client_connection import Connection
from fairlead.calls import request_building, submission_batches
from fairlead.calls.submission_batches import AnyJob
from fairlead.models.job_models import JobValidation, SubmitResult, SubmittedJob, ValidationResult
from fairlead.models.manifest_models import ManifestConversion, ManifestResult, Manifests


class SubmissionMethods(Connection):
    """The methods that submit jobs."""

    def submit(
        self,
        queue: str,
        job_set: str,
        jobs: Iterable[AnyJob],
        *,
        defaults: AnyJob | None = None,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> SubmitResult:
        """Submit any number of jobs; `defaults` holds the fields that all of them share.

        Long lists are sent in several requests; `on_progress` is called after each with the number
        of jobs accepted so far. Jobs without a client id get one, so that repeating a request
        creates no job twice. If a request is refused, `RequestRefused.accepted` has the jobs of the
        earlier requests.
        """
        name = f"c{self._transport.random_bits():016x}"
        accepted: list[SubmittedJob] = []
        position = ""
        for batch in submission_batches.split_jobs(jobs, name):
            request = submission_batches.build_submission(queue, job_set, defaults, batch)
            try:
                answer = self._request(request, SubmitResult)
            except errors.RequestRefused as refused:
                raise submission_batches.relocate_refusal(refused, batch, accepted) from None
            accepted += answer.jobs
            if not all(job.duplicate for job in answer.jobs):
                position = answer.position
                self._positions.record(queue, job_set, position)
            elif not position:  # duplicates are not written to the log
                position = answer.position
            on_progress(len(accepted))
        return SubmitResult(position=position, jobs=tuple(accepted))

    def check(
        self,
        queue: str,
        job_set: str,
        jobs: Iterable[AnyJob],
        *,
        defaults: AnyJob | None = None,
    ) -> ValidationResult:
        """Validate jobs on the server, and check whether each could ever run, without creating
        them.

        Raises `Invalid` with all field errors of the first request that has one.
        """
        checked: list[JobValidation] = []
        for batch in submission_batches.split_for_check(jobs):
            request = submission_batches.build_submission(
                queue, job_set, defaults, batch, dry_run=True
            )
            try:
                checked += (self._request(request, ValidationResult)).jobs
            except errors.RequestRefused as refused:
                raise submission_batches.relocate_refusal(refused, batch) from None
        return ValidationResult(jobs=tuple(checked))

    def submit_manifests(
        self,
        manifests: Iterable[Mapping[str, object]],
        *,
        queue: str | None = None,
        job_set: str | None = None,
        dry_run: bool = False,
    ) -> ManifestResult:
        """Submit manifests of Kubernetes as jobs, all or none.

        Queue and job set are taken from labels and names of the manifests unless they are given.
        """
        body = Manifests(manifests=tuple(manifests), queue=queue, job_set=job_set)
        query = request_building.make_dry_run_query(dry_run)
        request = request_building.build_post("/manifests", body, query=query)
        done = self._request(request, ManifestResult)
        if done.position is not None:
            self._positions.record(done.queue, done.job_set, done.position)
        return done

    def convert_manifests(
        self,
        manifests: Iterable[Mapping[str, object]],
        *,
        queue: str | None = None,
        job_set: str | None = None,
    ) -> ManifestConversion:
        """The jobs that manifests of Kubernetes become; nothing is created."""
        body = Manifests(manifests=tuple(manifests), queue=queue, job_set=job_set)
        request = request_building.build_post("/manifests/convert", body)
        return self._request(request, ManifestConversion)
