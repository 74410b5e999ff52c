"""Actions on existing jobs: from a body to events in the log, and the response."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_common.domain import ids, position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.permissions import QueueScope, Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import index_sets
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.web.auth.queue_permissions import QueuePermissions
from fairlead_submit.domain import job_actions
from fairlead_submit.domain.arrays import array_terms
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.job_actions import ActionKind, AnyAction
from fairlead_submit.domain.policy import Limits
from fairlead_submit.domain.request_types import Filter, Release
from fairlead_submit.service.fair_validation import FairValidation
from fairlead_submit.service.log_writer import LogWriter
from fairlead_submit.store.configuration_store import QueueStore
from fairlead_submit.store.job_views import JobMatch, JobViews, KnownJob

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
        return visible

    async def _find_tasks(
        self, kind: ActionKind, named: NamedJobs, known: Mapping[str, KnownJob]
    ) -> dict[str, KnownJob]:
        """Tasks that wait in an array, and arrays, among the jobs that are not known: they can be
        cancelled. Raises a 422 `Problem` if that would divide an array too often.
        """
        if kind.verb is not Verb.CANCEL:
            return {}
        tasks: dict[str, list[tuple[JobId, int]]] = defaultdict(list)
        for job_id in named.ids:
            if job_id not in known:
                array, index = ids.parse_task_id(job_id)
                tasks[array].append((job_id, index))
        found: dict[str, KnownJob] = {}
        for array_id, known_array in (await self._job_views.find_arrays(list(tasks))).items():
            every = index_sets.parse(known_array.submitted.indexes)
            state = JobState.CANCELLED if known_array.ended else JobState.QUEUED
            indexes = [index for _, index in tasks[array_id] if index in every]
            try:
                array_terms.choose_indexes(
                    every, index_sets.collect(indexes), known_array.cancelled_ranges
                )
            except ValueError as error:
                raise validation_problem([FieldError("/ids", str(error))]) from None
            for job_id, index in tasks[array_id]:
                count = 1 if index in every else len(every) if index < 0 else 0
                if count:
                    found[job_id] = KnownJob(state, known_array.queue, known_array.job_set, count)
        return found


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
