"""Asking something of jobs that exist: from a body to events in the log, and the answer."""

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
from fairlead_common.web.auth.queue_permissions import QueuePermissions
from fairlead_submit.domain import job_actions, validation
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.decoding import Decoder, invalid
from fairlead_submit.domain.job_actions import AnyAction, Kind
from fairlead_submit.domain.policy import Limits
from fairlead_submit.domain.request_types import Filter, Release
from fairlead_submit.service.log_writer import Writer
from fairlead_submit.service.validation_thread import Validator
from fairlead_submit.store.configuration_store import Queues
from fairlead_submit.store.job_views import FoundJob, Known, KnownJob

SAMPLE: Final = 10


class Done(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to an action. `matched`: jobs concerned, as far as the view knows; else null.

    A dry run has no position, and names some of the jobs.
    """

    position: str | None
    matched: int | None
    sample: list[FoundJob] | UnsetType = UNSET


class Named(msgspec.Struct, frozen=True):
    """Jobs of a request: their ids, and how the request names them."""

    ids: list[JobId]
    texts: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Named":
        """Texts that were checked."""
        return cls([ids.job_id_of(text) for text in texts], texts)


class Acting:
    """What the routes of actions call."""

    def __init__(
        self,
        limits: Limits,
        writer: Writer,
        queues: Queues,
        known: Known,
        rights: QueuePermissions,
        validator: Validator,
    ) -> None:
        self._validator = validator
        self._ids_max = limits.ids_max
        self._writer = writer
        self._queues = queues
        self._known = known
        self._rights = rights
        self._decoders = {kind.name: Decoder(kind.body) for kind in job_actions.KINDS}

    async def act(
        self, kind: Kind, body: bytes, context: RequestContext, *, dry_run: bool = False
    ) -> Done:
        """Ask this of the jobs that a body names. Raises a `Problem` or `WorldError`."""
        request, known = await self._validator.decode(self._decoders[kind.name], body)
        found = job_actions.check(request, self._ids_max)
        found = [*known, *validation.further(found, known)]
        if isinstance(request, Release) or request.ids is not None:
            if found:
                raise invalid(found)
            named = Named.of(request.ids or ())
            if dry_run:
                return await self._look_at(kind, named, context)
            return await self._by_ids(kind, named, request, context)
        return await self._by_filter(kind, request, request.filter, found, context, dry_run=dry_run)

    async def _by_filter(
        self,
        kind: Kind,
        request: AnyAction,
        chosen: Filter | None,
        found: list[FieldError],
        context: RequestContext,
        *,
        dry_run: bool,
    ) -> Done:
        queue = await self._queues.seen(chosen.queue, context.caller) if chosen else None
        if chosen and chosen.queue is not None and queue is None:
            fault = FieldError("/filter/queue", f"{validation.shown(chosen.queue)} is no queue")
            found = [*found, *validation.further([fault], found)]
        if found:
            raise invalid(found)
        assert chosen is not None
        assert queue is not None
        require_verb(context.caller, kind.verb, queue)
        wanted = job_actions.job_filter(chosen)
        if dry_run:  # so that whoever asks before he acts is not told of fewer than there are
            await self._known.has_caught_up(chosen=wanted)
        matched = await self._known.count(wanted, kind.concerned)
        if dry_run:
            return Done(None, matched, await self._known.sample(wanted, kind.concerned, SAMPLE))
        assert kind.for_filter is not None
        records = job_actions.for_filter(wanted, kind.for_filter(request), context)
        return Done(position_tokens.encode(await self._writer.append(records)), matched)

    async def _by_ids(
        self, kind: Kind, named: Named, request: AnyAction, context: RequestContext
    ) -> Done:
        """The event first: a view that lags must not hide a job from its cancellation.

        Only who may not do this everywhere has to wait until it is known whose the jobs are.
        """
        reach = await self._rights.find_scope(context.caller, kind.verb)
        given = list(dict.fromkeys(named.ids))
        if reach.is_everything:
            told = given
        else:
            known = await self._permitted(kind, named, reach, context)
            told = [job_id for job_id in given if job_id in known]
        records = job_actions.for_ids(told, kind.for_job(request), context)
        appended = await self._writer.append(records) if records else {}
        known, is_certain = await self._known.settled(told, appended)
        if len(told) < len(given) or (is_certain and len(known) < len(given)):
            raise _not_found(named, known)
        return Done(
            position_tokens.encode(appended), _concerned(kind, known) if is_certain else None
        )

    async def _look_at(self, kind: Kind, named: Named, context: RequestContext) -> Done:
        """What `_by_ids` would concern, of what is known now."""
        reach = await self._rights.find_scope(context.caller, kind.verb)
        known = await self._permitted(kind, named, reach, context)
        if len(known) < len(set(named.ids)):
            raise _not_found(named, known)
        sample = [
            FoundJob(job_id, job.job_set, job.state) for job_id, job in list(known.items())[:SAMPLE]
        ]
        return Done(None, _concerned(kind, known), sample)

    async def _permitted(
        self, kind: Kind, named: Named, reach: QueueScope, context: RequestContext
    ) -> dict[str, KnownJob]:
        """Those that the caller sees. Raises a 403 if he may not do this with one of them."""
        given = list(dict.fromkeys(named.ids))
        known, is_certain = await self._known.settled_now(given)
        if not is_certain:
            raise Problem(
                "unavailable",
                "Whose jobs these are cannot be told while the view of lookout lags or is away.",
                retry_after_s=1,
            )
        seen = await self._rights.find_scope(context.caller, Verb.VIEW)
        visible = {job_id: job for job_id, job in known.items() if job.queue in seen}
        closed = [
            FieldError(f"/ids/{index}", f"queue {visible[job_id].queue!r} does not permit it")
            for index, job_id in enumerate(named.ids)
            if job_id in visible and visible[job_id].queue not in reach
        ]
        if closed:
            raise Problem(
                "forbidden",
                f"{context.caller.name} may not {kind.verb} all of these jobs; nothing was done.",
                closed,
            )
        return visible


def _concerned(kind: Kind, known: Mapping[str, KnownJob]) -> int:
    return sum(JobState(job.state) in kind.concerned for job in known.values())


def _not_found(named: Named, known: Mapping[str, KnownJob]) -> Problem:
    return Problem(
        "not-found",
        "Some of these jobs do not exist; the others were told, unless it was a dry run.",
        [
            FieldError(f"/ids/{index}", f"there is no job {named.texts[index]}")
            for index, job_id in enumerate(named.ids)
            if job_id not in known
        ],
    )
