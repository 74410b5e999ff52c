"""Submission of jobs: from a body to events in the log, and the response."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_common.domain import position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import ArrayId
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.log.protocol import EventLog
from fairlead_common.log.topics import JOBS
from fairlead_common.service import clock
from fairlead_submit.domain import secret_variables
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.feasibility import job_feasibility
from fairlead_submit.domain.feasibility.job_feasibility import JobKind
from fairlead_submit.domain.jobs.job_line_decoding import JobLineDecoder
from fairlead_submit.domain.jobs.job_templates import JobTemplates
from fairlead_submit.domain.jobs.submission import (
    STEP_JOBS,
    IdSource,
    PreparedSubmission,
    SubmissionPreparation,
    prepare_submission,
)
from fairlead_submit.domain.recent_ids import IdConflict
from fairlead_submit.domain.request_types import Submission
from fairlead_submit.domain.secret_variables import QueueSecrets
from fairlead_submit.service import metrics
from fairlead_submit.service.cluster_view import ClusterView
from fairlead_submit.service.fair_validation import LARGE_BYTES, FairValidation
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.service.writers.job_writer import JobWriter
from fairlead_submit.store.configuration_store import QueueStore
from fairlead_submit.store.job_views import JobViews
from fairlead_submit.store.secret_store import SecretStore

_NOT_A_JOB: Final = 'is not a job of this job set (an array is written as {"array": "name"})'


class SubmittedJob(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """One job of the response. `duplicate`: it existed already, and no job was created.

    `tasks`: of an array, how many it has. A dry run reports whether it could ever run: `feasible`,
    null if that is unknown, and `why`.
    """

    id: str
    client_id: str | None
    duplicate: bool
    tasks: int | UnsetType = UNSET
    feasible: bool | UnsetType | None = UNSET
    why: str | UnsetType | None = UNSET


class SubmissionResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The response to a submission: the jobs in the given order. A dry run has no position."""

    position: str | None
    jobs: list[SubmittedJob]


