"""Groups: their submission, from a body to events in the log, and the response."""

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fairlead_common.domain import position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import Verb
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.service import clock
from fairlead_submit.domain import secret_variables
from fairlead_submit.domain.callers import RequestContext, require_verb
from fairlead_submit.domain.feasibility import group_feasibility
from fairlead_submit.domain.feasibility.group_feasibility import GroupKind
from fairlead_submit.domain.groups.group_submission import (
    PreparedGroup,
    PreparedGroups,
    prepare_groups,
)
from fairlead_submit.domain.groups.group_types import GroupSubmission
from fairlead_submit.domain.jobs.job_templates import JobTemplates
from fairlead_submit.domain.jobs.submission import IdSource
from fairlead_submit.domain.recent_ids import IdConflict
from fairlead_submit.service import metrics
from fairlead_submit.service.cluster_view import ClusterView
from fairlead_submit.service.fair_validation import FairValidation
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.service.writers.job_writer import JobWriter
from fairlead_submit.store.configuration_store import QueueStore
from fairlead_submit.store.job_views import JobViews
from fairlead_submit.store.secret_store import SecretStore


class SubmittedMember(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One member of a group of the response."""

    id: str
    client_id: str
    role: str
    index: int


class RoleVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the minimum of a role could run alone (null: unknown). `why`: what prevents it."""

    name: str
    feasible: bool | None
    why: str | None


class SubmittedGroup(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One group of the response. `duplicate`: it existed already, and nothing was created.

    A dry run reports for each role whether its minimum could ever run, and whether all together
    could: `feasible`, null if that is unknown, and `why`.
    """

    id: str
    client_id: str | None
    duplicate: bool
    members: list[SubmittedMember]
    roles: list[RoleVerdict] | UnsetType = UNSET
    feasible: bool | UnsetType | None = UNSET
    why: str | UnsetType | None = UNSET


class GroupSubmissionResponse(msgspec.Struct, frozen=True, rename="camel"):
    """The response to a submission of groups, in the given order. A dry run has no position."""

    position: str | None
    groups: list[SubmittedGroup]


class GroupService:
    """Submits the groups of a request, all or none."""

    def __init__(
        self,
        settings: SubmitSettings,
        writer: JobWriter,
        queues: QueueStore,
        job_views: JobViews,
        cluster_view: ClusterView,
        fair_validation: FairValidation,
        queue_secrets: SecretStore,
    ) -> None:
        self._limits: Final = settings.limits
        self._policy: Final = settings.job_policy
        self._writer = writer
        self._queues = queues
        self._job_views = job_views
        self._cluster_view = cluster_view
        self._validation = fair_validation
        self._secrets = queue_secrets
        self._classes = {item.name: item for item in settings.priority_classes}
        self._submission = Decoder(GroupSubmission)

    async def submit(
        self, body: bytes, context: RequestContext, *, dry_run: bool = False
    ) -> GroupSubmissionResponse:
        """Submit all groups of a body, or none. Raises a `Problem` or `WorldError`."""
        request, found = await self._validation.decode(self._submission, body)
        queue = await self._queues.get_visible(request.queue, context.caller)
        if queue is None and request.queue is not None:
            detail = f"{validation.quote(request.queue)} does not exist"
            found.append(FieldError("/queue", detail))
        source = IdSource(clock.now_ms(), secrets.randbits(79))
        may_have_secrets = secret_variables.may_have_secrets(body)
        queue_secrets = secret_variables.NO_SECRETS if may_have_secrets else None
        if queue is not None and may_have_secrets:
            require_verb(context.caller, Verb.SUBMIT, queue)  # before errors name secrets
            queue_secrets = await self._secrets.get_queue_secrets(queue.name)
        templates = JobTemplates(self._policy)  # of its own: the work is done in the thread
        prepared, found = await self._validation.run(
            lambda: prepare_groups(request, found, templates, self._limits, source, queue_secrets)
        )
        if found:
            raise validation_problem(found)
        assert queue is not None
        require_verb(context.caller, Verb.SUBMIT, queue)
        jobs, known = await self._find_known(prepared)
        _check_conflicts(prepared, jobs, known)
        new = [group for group in prepared.groups if group.event.group not in known]
        if dry_run:
            count = sum(len(group.members) for group in new)
            await self._writer.quotas.check(prepared.queue, count, 0)
            return GroupSubmissionResponse(None, await self._make_dry_run(prepared, queue, known))
        try:
            appended = await self._append(prepared, new, context)
        except IdConflict as error:
            _check_conflicts(prepared, error.digests, error.digests)
            raise
        position = position_tokens.encode(
            position_tokens.merge(appended, self._job_views.positions_of(known))
        )
        metrics.JOBS.inc(sum(len(group.members) for group in new))
        metrics.DUPLICATES.inc(len(known))
        return GroupSubmissionResponse(
            position, [_describe(group, known) for group in prepared.groups]
        )

    async def find_errors(self, body: bytes) -> list[FieldError]:
        """What is wrong with a body, without a look at its queue. Raises a `Problem`."""
        request, found = await self._validation.decode(self._submission, body)
        templates = JobTemplates(self._policy)
        source = IdSource(0, 0)
        _, found = await self._validation.run(
            lambda: prepare_groups(request, found, templates, self._limits, source)
        )
        return found

    async def _find_known(self, prepared: PreparedGroups) -> tuple[dict[str, str], dict[str, str]]:
        """The digests of jobs that have ids of members, and of groups, of those that exist."""
        named = [group for group in prepared.groups if group.event.client_id is not None]
        # Jobs first: a group that is folded between the two queries is found by the second one.
        jobs = await self._job_views.find_digests(
            prepared.queue,
            prepared.job_set,
            [member.job_id for group in named for member in group.members],
        )
        return jobs, await self._job_views.find_group_digests([each.event.group for each in named])

    async def _make_dry_run(
        self, prepared: PreparedGroups, queue: Queue, known: Mapping[str, str]
    ) -> list[SubmittedGroup]:
        """The groups of the response to a dry run."""
        nodes = list((await self._cluster_view.read()).nodes.values())
        kinds = [_make_kind(group) for group in prepared.groups]
        verdicts = await self._validation.run(
            lambda: group_feasibility.check_groups(kinds, nodes, queue, self._classes)
        )
        found = []
        for group, kind in zip(prepared.groups, kinds, strict=True):
            verdict = verdicts[kind]
            roles = [
                RoleVerdict(name, role.feasible, role.why) for name, role in verdict.roles.items()
            ]
            described = msgspec.structs.replace(
                _describe(group, known),
                roles=roles,
                feasible=verdict.group.feasible,
                why=verdict.group.why,
            )
            found.append(described)
        return found

    async def _append(
        self, prepared: PreparedGroups, groups: list[PreparedGroup], context: RequestContext
    ) -> dict[int, int]:
        if not groups:
            return {}
        facts: list[events.AnyEvent] = []
        for group in groups:
            facts += [group.event, *group.members]
        records = events.records(
            prepared.queue,
            prepared.job_set,
            context.caller.name,
            facts,
            request=context.request,
            traceparent=context.traceparent,
            partition=prepared.partition,
        )
        members = len(facts) - len(groups)
        digests: dict[str, str] = {}
        for group in groups:
            if group.event.client_id is not None:
                digests[group.event.group] = group.event.digest
                digests |= {member.job_id: member.digest for member in group.members}
        return await self._writer.append(
            prepared.queue, records, events=members, jobs=members, digests=digests
        )


def _check_conflicts(
    prepared: PreparedGroups, jobs: Mapping[str, str], known: Mapping[str, str]
) -> None:
    """Raises a 409 if a group with one of the client ids is a different one, or if an ordinary job
    has the client id of a member."""
    conflicts = []
    for index, group in enumerate(prepared.groups):
        if group.event.client_id is None:
            continue
        name = validation.quote(group.event.client_id)
        taken = [item for item in group.members if item.job_id in jobs]
        detail = None
        if group.event.group in known:
            if known[group.event.group] != group.event.digest:
                detail = (
                    f"{name} names group {group.event.group}, which has a different spec; use"
                    " another clientId"
                )
        elif taken:
            detail = (
                f"{name} makes the clientId {validation.quote(taken[0].client_id)}, which belongs"
                f" to job {taken[0].job_id}; use another clientId"
            )
        if detail is not None:
            conflicts.append(FieldError(f"/groups/{index}/clientId", detail))
    if conflicts:
        detail = "A clientId is used by something different. Nothing was changed."
        raise Problem("conflict", detail, conflicts)


def _describe(group: PreparedGroup, known: Mapping[str, str]) -> SubmittedGroup:
    members = [
        SubmittedMember(
            item.job_id, item.client_id or "", item.group.role if item.group else "", number
        )
        for item in group.members
        for number in [item.group.index if item.group else 0]
    ]
    return SubmittedGroup(
        group.event.group, group.event.client_id, group.event.group in known, members
    )


def _make_kind(group: PreparedGroup) -> GroupKind:
    """What decides where the group is able to run, of the roles that have members."""
    first: dict[str, events.JobSubmitted] = {}
    for member in group.members:
        assert member.group is not None
        first.setdefault(member.group.role, member)
    terms = group.event.terms
    minima = {role.name: role.min for role in terms.roles}
    return GroupKind(
        tuple(
            group_feasibility.make_role_kind(name, minima[name], member)
            for name, member in first.items()
        ),
        terms.topology,
    )
