"""Taking jobs and actions: from a body to events in the log, and the answer.

This is where the pure parts meet Postgres and the log; HTTP begins in `api`.
"""

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from fairlead_common import clock, events, positions
from fairlead_common.auth import Caller
from fairlead_common.configuration import Queue
from fairlead_common.errors import Fault
from fairlead_common.ids import JobId
from fairlead_common.lifecycle import JOB_ENDED
from fairlead_common.log.protocol import EventLog, Record
from fairlead_common.log.topics import JOBS
from fairlead_common.problems import Problem
from fairlead_submit import access, actions, faults, metrics
from fairlead_submit.decoding import Decoder, invalid
from fairlead_submit.known import Known, KnownJob
from fairlead_submit.queues import Queues
from fairlead_submit.requests import Action, Filter, Release, Reprioritization, Submission
from fairlead_submit.settings import SubmitSettings
from fairlead_submit.submission import Place, Prepared, prepare
from fairlead_submit.templates import Templates
from fairlead_submit.writer import Writer

ASIDE_BYTES: Final = 256 * 1024
"""A body with faults that is larger than this is looked through in a thread of its own."""

_ENDED: Final = frozenset(state.value for state in JOB_ENDED)
T = TypeVar("T", bound=msgspec.Struct)


class Asked(msgspec.Struct, frozen=True):
    """Who asks, and the request's id and trace."""

    caller: Caller
    request: str = ""
    traceparent: str = ""


