"""Taking jobs: from a body to events in the log, and the answer.

This is where the pure parts meet Postgres and the log; HTTP begins in `api`.
"""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_common.domain import position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.log.protocol import EventLog
from fairlead_common.log.topics import JOBS
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk, Space
from fairlead_submit.domain import feasibility as feasible
from fairlead_submit.domain import secret_variables, validation
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.decoding import Decoder, invalid
from fairlead_submit.domain.feasibility import Kind
from fairlead_submit.domain.job_templates import Templates
from fairlead_submit.domain.ndjson import Lines
from fairlead_submit.domain.request_types import Submission
from fairlead_submit.domain.secret_variables import QueueSecrets
from fairlead_submit.domain.submission import Place, Prepared, prepare
from fairlead_submit.service import metrics
from fairlead_submit.service.cluster_view import Fleet
from fairlead_submit.service.log_writer import Writer
from fairlead_submit.service.quotas import QuotaKeeper
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.service.validation_thread import LARGE_BYTES, Validator
from fairlead_submit.store.configuration_store import Queues
from fairlead_submit.store.job_views import Known
from fairlead_submit.store.secret_store import Secrets


class SubmittedJob(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """One job of an answer. `duplicate`: it was known already, and nothing was created.

    A dry run says whether it could ever run: `feasible` null where nobody can tell, and `why`.
    """

    id: str
    client_id: str | None
    duplicate: bool
    feasible: bool | UnsetType | None = UNSET
    why: str | UnsetType | None = UNSET


class Submitted(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to a submission: the jobs in the order given. A dry run has no position."""

    position: str | None
    jobs: list[SubmittedJob]


class Intake:
    """What the routes call."""

    def __init__(
        self,
        settings: SubmitSettings,
        log: EventLog,
        writer: Writer,
        queues: Queues,
        known: Known,
        fleet: Fleet,
        disk: Disk,
        validator: Validator,
        quotas: QuotaKeeper,
        queue_secrets: Secrets,
    ) -> None:
        self._quotas = quotas
        self.limits: Final = settings.limits
        self._log = log
        self._writer = writer
        self._queues = queues
        self._known = known
        self._fleet = fleet
        self._disk = disk
        self._secrets = queue_secrets
        self._classes = {item.name: item for item in settings.priority_classes}
        self._validator = validator
        self._templates = Templates(settings.job_policy)
        self._large_templates = Templates(settings.job_policy)
        self._submission = Decoder(Submission)

    async def submit(
        self, body: bytes, context: RequestContext, *, dry_run: bool = False
    ) -> Submitted:
        """Take all jobs of a body, or none. Raises a `Problem` or `WorldError`."""
        request, found = await self._validator.decode(self._submission, body)
        return await self._take(request, found, context, dry_run=dry_run)

    async def submit_lines(
        self,
        pieces: AsyncIterator[bytes],
        queue: str | None,
        job_set: str | None,
        context: RequestContext,
        *,
        dry_run: bool = False,
    ) -> Submitted:
        """As `submit`, for a body with one job a line; faults are placed by line."""
        lines = Lines(self.limits.jobs_max)
        try:
            async for piece in pieces:
                lines.feed(piece)
            if lines.odd_bytes > LARGE_BYTES:
                request, found = await self._validator.run(lambda: lines.submission(queue, job_set))
            else:
                request, found = lines.submission(queue, job_set)
            return await self._take(request, found, context, dry_run=dry_run)
        except Problem as problem:
            problem.field_errors = lines.placed(problem.field_errors)
            raise

    async def _take(
        self,
        request: Submission,
        found: list[FieldError],
        context: RequestContext,
        *,
        dry_run: bool,
    ) -> Submitted:
        queue = await self._queue(request.queue, context, found)
        place = Place(clock.now_ms(), secrets.randbits(79))
        sealing = secret_variables.NONE
        jobs = [*(request.jobs or ()), *([request.defaults] if request.defaults else ())]
        if queue is not None and secret_variables.refers(jobs):
            require_verb(context.caller, Verb.SUBMIT, queue)  # before names of secrets show
            sealing = await self._secrets.of(queue.name)
        prepared, found = await self._prepare(request, found, place, sealing)
        if found:
            raise invalid(found)
        assert queue is not None
        require_verb(context.caller, Verb.SUBMIT, queue)
        duplicates = await self._duplicates(prepared)
        await self._check_outside(prepared)
        fresh = [job for job in prepared.jobs if job.job_id not in duplicates]
        if dry_run:
            await self._quotas.check(prepared.queue, len(fresh), 0)
            return Submitted(None, await self._tried(prepared, queue, duplicates))
        position = position_tokens.encode(await self._append(prepared, fresh, context))
        metrics.JOBS.inc(len(fresh))
        metrics.DUPLICATES.inc(len(duplicates))
        return Submitted(
            position,
            [
                SubmittedJob(job.job_id, job.client_id, job.job_id in duplicates)
                for job in prepared.jobs
            ],
        )

    async def _prepare(
        self, request: Submission, found: list[FieldError], place: Place, sealing: QueueSecrets
    ) -> tuple[Prepared, list[FieldError]]:
        if not self._validator.is_large(request.jobs):
            return prepare(request, found, self._templates, self.limits, place, sealing)
        # Templates are not safe to use from two threads: the validator's has its own.
        templates = self._large_templates
        return await self._validator.run(
            lambda: prepare(request, found, templates, self.limits, place, sealing)
        )

    async def _tried(
        self, prepared: Prepared, queue: Queue, duplicates: Mapping[str, str]
    ) -> list[SubmittedJob]:
        """What a dry run says of each job."""
        seen = await self._fleet.now()
        kinds = [_kind(job) for job in prepared.jobs]
        nodes = list(seen.nodes.values())
        said = await self._validator.run(
            lambda: feasible.verdicts(kinds, nodes, queue, self._classes)
        )
        return [
            SubmittedJob(
                job.job_id,
                job.client_id,
                job.job_id in duplicates,
                feasible=said[kind].feasible,
                why=said[kind].why,
            )
            for job, kind in zip(prepared.jobs, kinds, strict=True)
        ]

    async def _append(
        self, prepared: Prepared, jobs: Sequence[events.JobSubmitted], context: RequestContext
    ) -> dict[int, int]:
        if not jobs:
            return {}
        self._disk.check(Space.LOW)
        records = events.records(
            prepared.queue,
            prepared.job_set,
            context.caller.name,
            jobs,
            request=context.request,
            traceparent=context.traceparent,
            partition=prepared.partition,
        )
        size = sum(len(record.value or b"") for record in records)
        async with self._quotas.reserve(prepared.queue, len(jobs), size) as reserved:
            appended = await self._writer.append(records)
            reserved.appended(appended)
        return appended

    async def _queue(
        self, name: str | None, context: RequestContext, found: list[FieldError]
    ) -> Queue | None:
        queue = await self._queues.seen(name, context.caller)
        if queue is None and name is not None:
            found.append(FieldError("/queue", f"{validation.shown(name)} is no queue"))
        return queue

    async def _duplicates(self, prepared: Prepared) -> dict[str, str]:
        """The digests of jobs that are known already. Raises a 409 if one was another job."""
        ids = [job.job_id for job in prepared.jobs if job.client_id is not None]
        known = await self._known.digests(ids)
        if not known:
            return known
        conflicts = [
            FieldError(
                f"/jobs/{index}/clientId",
                f"{validation.shown(job.client_id)} names job {job.job_id}, which was submitted"
                " with another spec",
            )
            for index, job in enumerate(prepared.jobs)
            if job.job_id in known and known[job.job_id] not in ("", job.digest)
        ]
        if conflicts:
            raise Problem(
                "conflict", "A clientId is taken by another job; nothing was done.", conflicts
            )
        return known

    async def _check_outside(self, prepared: Prepared) -> None:
        """Jobs that others wait for and that are not of this request exist, as far as is known."""
        if not prepared.outside:
            return
        ids = list(prepared.outside)
        digests = await self._known.digests(ids)
        missing = [job_id for job_id in ids if job_id not in digests]
        if not missing:
            return
        end = (await self._log.end_positions(JOBS))[prepared.partition]
        known, certain = await self._known.settled(missing, {prepared.partition: end})
        if certain and len(known) < len(missing):
            raise invalid(
                [
                    FieldError(prepared.outside[job_id], "names no job of this job set")
                    for job_id in missing
                    if job_id not in known
                ]
            )


def _kind(job: events.JobSubmitted) -> Kind:
    """What decides where the job may run."""
    gang = job.gang
    return Kind(
        bytes(job.shape),
        job.priority_class,
        job.pool,
        members=1 if gang is None else gang.min_size or gang.size,
        uniformity_label=None if gang is None else gang.uniformity_label,
    )
