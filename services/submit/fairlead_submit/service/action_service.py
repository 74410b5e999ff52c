"""Actions on existing jobs: from a body to events in the log, and the response."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_common.domain import ids, position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.permissions import QueueScope, Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import index_marks, index_sets
from fairlead_common.domain.records.index_sets import IndexSet
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.web.auth.queue_permissions import QueuePermissions
from fairlead_submit.domain.arrays import array_terms
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.jobs import job_actions
from fairlead_submit.domain.jobs.job_actions import ActionKind, AnyAction
from fairlead_submit.domain.policy import Limits
from fairlead_submit.domain.request_types import Filter, Release
from fairlead_submit.service.fair_validation import FairValidation
from fairlead_submit.service.writers.log_writer import LogWriter
from fairlead_submit.store.configuration_store import QueueStore
from fairlead_submit.store.job_views import JobMatch, JobViews, KnownArray, KnownJob

SAMPLE: Final = 10


class ActionResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The response to an action. `matched`: the number of jobs, null if it is not known.

    A dry run has no position, and `sample` has some of the jobs.
    """

    position: str | None
    matched: int | None
    sample: list[JobMatch] | UnsetType = UNSET


class NamedJobs(msgspec.Struct, frozen=True):
    """The jobs of a request: their ids, and the texts by which the request names them."""

    ids: list[JobId]
    texts: Sequence[str]


class ActionService:
    """Carries out actions on jobs by ids or by a filter."""

    def __init__(
        self,
        limits: Limits,
        writer: LogWriter,
        queues: QueueStore,
        job_views: JobViews,
        permissions: QueuePermissions,
        validation: FairValidation,
    ) -> None:
        self._validation = validation
        self._ids_max = limits.ids_max
        self._writer = writer
        self._queues = queues
        self._job_views = job_views
        self._permissions = permissions
        self._decoders = {kind.name: Decoder(kind.body) for kind in job_actions.ACTION_KINDS}

    async def act(
        self, kind: ActionKind, body: bytes, context: RequestContext, *, dry_run: bool = False
    ) -> ActionResult:
        """Carry out an action on the jobs that a body names. Raises a `Problem` or `WorldError`."""
        request, known = await self._validation.decode(self._decoders[kind.name], body)
        found = job_actions.check_action(request, self._ids_max)
        found = [*known, *validation.without_implied(found, known)]
        if isinstance(request, Release) or request.ids is not None:
            if found:
                raise validation_problem(found)
            named = NamedJobs(
                await self._job_views.choose_ids(request.ids or ()), request.ids or ()
            )
            if dry_run:
                return await self._preview(kind, named, context)
            return await self._act_by_ids(kind, named, request, context)
        return await self._act_by_filter(
            kind, request, request.filter, found, context, dry_run=dry_run
        )

    async def _act_by_filter(
        self,
        kind: ActionKind,
        request: AnyAction,
        chosen: Filter | None,
        found: list[FieldError],
        context: RequestContext,
        *,
        dry_run: bool,
    ) -> ActionResult:
        queue = await self._queues.get_visible(chosen.queue, context.caller) if chosen else None
        if chosen and chosen.queue is not None and queue is None:
            detail = f"{validation.quote(chosen.queue)} does not exist"
            unknown = FieldError("/filter/queue", detail)
            found = [*found, *validation.without_implied([unknown], found)]
        if found:
            raise validation_problem(found)
        assert chosen is not None
        assert queue is not None
        require_verb(context.caller, kind.verb, queue)
        wanted = job_actions.make_job_filter(chosen)
        if dry_run:  # so that the count includes everything that was written before
            await self._job_views.wait_until_current(chosen=wanted)
        matched = await self._job_views.count(wanted, kind.states)
        if dry_run:
            return ActionResult(
                None, matched, await self._job_views.sample(wanted, kind.states, SAMPLE)
            )
        assert kind.for_filter is not None
        records = job_actions.make_records_for_filter(wanted, kind.for_filter(request), context)
        return ActionResult(position_tokens.encode(await self._writer.append(records)), matched)

    async def _act_by_ids(
        self, kind: ActionKind, named: NamedJobs, request: AnyAction, context: RequestContext
    ) -> ActionResult:
        """Append the events also for jobs that the view does not know: it can lag.

        Only for a caller without permission in every queue must the view be current. The states
        are read before the append: afterwards the view can already show what the action did.
        """
        scope = await self._permissions.find_scope(context.caller, kind.verb)
        given = list(dict.fromkeys(named.ids))
        if scope.is_everything:
            chosen_ids = given
            before = await self._job_views.find_jobs(given)
            before |= await self._find_tasks(kind, named, before)
            _require_jobs(kind, named, before)
        else:
            before = await self._find_visible(kind, named, scope, context)
            chosen_ids = [job_id for job_id in given if job_id in before]
        records = job_actions.make_records_for_ids(chosen_ids, kind.for_job(request), context)
        appended = await self._writer.append(records) if records else {}
        unknown = [job_id for job_id in chosen_ids if job_id not in before]
        after, is_certain = await self._job_views.wait_for_jobs(unknown, appended)
        known = before | after
        if len(chosen_ids) < len(given) or (is_certain and len(known) < len(given)):
            raise _jobs_not_found(named, known)
        return ActionResult(
            position_tokens.encode(appended), _count_affected(kind, known) if is_certain else None
        )

    async def _preview(
        self, kind: ActionKind, named: NamedJobs, context: RequestContext
    ) -> ActionResult:
        """The response to a dry run with ids."""
        scope = await self._permissions.find_scope(context.caller, kind.verb)
        known = await self._find_visible(kind, named, scope, context)
        if len(known) < len(set(named.ids)):
            raise _jobs_not_found(named, known)
        sample = [
            JobMatch(job_id, job.job_set, job.state) for job_id, job in list(known.items())[:SAMPLE]
        ]
        return ActionResult(None, _count_affected(kind, known), sample)

    async def _find_visible(
        self, kind: ActionKind, named: NamedJobs, scope: QueueScope, context: RequestContext
    ) -> dict[str, KnownJob]:
        """The jobs that the caller can view. Raises a 403 if one does not permit it."""
        given = list(dict.fromkeys(named.ids))
        known, is_certain = await self._job_views.wait_for_current_jobs(given)
        if not is_certain:
            raise Problem(
                "unavailable",
                "The view of lookout lags or is unavailable, so the queues of these jobs are not"
                " known. Try again.",
                retry_after_s=1,
            )
        known |= await self._find_tasks(kind, named, known)
        seen = await self._permissions.find_scope(context.caller, Verb.VIEW)
        visible = {job_id: job for job_id, job in known.items() if job.queue in seen}
        refused = [
            FieldError(f"/ids/{index}", f"queue {visible[job_id].queue!r} does not permit this")
            for index, job_id in enumerate(named.ids)
            if job_id in visible and visible[job_id].queue not in scope
        ]
        if refused:
            raise Problem(
                "forbidden",
                f"{context.caller.name} is not permitted to {kind.verb} all of these jobs."
                " Nothing was changed.",
                refused,
            )
        _require_jobs(kind, named, visible)
        return visible

    async def _find_tasks(
        self, kind: ActionKind, named: NamedJobs, known: Mapping[str, KnownJob]
    ) -> dict[str, KnownJob]:
        """Arrays, and tasks that wait in them, among the jobs that are not known. Raises a 422
        `Problem` for a cancellation that would divide an array too often.
        """
        tasks: dict[str, dict[JobId, int]] = defaultdict(dict)
        for job_id in named.ids:
            if job_id not in known:
                array, index = ids.parse_task_id(job_id)
                tasks[array][job_id] = index
        found: dict[str, KnownJob] = {}
        waiting: list[JobId] = []
        arrays = await self._job_views.find_arrays(list(tasks))
        cancelled = await self._job_views.find_cancelled_tasks(list(arrays)) if arrays else {}
        for array_id, known_array in arrays.items():
            every = index_sets.parse(known_array.submitted.indexes)
            chosen = {job_id: index for job_id, index in tasks[array_id].items() if index in every}
            if kind.verb is Verb.CANCEL:
                _require_few_ranges(known_array, every, chosen.values())
            live = None if known_array.ended else known_array.submitted.array
            state = JobState.CANCELLED if known_array.ended else JobState.QUEUED
            place = (known_array.queue, known_array.job_set)
            for job_id, index in chosen.items():
                if index_marks.is_marked(cancelled[array_id], index):
                    found[job_id] = KnownJob(JobState.CANCELLED, *place)
                else:
                    found[job_id] = KnownJob(state, *place, array=live)
                    waiting += [job_id] if live else ()
            if JobId(array_id) in tasks[array_id]:
                found[array_id] = KnownJob(state, *place, known_array.live, live)
        if waiting and kind.verb is Verb.REPRIORITIZE:  # some can have been released meanwhile
            found |= (await self._job_views.wait_for_current_jobs(waiting))[0]
        return found