class SubmissionService:
    """Submits the jobs of a request, all or none."""

    def __init__(
        self,
        settings: SubmitSettings,
        log: EventLog,
        writer: JobWriter,
        queues: QueueStore,
        job_views: JobViews,
        cluster_view: ClusterView,
        validation: FairValidation,
        queue_secrets: SecretStore,
    ) -> None:
        self.limits: Final = settings.limits
        self._log = log
        self._writer = writer
        self._queues = queues
        self._job_views = job_views
        self._cluster_view = cluster_view
        self._secrets = queue_secrets
        self._classes = {item.name: item for item in settings.priority_classes}
        self._validation = validation
        self._templates = JobTemplates(settings.job_policy)
        self._submission = Decoder(Submission)

    async def submit(
        self, body: bytes, context: RequestContext, *, dry_run: bool = False
    ) -> SubmissionResponse:
        """Submit all jobs of a body, or none. Raises a `Problem` or `WorldError`."""
        request, found = await self._validation.decode(self._submission, body)
        may_have_secrets = secret_variables.may_have_secrets(body)
        return await self._submit(request, found, may_have_secrets, context, dry_run=dry_run)

    async def find_errors(self, body: bytes) -> list[FieldError]:
        """What is wrong with a body, without a look at its queue. Raises a `Problem`."""
        request, found = await self._validation.decode(self._submission, body)
        _, found = await self._prepare(request, found, IdSource(0, 0), None)
        return found

    async def submit_lines(
        self,
        pieces: AsyncIterator[bytes],
        queue: str | None,
        job_set: str | None,
        context: RequestContext,
        *,
        dry_run: bool = False,
    ) -> SubmissionResponse:
        """As `submit`, for a body with one job per line; errors are located by line."""
        lines = JobLineDecoder(self.limits.jobs_max)
        try:
            async for piece in pieces:
                lines.feed(piece)
            if lines.invalid_bytes > LARGE_BYTES:
                request, found = await self._validation.run(lambda: lines.finish(queue, job_set))
            else:
                request, found = lines.finish(queue, job_set)
            may_have_secrets = lines.may_have_secrets
            return await self._submit(request, found, may_have_secrets, context, dry_run=dry_run)
        except Problem as problem:
            problem.field_errors = lines.locate(problem.field_errors)
            raise

    async def _submit(
        self,
        request: Submission,
        found: list[FieldError],
        may_have_secrets: bool,
        context: RequestContext,
        *,
        dry_run: bool,
    ) -> SubmissionResponse:
        queue = await self._find_queue(request.queue, context, found)
        source = IdSource(clock.now_ms(), secrets.randbits(79))
        queue_secrets = secret_variables.NO_SECRETS if may_have_secrets else None
        if queue is not None and may_have_secrets:
            require_verb(context.caller, Verb.SUBMIT, queue)  # before errors name secrets
            queue_secrets = await self._secrets.get_queue_secrets(queue.name)
        prepared, found = await self._prepare(request, found, source, queue_secrets)
        if found:
            raise validation_problem(found)
        assert queue is not None
        require_verb(context.caller, Verb.SUBMIT, queue)
        duplicates = await self._find_duplicates(prepared)
        await self._check_outside(prepared)
        new_jobs = [job for job in prepared.jobs if job.job_id not in duplicates]
        if dry_run:
            await self._writer.quotas.check(prepared.queue, _count_tasks(prepared, new_jobs), 0)
            return SubmissionResponse(None, await self._make_dry_run(prepared, queue, duplicates))
        try:
            appended = await self._append(prepared, new_jobs, context)
        except IdConflict as error:
            raise _make_conflict(prepared, error.digests) from None
        position = position_tokens.encode(
            position_tokens.merge(appended, self._job_views.positions_of(duplicates))
        )
        metrics.JOBS.inc(_count_tasks(prepared, new_jobs))
        metrics.DUPLICATES.inc(len(duplicates))
        return SubmissionResponse(
            position,
            [
                SubmittedJob(
                    job.job_id,
                    job.client_id,
                    job.job_id in duplicates,
                    prepared.count_tasks(job.job_id) if job.job_id in prepared.arrays else UNSET,
                )
                for job in prepared.jobs
            ],
        )

    async def _prepare(
        self,
        request: Submission,
        found: list[FieldError],
        source: IdSource,
        queue_secrets: QueueSecrets | None,
    ) -> tuple[PreparedSubmission, list[FieldError]]:
        jobs = len(request.jobs or ())
        if jobs <= STEP_JOBS:
            return prepare_submission(
                request, found, self._templates, self.limits, source, queue_secrets
            )
        preparation = SubmissionPreparation(
            request, found, self._templates, self.limits, queue_secrets
        )
        await self._validation.run_steps(preparation.make_templates(), jobs)
        return preparation.finish(source)

    async def _make_dry_run(
        self, prepared: PreparedSubmission, queue: Queue, duplicates: Mapping[str, str]
    ) -> list[SubmittedJob]:
        """The jobs of the response to a dry run."""
        snapshot = await self._cluster_view.read()
        kinds = [_make_kind(job) for job in prepared.jobs]
        nodes = list(snapshot.nodes.values())
        verdicts = await self._validation.run(
            lambda: job_feasibility.check_feasibility(kinds, nodes, queue, self._classes)
        )
        return [
            SubmittedJob(
                job.job_id,
                job.client_id,
                job.job_id in duplicates,
                prepared.count_tasks(job.job_id) if job.job_id in prepared.arrays else UNSET,
                feasible=verdicts[kind].feasible,
                why=verdicts[kind].why,
            )
            for job, kind in zip(prepared.jobs, kinds, strict=True)
        ]

    async def _append(
        self,
        prepared: PreparedSubmission,
        jobs: Sequence[events.JobSubmitted],
        context: RequestContext,
    ) -> dict[int, int]:
        if not jobs:
            return {}
        records = events.records(
            prepared.queue,
            prepared.job_set,
            context.caller.name,
            prepared.make_events(jobs),
            request=context.request,
            traceparent=context.traceparent,
            partition=prepared.partition,
        )
        return await self._writer.append(
            prepared.queue,
            records,
            events=len(jobs),
            jobs=_count_tasks(prepared, jobs),
            digests={job.job_id: job.digest for job in jobs if job.client_id is not None},
        )

    async def _find_queue(
        self, name: str | None, context: RequestContext, found: list[FieldError]
    ) -> Queue | None:
        queue = await self._queues.get_visible(name, context.caller)
        if queue is None and name is not None:
            found.append(FieldError("/queue", f"{validation.quote(name)} does not exist"))
        return queue

    async def _find_duplicates(self, prepared: PreparedSubmission) -> dict[str, str]:
        """The digests of jobs that exist already. Raises a 409 if one is a different job."""
        ids = [job.job_id for job in prepared.jobs if job.client_id is not None]
        known = await self._job_views.find_digests(prepared.queue, prepared.job_set, ids)
        if prepared.arrays:
            known |= await self._job_views.find_array_digests(list(prepared.arrays))
        if not known:
            return known
        if any(known.get(job.job_id) not in (None, "", job.digest) for job in prepared.jobs):
            raise _make_conflict(prepared, known)
        return known

    async def _check_outside(self, prepared: PreparedSubmission) -> None:
        """Check that what is waited for outside this request exists, as far as is known."""
        if prepared.arrays_outside:
            await self._check_arrays(prepared.arrays_outside)
        if not prepared.outside:
            return
        ids = list(prepared.outside)
        digests = await self._job_views.find_digests(prepared.queue, prepared.job_set, ids)
        missing = [job_id for job_id in ids if job_id not in digests]
        if not missing:
            return
        end = (await self._log.end_positions(JOBS))[prepared.partition]
        found, is_certain = await self._job_views.wait_for_jobs(missing, {prepared.partition: end})
        if is_certain and len(found) < len(missing):
            raise validation_problem(
                [
                    FieldError(prepared.outside[job_id], _NOT_A_JOB)
                    for job_id in missing
                    if job_id not in found
                ]
            )

    async def _check_arrays(self, pointers: Mapping[ArrayId, str]) -> None:
        """Check that these arrays exist, as far as is known."""
        missing = set(pointers) - (await self._job_views.find_array_digests([*pointers])).keys()
        if missing and await self._job_views.wait_until_current():
            missing -= (await self._job_views.find_array_digests([*missing])).keys()
            if missing:
                detail = "does not exist as an array in this job set"
                raise validation_problem([FieldError(pointers[each], detail) for each in missing])


def _make_conflict(prepared: PreparedSubmission, known: Mapping[str, str]) -> Problem:
    """The 409 for jobs whose ids belong to jobs with these digests."""
    conflicts = [
        FieldError(
            f"/jobs/{index}/clientId",
            f"{validation.quote(job.client_id)} names job {job.job_id}, which has a"
            " different spec; use another clientId",
        )
        for index, job in enumerate(prepared.jobs)
        if known.get(job.job_id) not in (None, "", job.digest)
    ]
    detail = "A clientId is used by a different job. Nothing was changed."
    return Problem("conflict", detail, conflicts)


def _count_tasks(prepared: PreparedSubmission, jobs: Sequence[events.JobSubmitted]) -> int:
    """How many jobs these count as."""
    if not prepared.arrays:
        return len(jobs)
    return sum(prepared.count_tasks(job.job_id) for job in jobs)


def _make_kind(job: events.JobSubmitted) -> JobKind:
    """What decides where the job is able to run."""
    gang = job.gang
    return JobKind(
        bytes(job.shape),
        job.priority_class,
        job.pool,
        members=1 if gang is None else gang.min_size or gang.size,
        uniformity_label=None if gang is None else gang.uniformity_label,
    )
