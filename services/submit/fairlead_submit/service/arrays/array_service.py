"""Actions on existing arrays: cancel tasks, and submit tasks again."""

import secrets

import msgspec

from fairlead_common.domain import ids, position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import ArrayId, JobId, is_job_id, job_set_partition
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events, index_sets
from fairlead_common.domain.records.index_sets import IndexSet
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.log.protocol import Record
from fairlead_common.service import clock
from fairlead_submit.domain import name_rules
from fairlead_submit.domain.arrays import array_terms
from fairlead_submit.domain.arrays.array_terms import ArrayTerms
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.jobs import resubmission
from fairlead_submit.domain.policy import JobPolicy
from fairlead_submit.domain.recent_ids import IdConflict
from fairlead_submit.domain.request_types import ArrayCancellation, ArrayResubmission
from fairlead_submit.service.writers.job_writer import JobWriter
from fairlead_submit.service.writers.log_writer import LogWriter
from fairlead_submit.store.configuration_store import QueueStore
from fairlead_submit.store.job_views import JobViews, KnownArray
from fairlead_submit.store.secret_store import SecretStore


class ArrayActionResult(msgspec.Struct, frozen=True, rename="camel"):
    """What was requested, for `tasks` tasks: those that have not ended are cancelled. `position`
    null: nothing was written, because all have ended, or it was a dry run. `id`: of the array, or
    of the new one.
    """

    id: str
    tasks: int
    position: str | None


class ArrayService:
    """Writes requests about arrays; the scheduler carries them out."""

    def __init__(
        self,
        writer: LogWriter,
        job_writer: JobWriter,
        queues: QueueStore,
        job_views: JobViews,
        queue_secrets: SecretStore,
        policy: JobPolicy,
    ) -> None:
        self._allow = policy.allow
        self._classes = frozenset(item.name for item in policy.priority_classes)
        self._writer = writer
        self._job_writer = job_writer
        self._queues = queues
        self._job_views = job_views
        self._secrets = queue_secrets
        self._cancellation = Decoder(ArrayCancellation)
        self._resubmission = Decoder(ArrayResubmission)

    async def cancel(
        self, array: str, body: bytes, context: RequestContext, *, dry_run: bool = False
    ) -> ArrayActionResult:
        """Cancel the tasks that have not ended. Raises a `Problem` or `WorldError`."""
        request, found = self._cancellation(body)
        known = await self._find(array, context, Verb.CANCEL)
        indexes = _choose(known, request.indexes, found)
        tasks = 0 if known.ended else await self._job_views.count_live_tasks(known, indexes)
        if not tasks or dry_run:
            return ArrayActionResult(known.submitted.array, tasks, None)
        text = "" if request.indexes is None else str(indexes)
        event = events.ArrayCancelRequested(
            array=known.submitted.array, indexes=text, reason=request.reason or ""
        )
        appended = await self._writer.append(_make_records(known, event, context))
        position = position_tokens.encode(appended)
        return ArrayActionResult(known.submitted.array, tasks, position)

    async def resubmit(self, array: str, body: bytes, context: RequestContext) -> ArrayActionResult:
        """Submit tasks again, as a new array. Raises a `Problem` or `WorldError`."""
        request, found = self._resubmission(body)
        client_id = request.client_id
        if client_id is not None and (detail := name_rules.check_printable(client_id)):
            found.append(FieldError("/clientId", detail))
        known = await self._find(array, context, Verb.SUBMIT)
        indexes = _choose(known, request.indexes, found)
        before, queue_secrets = known.submitted, await self._secrets.get_queue_secrets(known.queue)
        renewed = resubmission.renew_terms(
            before.template, self._allow.get(known.queue), queue_secrets, self._classes
        )
        if isinstance(renewed, str):
            raise validation_problem([FieldError("", f"cannot be submitted again: {renewed}")])
        terms = ArrayTerms(before.count, indexes, before.running_max)
        new_id = _make_id(known, client_id)
        succeeded = await self._job_views.find_succeeded(renewed.after)
        annotations = {**before.template.annotations, events.RESUBMITTED_FROM: before.array}
        template = msgspec.structs.replace(
            renewed,
            job_id=JobId(new_id),
            client_id=client_id,
            digest=array_terms.make_digest(f"{before.array} {before.template.digest}", terms),
            annotations=annotations,
            after=tuple([other for other in renewed.after if other not in succeeded]),
        )
        event = array_terms.make_event(template, terms)
        digests = await self._job_views.find_array_digests([event.array])
        if digests.get(event.array, template.digest) != template.digest:
            raise _make_conflict(event.array)
        if event.array in digests:
            positions = self._job_views.positions_of([event.array])
            position = position_tokens.encode(positions) if positions else None
            return ArrayActionResult(event.array, len(indexes), position)
        try:
            appended = await self._job_writer.append(
                known.queue,
                _make_records(known, event, context),
                events=1,
                jobs=len(indexes),
                digests={event.array: template.digest},
            )
        except IdConflict:
            raise _make_conflict(event.array) from None
        return ArrayActionResult(event.array, len(indexes), position_tokens.encode(appended))

    async def _find(self, array: str, context: RequestContext, verb: Verb) -> KnownArray:
        """The array. Raises a 404 or 403 `Problem`."""
        known = await self._job_views.find_array(array) if is_job_id(array) else None
        queue = None
        if known is not None:
            queue = await self._queues.get_visible(known.queue, context.caller)
        if known is None or queue is None:
            raise Problem("not-found", f"Array {array[:100]!r} does not exist.")
        require_verb(context.caller, verb, queue)
        return known


def _choose(known: KnownArray, text: str | None, found: list[FieldError]) -> IndexSet:
    """The tasks of an array that a request names. Raises a 422 `Problem`."""
    every = index_sets.parse(known.submitted.indexes)
    chosen = every if text is None else array_terms.read_indexes(text, "/indexes", found)
    if chosen is not None and text is not None:
        try:
            chosen = array_terms.choose_indexes(every, chosen, known.cancelled_ranges)
        except ValueError as error:
            found.append(FieldError("/indexes", str(error)))
        else:
            if not chosen:
                detail = f"names no task of this array, which has {known.submitted.indexes[:100]}"
                found.append(FieldError("/indexes", detail))
    if found or chosen is None:
        raise validation_problem(found)
    return chosen


def _make_id(known: KnownArray, client_id: str | None) -> ArrayId:
    partition = job_set_partition(known.queue, known.job_set)
    if client_id is not None:
        return ids.client_array_id(partition, known.queue, known.job_set, client_id)
    return ids.array_id(ids.new_job_id(partition, clock.now_ms(), secrets.randbits(79)))


def _make_conflict(array: ArrayId) -> Problem:
    detail = f"names array {array}, which is a different one; use another"
    return Problem("conflict", "", [FieldError("/clientId", detail)])


def _make_records(
    known: KnownArray, event: events.AnyEvent, context: RequestContext
) -> list[Record]:
    return events.records(
        known.queue,
        known.job_set,
        context.caller.name,
        [event],
        request=context.request,
        traceparent=context.traceparent,
        partition=job_set_partition(known.queue, known.job_set),
    )
