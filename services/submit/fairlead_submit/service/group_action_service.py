"""Actions on existing groups: cancel, restart, and change the number of members."""

from collections import Counter
from typing import Final

import msgspec

from fairlead_common.domain import position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import is_job_id, job_set_partition
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.service.disk import Disk, Space
from fairlead_submit.domain import feasibility, secret_variables
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.feasibility import JobKind
from fairlead_submit.domain.groups import group_changes
from fairlead_submit.domain.groups.group_types import GroupAction, GroupChange
from fairlead_submit.service.cluster_view import ClusterView
from fairlead_submit.service.log_writer import LogWriter
from fairlead_submit.service.quotas import QuotaTracker
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.store.configuration_store import QueueStore
from fairlead_submit.store.job_views import JobViews, KnownGroup
from fairlead_submit.store.secret_store import SecretStore

_ENDED: Final = ("SUCCEEDED", "FAILED", "CANCELLED")
_PRESENT: Final = ("QUEUED", "LEASED", "PENDING", "RUNNING", "SUCCEEDED")


class GroupActionResult(msgspec.Struct, frozen=True, rename="camel"):
    """What was requested. `position` null: the group had ended, and nothing was written.

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
        queues: QueueStore,
        job_views: JobViews,
        cluster_view: ClusterView,
        disk: Disk,
        quotas: QuotaTracker,
        queue_secrets: SecretStore,
    ) -> None:
        self._writer = writer
        self._queues = queues
        self._job_views = job_views
        self._cluster_view = cluster_view
        self._disk = disk
        self._quotas = quotas
        self._secrets = queue_secrets
        self._classes = {item.name: item for item in settings.priority_classes}
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
        """Change the number of members of roles. Raises a `Problem` or `WorldError`."""
        request, found = self._change(body)
        known, queue = await self._find(group, context, Verb.SUBMIT)
        terms, wrong = group_changes.change_terms(known.terms, request)
        if found or wrong:
            raise validation_problem([*found, *wrong])
        _require_live(known)
        if any(new.max < old.max for new, old in zip(terms.roles, known.terms.roles, strict=True)):
            require_verb(context.caller, Verb.CANCEL, queue)
        templates = await self._job_views.find_templates(known.group)
        await self._check_minima(known, terms, request, templates, queue)
        members = await self._make_members(known, terms, templates)
        event = events.GroupChanged(group=known.group, terms=terms)
        return await self._append(known, [event, *members], context)

    async def _check_minima(
        self,
        known: KnownGroup,
        terms: events.Group,
        request: GroupChange,
        templates: dict[str, events.JobSubmitted],
        queue: Queue,
    ) -> None:
        """Refuse minima that could never run, and members of roles that have never had any."""
        places = {role.name or "": index for index, role in enumerate(request.roles or ())}
        before = {role.name: role for role in known.terms.roles}
        raised: list[tuple[int, JobKind]] = []
        found: list[FieldError] = []
        for role in terms.roles:
            template = templates.get(role.name)
            if template is None and role.max:
                detail = "cannot be raised: the role has never had a member to take as template"
                found.append(FieldError(f"/roles/{places[role.name]}/max", detail))
            elif template is not None and role.min > before[role.name].min:
                shape, pool = bytes(template.shape), template.pool
                kind = JobKind(shape, template.priority_class, pool, members=role.min)
                raised.append((places[role.name], kind))
        if raised and not found:
            snapshot = await self._cluster_view.read()
            kinds = [kind for _, kind in raised]
            verdicts = feasibility.check_feasibility(
                kinds, snapshot.nodes.values(), queue, self._classes
            )
            for place, kind in raised:
                verdict = verdicts[kind]
                if verdict.feasible is False:
                    detail = f"could never run: {verdict.why}"
                    found.append(FieldError(f"/roles/{place}/min", detail))
        if found:
            raise validation_problem(found)

    async def _make_members(
        self,
        known: KnownGroup,
        terms: events.Group,
        templates: dict[str, events.JobSubmitted],
    ) -> list[events.JobSubmitted]:
        """The submissions of the members that the group lacks under its new terms."""
        members = await self._job_views.find_members(known.group)
        present = {(each.role, each.index) for each in members if each.state in _PRESENT}
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
            known.queue, known.job_set, known.group, known.client_id, renewed, places, suffixes
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
            raise Problem("not-found", f"There is no group {group[:100]!r}.")
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
        if not new:
            appended = await self._writer.append(records)
        else:
            self._disk.check(Space.LOW)
            size = sum(len(record.value or b"") for record in records)
            async with self._quotas.reserve(known.queue, new, size) as reserved:
                appended = await self._writer.append(records)
                reserved.appended(appended)
        return GroupActionResult(known.group, position_tokens.encode(appended), new)


def _require_live(known: KnownGroup) -> None:
    """Raises a 409 `Problem` for a group that has ended."""
    if known.state in _ENDED:
        raise Problem(
            "conflict",
            f"Group {known.group} has ended ({known.state}) and cannot be changed. Submit it again"
            " with another clientId.",
        )