def _require_few_ranges(array: KnownArray, every: IndexSet, indexes: Iterable[int]) -> None:
    """Raise a 422 `Problem` if to cancel these tasks would divide the array too often."""
    try:
        array_terms.choose_indexes(every, index_sets.collect(indexes), array.cancelled_ranges)
    except ValueError as error:
        raise validation_problem([FieldError("/ids", str(error))]) from None


def _require_jobs(kind: ActionKind, named: NamedJobs, known: Mapping[str, KnownJob]) -> None:
    """Raise a 422 `Problem` for arrays and waiting tasks with which this cannot be done."""
    refused = [
        FieldError(f"/ids/{index}", why)
        for index, job_id in enumerate(named.ids)
        if (job := known.get(job_id)) is not None and job.array is not None
        if (why := array_terms.explain_refusal(kind.verb, job.array, job_id)) is not None
    ]
    if refused:
        raise validation_problem(refused)


def _count_affected(kind: ActionKind, known: Mapping[str, KnownJob]) -> int:
    return sum(job.tasks for job in known.values() if JobState(job.state) in kind.states)


def _jobs_not_found(named: NamedJobs, known: Mapping[str, KnownJob]) -> Problem:
    return Problem(
        "not-found",
        "Some of these jobs do not exist; they are listed in `errors`. The action was carried out"
        " for the others, unless it was a dry run.",
        [
            FieldError(f"/ids/{index}", f"job {named.texts[index]} does not exist")
            for index, job_id in enumerate(named.ids)
            if job_id not in known
        ],
    )
