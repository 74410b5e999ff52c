"""Actions on existing groups: cancel, restart, and change their terms and templates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain import position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import is_job_id, job_set_partition
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_submit.domain import secret_variables
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.feasibility import change_feasibility
from fairlead_submit.domain.feasibility.change_feasibility import ChangedGroup
from fairlead_submit.domain.groups import group_changes
from fairlead_submit.domain.groups.group_changes import TermsChange
from fairlead_submit.domain.groups.group_types import GroupAction, GroupChange
from fairlead_submit.domain.jobs.job_templates import JobTemplates
from fairlead_submit.service.cluster_view import ClusterView
from fairlead_submit.service.fair_validation import FairValidation
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.service.writers.job_writer import JobWriter
from fairlead_submit.service.writers.log_writer import LogWriter
from fairlead_submit.store.configuration_store import QueueStore
from fairlead_submit.store.job_views import JobViews, KnownGroup, KnownMember
from fairlead_submit.store.secret_store import SecretStore

_ENDED: Final = ("SUCCEEDED", "FAILED", "CANCELLED")
_LIVE: Final = ("QUEUED", "LEASED", "PENDING", "RUNNING")
_PRESENT: Final = (*_LIVE, "SUCCEEDED")


class GroupActionResult(msgspec.Struct, frozen=True, rename="camel"):
    """What was requested. `position` null: nothing was written, because the group had ended, or has
    these terms already.

    `submitted`: the number of new members.
    """

    id: str
    position: str | None
    submitted: int = 0


class GroupActionService:
    """Writes requests about groups; the scheduler carries them out."""

    def __init__(
        self,
        settings: SubmitSettings,
        writer: LogWriter,
        job_writer: JobWriter,
        queues: QueueStore,
        job_views: JobViews,
        cluster_view: ClusterView,
        fair_validation: FairValidation,
        queue_secrets: SecretStore,
    ) -> None:
        self._writer = writer
        self._job_writer = job_writer
        self._queues = queues
        self._job_views = job_views
        self._cluster_view = cluster_view
        self._validation = fair_validation
        self._secrets = queue_secrets
        self._classes = {item.name: item for item in settings.priority_classes}
        self._templates = JobTemplates(settings.job_policy)
        self._action = Decoder(GroupAction)
        self._change = Decoder(GroupChange)

    async def cancel(self, group: str, reason: str, context: RequestContext) -> GroupActionResult:
        """Cancel all members. Raises a `Problem` or `WorldError`."""
        known, _ = await self._find(group, context, Verb.CANCEL)
        if known.state in _ENDED:
            return GroupActionResult(known.group, None)
        event = events.GroupCancelRequested(group=known.group, reason=reason)
        return await self._append(known, [event], context)

    async def restart(self, group: str, body: bytes, context: RequestContext) -> GroupActionResult:
        """Stop all members and start them again. Raises a `Problem` or `WorldError`."""
        request, found = self._action(body)
        if found:
            raise validation_problem(found)
        known, _ = await self._find(group, context, Verb.PREEMPT)
        _require_live(known)
        event = events.GroupRestartRequested(group=known.group, reason=request.reason or "")
        return await self._append(known, [event], context)

    async def change(self, group: str, body: bytes, context: RequestContext) -> GroupActionResult:
        """Change the terms or templates of a group. Raises a `Problem` or `WorldError`."""
        request, found = self._change(body)
        known, queue = await self._find(group, context, Verb.SUBMIT)
        change, wrong = group_changes.change_terms(known.terms, request)
        if found or wrong:
            raise validation_problem([*found, *validation.without_implied(wrong, found)])
        _require_live(known)
        _require_verbs(context, queue, known, change, request)
        before = await self._job_views.find_templates(known.group)
        before = _give_priority(before, change.terms.priority)
        new = await self._read_templates(body, known, change, before)
        templates = before | new
        members = await self._job_views.find_members(known.group)
        succeeded = _count_succeeded(members, change.terms)
        changed = ChangedGroup(known.terms, change, before, templates, new, succeeded)
        await self._check_feasibility(changed, queue)
        terms = change.terms
        if new:  # the new members have their priority from their submission
            terms = msgspec.structs.replace(
                terms, priority=None, generation=known.terms.generation + 1
            )
        made = await self._make_members(known, terms, templates, members)
        facts: list[events.AnyEvent] = []
        if made or terms != known.terms:
            kind, reason = group_changes.describe_change(known.terms, change.terms, new)
            facts.append(
                events.GroupChanged(group=known.group, terms=terms, kind=kind, reason=reason)
            )
        facts += made
        if request.priority is not None and not new:
            facts += [
                events.JobReprioritized(job_id=each.job_id, priority=request.priority)
                for each in members
                if each.state in _LIVE and each.generation == terms.generation
            ]
        if not facts:
            return GroupActionResult(known.group, None)
        return await self._append(known, facts, context)

    async def _read_templates(
        self,
        body: bytes,
        known: KnownGroup,
        change: TermsChange,
        templates: Mapping[str, events.JobSubmitted],
    ) -> dict[str, events.JobSubmitted]:
        """The templates that differ from the present ones. Raises a 422 `Problem`."""
        may_have_secrets = secret_variables.may_have_secrets(body)
        queue_secrets = secret_variables.NO_SECRETS if may_have_secrets else None
        if may_have_secrets:
            queue_secrets = await self._secrets.get_queue_secrets(known.queue)
        made, found = group_changes.read_changed_templates(
            change,
            templates,
            change.terms.priority,
            known.labels,
            self._templates,
            lambda common: self._templates.make_shared_terms(known.queue, common, queue_secrets),
        )
        if found:
            raise validation_problem(found)
        return made

    async def _check_feasibility(self, changed: ChangedGroup, queue: Queue) -> None:
        """Raises a 422 `Problem` if the group could not run after the change."""
        found = list(change_feasibility.find_untemplated_roles(changed.change, changed.templates))
        if not found and change_feasibility.list_demanding_roles(changed):
            nodes = list((await self._cluster_view.read()).nodes.values())
            found = await self._validation.run(
                lambda: change_feasibility.check_change(changed, nodes, queue, self._classes)
            )
        if found:
            raise validation_problem(found)

    async def _make_members(
        self,
        known: KnownGroup,
        terms: events.Group,
        templates: Mapping[str, events.JobSubmitted],
        members: Sequence[KnownMember],
    ) -> list[events.JobSubmitted]:
        """The submissions of the members that the group lacks under its new terms."""
        present = {
            (each.role, each.index)
            for each in members
            if each.state in _PRESENT and each.generation == terms.generation
        }
        counts = Counter((each.role, each.index) for each in members)
        places, suffixes = group_changes.list_missing(terms, present, counts)
        queue_secrets = await self._secrets.get_queue_secrets(known.queue)
        renewed: dict[str, events.JobSubmitted] = {}
        for role in {name for name, _ in places}:
            spec = secret_variables.refresh_secrets(bytes(templates[role].spec), queue_secrets)
            if isinstance(spec, str):
                detail = f"no new member of role {role} can be made: {spec}"
                raise validation_problem([FieldError("/roles", detail)])
            renewed[role] = msgspec.structs.replace(templates[role], spec=msgspec.Raw(spec))
        return group_changes.make_new_members(
            known.queue,
            known.job_set,
            known.group,
            known.client_id,
            renewed,
            places,
            suffixes,
            terms.generation,
        )

    async def _find(
        self, group: str, context: RequestContext, verb: Verb
    ) -> tuple[KnownGroup, Queue]:
        """The group and its queue. Raises a 404 or 403 `Problem`."""
        known = await self._job_views.find_group(group) if is_job_id(group) else None
        queue = None
        if known is not None:
            queue = await self._queues.get_visible(known.queue, context.caller)
        if known is None or queue is None:
            raise Problem("not-found", f"Group {group[:100]!r} does not exist.")
        require_verb(context.caller, verb, queue)
        return known, queue

    async def _append(
        self, known: KnownGroup, facts: list[events.AnyEvent], context: RequestContext
    ) -> GroupActionResult:
        new = sum(isinstance(fact, events.JobSubmitted) for fact in facts)
        records = events.records(
            known.queue,
            known.job_set,
            context.caller.name,
            facts,
            request=context.request,
            traceparent=context.traceparent,
            partition=job_set_partition(known.queue, known.job_set),
        )
        if new:
            appended = await self._job_writer.append(
                known.queue, records, events=new, jobs=new, digests={}
            )
        else:
            appended = await self._writer.append(records)
        return GroupActionResult(known.group, position_tokens.encode(appended), new)


def _require_verbs(
    context: RequestContext,
    queue: Queue,
    known: KnownGroup,
    change: TermsChange,
    request: GroupChange,
) -> None:
    """Raises a 403 `Problem` if the caller is not permitted to stop or reprioritize members."""
    pairs = zip(change.terms.roles, known.terms.roles, strict=True)
    has_template = any(role.template is not None for role in request.roles or ())
    if has_template or any(new.max < old.max for new, old in pairs):
        require_verb(context.caller, Verb.CANCEL, queue)
    if request.priority is not None:
        require_verb(context.caller, Verb.REPRIORITIZE, queue)


def _count_succeeded(members: Sequence[KnownMember], terms: events.Group) -> Counter[str]:
    """By role, how many of the members below the minimum have succeeded."""
    minima = {role.name: role.min for role in terms.roles}
    return Counter(
        each.role
        for each in members
        if each.state == "SUCCEEDED"
        and each.generation == terms.generation
        and each.index < minima[each.role]
    )


def _give_priority(
    templates: Mapping[str, events.JobSubmitted], priority: int | None
) -> dict[str, events.JobSubmitted]:
    if priority is None:
        return dict(templates)
    return {
        name: msgspec.structs.replace(template, priority=priority)
        for name, template in templates.items()
    }


def _require_live(known: KnownGroup) -> None:
    """Raises a 409 `Problem` for a group that has ended or is being cancelled."""
    if known.state in _ENDED:
        raise Problem(
            "conflict",
            f"Group {known.group} has ended ({known.state}) and cannot be changed. Submit it again"
            " with another clientId.",
        )
    if known.is_cancelling:
        raise Problem(
            "conflict",
            f"Group {known.group} is being cancelled and cannot be changed. Submit it again with"
            " another clientId.",
        )