class SubmittedJob(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One job of an answer. `duplicate`: it was known already, and nothing was created."""

    id: str
    client_id: str | None
    duplicate: bool


class Submitted(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to a submission: the jobs in the order given. A dry run has no position."""

    position: str | None
    jobs: list[SubmittedJob]


class Done(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to an action. `matched`: jobs concerned, as far as the view knows; else null."""

    position: str
    matched: int | None


class Intake:
    """What the routes call."""

    def __init__(
        self,
        settings: SubmitSettings,
        log: EventLog,
        writer: Writer,
        queues: Queues,
        known: Known,
    ) -> None:
        self.limits: Final = settings.limits
        self._log = log
        self._writer = writer
        self._queues = queues
        self._known = known
        self._templates = Templates(settings)
        self._submission = Decoder(Submission)
        self._action = Decoder(Action)
        self._reprioritization = Decoder(Reprioritization)
        self._release = Decoder(Release)

    async def submit(self, body: bytes, asked: Asked, *, dry_run: bool = False) -> Submitted:
        """Take all jobs of a body, or none. Raises a `Problem` or `WorldError`."""
        request, found = await _decoded(self._submission, body)
        queue = await self._queue(request.queue, "/queue", found)
        place = Place(clock.now_ms(), secrets.randbits(79))
        prepared, found = prepare(request, found, self._templates, self.limits, place)
        if found:
            raise invalid(found)
        assert queue is not None
        access.require_verb(asked.caller, queue, "submit")
        duplicates = await self._duplicates(prepared)
        await self._check_outside(prepared)
        fresh = [job for job in prepared.jobs if job.job_id not in duplicates]
        position: str | None = None
        if not dry_run:
            position = positions.encode(await self._append(prepared, fresh, asked))
            metrics.JOBS.inc(len(fresh))
            metrics.DUPLICATES.inc(len(duplicates))
        return Submitted(
            position,
            [
                SubmittedJob(job.job_id, job.client_id, job.job_id in duplicates)
                for job in prepared.jobs
            ],
        )

    async def _append(
        self, prepared: Prepared, jobs: Sequence[events.JobSubmitted], asked: Asked
    ) -> dict[int, int]:
        if not jobs:
            return {}
        return await self._writer.append(
            events.records(
                prepared.queue,
                prepared.job_set,
                asked.caller.name,
                jobs,
                request=asked.request,
                traceparent=asked.traceparent,
            )
        )

    async def _queue(self, name: str | None, pointer: str, found: list[Fault]) -> Queue | None:
        queue = None if name is None else await self._queues.find(name)
        if queue is None and name is not None:
            found.append(Fault(pointer, f"{faults.shown(name)} is no queue"))
        return queue

    async def _duplicates(self, prepared: Prepared) -> dict[str, KnownJob]:
        """The jobs that are known already. Raises a 409 if one of them was another job."""
        ids = [job.job_id for job in prepared.jobs if job.client_id is not None]
        known = await self._known.jobs(ids)
        if not known:
            return known
        conflicts = [
            Fault(
                f"/jobs/{index}/clientId",
                f"{faults.shown(job.client_id)} names job {job.job_id}, which was submitted"
                " with another spec",
            )
            for index, job in enumerate(prepared.jobs)
            if job.job_id in known and known[job.job_id].digest not in ("", job.digest)
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
        known = await self._known.jobs(ids)
        missing = [job_id for job_id in ids if job_id not in known]
        if not missing:
            return
        end = (await self._log.end_positions(JOBS))[prepared.partition]
        known, certain = await self._known.settled(missing, {prepared.partition: end})
        if certain and len(known) < len(missing):
            raise invalid(
                [
                    Fault(prepared.outside[job_id], "names no job of this job set")
                    for job_id in missing
                    if job_id not in known
                ]
            )

    async def cancel(self, body: bytes, asked: Asked) -> Done:
        """Ask for jobs to be gone."""
        request, found = await _decoded(self._action, body)
        reason = request.reason or ""
        return await self._act(
            (request.ids, request.filter),
            found,
            asked,
            "cancel",
            lambda job_id: events.JobCancelRequested(job_id=job_id, reason=reason),
            lambda chosen: events.JobsCancelRequested(filter=chosen, reason=reason),
        )

    async def preempt(self, body: bytes, asked: Asked) -> Done:
        """Ask for the runs of jobs to be stopped."""
        request, found = await _decoded(self._action, body)
        reason = request.reason or ""
        return await self._act(
            (request.ids, request.filter),
            found,
            asked,
            "preempt",
            lambda job_id: events.JobPreemptRequested(job_id=job_id, reason=reason),
            lambda chosen: events.JobsPreemptRequested(filter=chosen, reason=reason),
        )

    async def reprioritize(self, body: bytes, asked: Asked) -> Done:
        """Change the place of jobs within their queue."""
        request, found = await _decoded(self._reprioritization, body)
        if request.priority is None:
            found += faults.further([Fault("/priority", "is missing")], found)
        priority = request.priority or 0
        return await self._act(
            (request.ids, request.filter),
            found,
            asked,
            "reprioritize",
            lambda job_id: events.JobReprioritized(job_id=job_id, priority=priority),
            lambda chosen: events.JobsReprioritized(filter=chosen, priority=priority),
        )

    async def release(self, body: bytes, asked: Asked) -> Done:
        """Lift the hold on jobs."""
        request, found = await _decoded(self._release, body)
        if request.ids is None:
            found += faults.further([Fault("/ids", "is missing")], found)
        else:
            found += faults.further(actions.check_ids(request.ids, self.limits.ids_max), found)
        if found:
            raise invalid(found)
        return await self._by_ids(
            request.ids or [], lambda job_id: events.JobReleased(job_id=job_id), asked
        )

    async def _act(
        self,
        target: tuple[list[str] | None, Filter | None],
        known: list[Fault],
        asked: Asked,
        verb: str,
        for_job: actions.ForJob,
        for_filter: actions.ForFilter,
    ) -> Done:
        ids, chosen = target
        found: list[Fault] = []
        queue: Queue | None = None
        match ids, chosen:
            case (None, None) | (list(), Filter()):
                found.append(Fault("", "names either `ids` or a `filter`"))
            case (list(), None):
                found += actions.check_ids(ids, self.limits.ids_max)
            case (None, Filter()):
                found += actions.check_filter(chosen)
                if not found:
                    queue = await self._queue(chosen.queue, "/filter/queue", found)
        found = [*known, *faults.further(found, known)]
        if found:
            raise invalid(found)
        if ids is not None:
            return await self._by_ids(ids, for_job, asked)
        assert chosen is not None
        assert queue is not None
        access.require_verb(asked.caller, queue, verb)
        records = actions.for_filter(chosen, for_filter, asked.caller.name, asked.request)
        return Done(positions.encode(await self._writer.append(records)), None)

    async def _by_ids(self, given: Sequence[str], for_job: actions.ForJob, asked: Asked) -> Done:
        """The event first: a view that lags must not hide a job from its cancellation."""
        records: list[Record] = actions.for_ids(given, for_job, asked.caller.name, asked.request)
        appended = await self._writer.append(records)
        ids = [JobId(text) for text in dict.fromkeys(given)]
        known, is_certain = await self._known.settled(ids, appended)
        if is_certain and len(known) < len(ids):
            raise Problem(
                "not-found",
                "Some of these jobs do not exist; the others were told.",
                [
                    Fault(f"/ids/{index}", f"there is no job {text}")
                    for index, text in enumerate(given)
                    if text not in known
                ],
            )
        live = [job for job in known.values() if job.state not in _ENDED]
        return Done(positions.encode(appended), len(live) if is_certain else None)


async def _decoded(decoder: Decoder[T], body: bytes) -> tuple[T, list[Fault]]:
    if len(body) <= ASIDE_BYTES:
        return decoder(body)
    decoder.check_size(body)
    request = decoder.fast(body)
    if request is not None:
        return request, []
    return await asyncio.to_thread(decoder.slow, body)
