"""From a submission of groups to events with ids, or to all its errors."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.ids import GroupId, JobId
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import MemberFailure
from fairlead_common.domain.records.group_terms import (
    GroupNetwork,
    Topology,
    TopologyMode,
    TopologyScope,
)
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import validation_problem
from fairlead_submit.domain import name_rules
from fairlead_submit.domain.groups import group_types
from fairlead_submit.domain.groups.group_types import Group, GroupSubmission, Role
from fairlead_submit.domain.jobs.job_templates import JobTemplate, JobTemplates, SharedTerms
from fairlead_submit.domain.jobs.submission import IdSource
from fairlead_submit.domain.policy import Limits
from fairlead_submit.domain.request_types import CLIENT_ID_MAX, Job
from fairlead_submit.domain.secret_variables import QueueSecrets

_ROLE_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?")
_SERVICE_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LEVEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?")
_REFUSED: Final = re.compile(r"/groups/\d+/([A-Za-z]+)")
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
_NO_JOB: Final = Job()


class PreparedGroup(msgspec.Struct, frozen=True):
    """A group that is ready for the log, with its members in the order of roles and indexes."""

    event: events.GroupSubmitted
    members: list[events.JobSubmitted]


class PreparedGroups(msgspec.Struct, frozen=True):
    """The groups of a request, in the given order."""

    queue: str
    job_set: str
    partition: int
    groups: list[PreparedGroup]


def explain_refused_fields(found: list[FieldError]) -> list[FieldError]:
    """The errors, with a better detail for fields of a group that are not supported yet."""
    return [
        FieldError(error.pointer, group_types.NOT_SUPPORTED[match[1]])
        if (match := _REFUSED.fullmatch(error.pointer)) and match[1] in group_types.NOT_SUPPORTED
        else error
        for error in found
    ]


def prepare_groups(
    request: GroupSubmission,
    known: list[FieldError],
    templates: JobTemplates,
    limits: Limits,
    source: IdSource,
    secrets: QueueSecrets | None = None,
) -> tuple[PreparedGroups, list[FieldError]]:
    """The groups as events, and every error, `known` ones first.

    Whether the queue exists is not checked here. If there are errors, the groups have no meaning.
    Raises a 422 `Problem` for too many errors, and a 413 for members that exceed the size limit.
    """
    known = explain_refused_fields(known)
    found: list[FieldError] = []
    queue, job_set = request.queue, request.job_set
    if queue is None:
        found.append(FieldError("/queue", "is missing"))
    elif detail := name_rules.check_name(queue):
        found.append(FieldError("/queue", detail))
    if job_set is None:
        found.append(FieldError("/jobSet", "is missing"))
    elif detail := name_rules.check_job_set_name(job_set):
        found.append(FieldError("/jobSet", detail))
    groups = request.groups or []
    if request.groups is None:
        found.append(FieldError("/groups", "is missing"))
    elif not groups:
        found.append(FieldError("/groups", "has no group; at least one is required"))
    members = sum(_find_maximum(role) for group in groups for role in group.roles or ())
    if len(groups) > limits.jobs_max or (members > limits.jobs_max and len(groups) > 1):
        detail = (
            f"have {members} members; at most {limits.jobs_max} are allowed in one request. Send"
            " them in several requests"
        )
        found.append(FieldError("/groups", detail))
        groups = []
    found += _check_client_ids(groups)
    reader = _GroupReader(queue or "", job_set or "", templates, source, secrets)
    prepared = [reader.read(f"/groups/{index}", group) for index, group in enumerate(groups)]
    found += reader.found
    if reader.size > limits.events_bytes_max:
        advice = "Send the groups in several requests."
        if len(groups) == 1:
            advice = "A group is one request: lower `max` of its roles, or shorten the templates."
        raise Problem(
            "too-large",
            f"The members take {reader.size} bytes; at most {limits.events_bytes_max} are allowed"
            f" in one request. {advice}",
        )
    made = PreparedGroups(queue or "", job_set or "", reader.partition, prepared)
    return made, [*known, *validation.without_implied(found, known)]


def _find_maximum(role: Role) -> int:
    """The maximum of a role: without one, its minimum."""
    return (role.min if role.max is None else role.max) or 0


def _check_client_ids(groups: Sequence[Group]) -> Iterator[FieldError]:
    counts = Counter(group.client_id for group in groups if group.client_id is not None)
    for index, group in enumerate(groups):
        text, pointer = group.client_id, f"/groups/{index}/clientId"
        if text is None:
            continue
        if counts[text] > 1:
            detail = f"{validation.quote(text)} is the clientId of several groups of this request"
            yield FieldError(pointer, detail)
        if detail_of_text := name_rules.check_printable(text):
            yield FieldError(pointer, detail_of_text)


class _RoleMembers(msgspec.Struct, frozen=True):
    """A role without errors, and the template of its members."""

    terms: events.GroupRole
    template: JobTemplate


class _GroupReader:
    """Makes events of groups of one job set, and collects all errors and the size (bytes)."""

    def __init__(
        self,
        queue: str,
        job_set: str,
        templates: JobTemplates,
        source: IdSource,
        secrets: QueueSecrets | None,
    ) -> None:
        self.found: list[FieldError] = []
        self.size = 0
        self.partition = ids.job_set_partition(queue, job_set)
        self._queue = queue
        self._job_set = job_set
        self._templates = templates
        self._source = source
        self._secrets = secrets
        self._new_ids = 0

    def read(self, pointer: str, group: Group) -> PreparedGroup:
        """The events of the group; they have no meaning if there are errors."""
        before = len(self.found)
        roles = self._read_roles(pointer, group)
        terms = events.Group(
            roles=tuple(role.terms for role in roles),
            completion_roles=tuple(group.completion.roles or ()) if group.completion else (),
            completion_count=group.completion.count if group.completion else None,
            on_member_failure=group.on_member_failure or MemberFailure.RESTART_MEMBER,
            restart_limit=3 if group.restart_limit is None else group.restart_limit,
            freeze_s=(group.elastic.freeze_seconds or 0) if group.elastic else 0,
            step_max=(group.elastic.step_max or 0) if group.elastic else 0,
            startup=tuple(group.startup or ()),
            network=_read_network(group.network),
            topology=None if group.topology is None else _make_topology(group.topology),
        )
        if group.topology is not None:
            self.found += _check_topology(f"{pointer}/topology", group.topology)
        if len(self.found) == before:
            self.found += check_terms(pointer, terms)
            self.found += _check_startup(pointer, terms)
            self.found += _check_service_name(pointer, group.client_id, terms.network)
        group_id, name = self._make_id(group.client_id)
        event = events.GroupSubmitted(
            group=group_id,
            terms=terms,
            digest=_make_digest(group, terms, roles),
            client_id=group.client_id,
            labels=group.labels or {},
        )
        if len(self.found) > before:
            if len(self.found) >= validation.ERRORS_MAX:
                raise validation_problem(self.found)
            return PreparedGroup(event, [])
        self._check_length(f"{pointer}/clientId", name, terms)
        templates = {role.terms.name: role.template.event for role in roles}
        self.size += sum(role.terms.max * role.template.size for role in roles)
        places = [(role.name, index) for role in terms.roles for index in range(role.max)]
        return PreparedGroup(
            event, make_members(self._queue, self._job_set, group_id, name, templates, places)
        )

    def _make_id(self, client_id: str | None) -> tuple[GroupId, str]:
        """The group's id, and the name with which the client ids of its members begin."""
        if client_id is not None:
            name = f"group\0{client_id}"
            made = ids.client_job_id(self.partition, self._queue, self._job_set, name)
            return GroupId(made), client_id
        number = self._source.random_79 + self._new_ids
        self._new_ids += 1
        made = ids.new_job_id(self.partition, self._source.now_ms, number)
        return GroupId(made), made

    def _check_length(self, pointer: str, name: str, terms: events.Group) -> None:
        longest = max(len(f"{name}/{role.name}-{max(role.max - 1, 0)}") for role in terms.roles)
        if longest > CLIENT_ID_MAX:
            detail = (
                f"is too long: a member's clientId, which is `<group>/<role>-<index>`, would have"
                f" {longest} characters; at most {CLIENT_ID_MAX} are allowed"
            )
            self.found.append(FieldError(pointer, detail))

    def _read_roles(self, pointer: str, group: Group) -> list[_RoleMembers]:
        if not group.roles:
            detail = (
                "is missing" if group.roles is None else "has no role; at least one is required"
            )
            self.found.append(FieldError(f"{pointer}/roles", detail))
            return []
        common = Job(
            priority_class=group.priority_class, priority=group.priority, labels=group.labels
        )
        shared = self._templates.make_shared_terms(
            self._queue, None if common == _NO_JOB else common, self._secrets
        )
        read = [
            self._read_role(pointer, f"{pointer}/roles/{index}", role, shared)
            for index, role in enumerate(group.roles)
        ]
        first: dict[str, int] = {}
        for index, role in enumerate(group.roles):
            if role.name is not None and first.setdefault(role.name, index) != index:
                detail = f"{validation.quote(role.name)} is the name of another role of this group"
                self.found.append(FieldError(f"{pointer}/roles/{index}/name", detail))
        roles = [role for role in read if role is not None]
        for index, each in enumerate(read):
            if each is not None and each.template.event.pool != roles[0].template.event.pool:
                detail = (
                    f"differs from {roles[0].template.event.pool!r}, the pool of role"
                    f" {roles[0].terms.name}; all members of a group run in one pool"
                )
                place = f"{pointer}/roles/{index}/template/pool"
                self.found.append(FieldError(place, detail))
        return roles

    def _read_role(
        self, group_pointer: str, pointer: str, role: Role, shared: SharedTerms
    ) -> _RoleMembers | None:
        before = len(self.found)
        if role.name is None:
            self.found.append(FieldError(f"{pointer}/name", "is missing"))
        elif not _ROLE_NAME.fullmatch(role.name):
            detail = (
                f"is not a valid name of a role: use 1 to {group_types.ROLE_NAME_MAX} of a-z, 0-9"
                " and '-', with a letter first and no '-' last"
            )
            self.found.append(FieldError(f"{pointer}/name", detail))
        if role.min is None:
            self.found.append(FieldError(f"{pointer}/min", "is missing"))
        if role.template is None:
            self.found.append(FieldError(f"{pointer}/template", "is missing"))
            return None
        template = self._read_template(group_pointer, f"{pointer}/template", role.template, shared)
        if len(self.found) > before:
            return None
        assert role.name is not None
        assert role.min is not None
        terms = events.GroupRole(role.name, role.min, _find_maximum(role))
        return _RoleMembers(terms, template)

    def _read_template(
        self, group_pointer: str, pointer: str, job: Job, shared: SharedTerms
    ) -> JobTemplate:
        """The template of a role. Errors in what all members share are located at the group."""
        template, found = read_template(pointer, job, self._templates, shared)
        self.found += found
        self.found += [
            FieldError(group_pointer + error.pointer.removeprefix("/defaults"), error.detail)
            for error in template.shared
        ]
        return template


def _read_network(network: group_types.Network | None) -> GroupNetwork:
    if network is None:
        return GroupNetwork()
    return GroupNetwork(network.headless_service or False, network.rendezvous)


def _check_startup(pointer: str, terms: events.Group) -> Iterator[FieldError]:
    """Names in the startup order that are not roles, and roles that are named again (C4)."""
    names = {role.name for role in terms.roles}
    for index, name in enumerate(terms.startup):
        place = f"{pointer}/startup/{index}"
        if name not in names:
            yield FieldError(place, f"{validation.quote(name)} is not a role of this group")
        elif name in terms.startup[:index]:
            detail = f"{validation.quote(name)} is repeated, so it would have to wait for itself"
            yield FieldError(place, detail)


def _check_service_name(
    pointer: str, client_id: str | None, network: GroupNetwork
) -> Iterator[FieldError]:
    """A headless service has the name of its group, which therefore must be a name of DNS."""
    if network.headless_service and not _SERVICE_NAME.fullmatch(client_id or ""):
        detail = (
            "names the headless service, so it must be 1 to 63 of a-z, 0-9 and '-', with a letter"
            " first and no '-' last"
        )
        yield FieldError(f"{pointer}/clientId", detail)


def _make_topology(asked: group_types.Topology) -> Topology:
    return Topology(
        level=asked.level or "",
        max_hops=asked.max_hops,
        mode=asked.mode or TopologyMode.REQUIRED,
        scope=asked.scope or TopologyScope.ROLE,
    )


def _check_topology(pointer: str, asked: group_types.Topology) -> Iterator[FieldError]:
    """What is wrong with a topology. Whether the pool has the level only the scheduler knows."""
    if asked.level is not None and not _LEVEL.fullmatch(asked.level):
        detail = (
            f"{validation.quote(asked.level)} is not the key of a node label, such as"
            " topology.kubernetes.io/rack, or its last part"
        )
        yield FieldError(f"{pointer}/level", detail)
    if asked.max_hops is not None and asked.level is not None:
        yield FieldError(f"{pointer}/maxHops", "says the same as `level`; give only one of them")
    elif asked.max_hops is not None and asked.mode is TopologyMode.PREFERRED:
        detail = "is a required distance; leave out `mode`, or leave out `maxHops`"
        yield FieldError(f"{pointer}/maxHops", detail)
    elif (
        asked.max_hops is None and asked.level is None and asked.mode is not TopologyMode.PREFERRED
    ):
        yield FieldError(pointer, "needs `level` or `maxHops`, unless its `mode` is preferred")


def read_template(
    pointer: str, job: Job, templates: JobTemplates, shared: SharedTerms
) -> tuple[JobTemplate, list[FieldError]]:
    """The template of a role, and its errors except for those in what all members share."""
    found: list[FieldError] = []
    for name, given in (
        ("clientId", job.client_id),
        ("after", job.after),
        ("gang", job.gang),
        ("array", job.array),
    ):
        if given is not None:
            detail = "is not allowed in the template of a role"
            found.append(FieldError(f"{pointer}/{name}", detail))
    plain = msgspec.structs.replace(job, client_id=None, after=None, gang=None, array=None)
    template = templates.get(plain, shared)
    found += [FieldError(pointer + error.pointer, error.detail) for error in template.errors]
    if template.event.gang is not None and job.gang is None:
        detail = "name a gang, which is not allowed in the template of a role"
        found.append(FieldError(f"{pointer}/annotations", detail))
    return template, found


def check_terms(pointer: str, terms: events.Group) -> Iterator[FieldError]:
    """What is wrong with the numbers and the completion of a group."""
    for index, role in enumerate(terms.roles):
        if role.min > role.max:
            detail = f"is {role.min}, more than the maximum of {role.max}"
            yield FieldError(f"{pointer}/roles/{index}/min", detail)
    most = sum(role.max for role in terms.roles)
    if most > group_types.MEMBERS_MAX:
        detail = f"have {most} members; at most {group_types.MEMBERS_MAX} are allowed in a group"
        yield FieldError(f"{pointer}/roles", detail)
    if not any(role.min for role in terms.roles):
        detail = "need no member: the `min` of at least one role must be 1 or more"
        yield FieldError(f"{pointer}/roles", detail)
    names = {role.name: role for role in terms.roles}
    unknown = [name for name in terms.completion_roles if name not in names]
    for index, name in enumerate(terms.completion_roles):
        place = f"{pointer}/completion/roles/{index}"
        if name not in names:
            yield FieldError(place, f"{validation.quote(name)} is not a role of this group")
        elif name in terms.completion_roles[:index]:
            yield FieldError(place, f"{validation.quote(name)} is repeated")
    if unknown:
        return
    members = sum(names[name].max for name in terms.completion_roles or names)
    if not members:
        yield FieldError(f"{pointer}/completion/roles", "have no members, so they cannot succeed")
    elif (terms.completion_count or 0) > members:
        detail = f"is {terms.completion_count}, but these roles have at most {members} members"
        yield FieldError(f"{pointer}/completion/count", detail)


def _make_digest(group: Group, terms: events.Group, roles: Sequence[_RoleMembers]) -> str:
    """A digest of what the client sent: secret values only by the digests of the templates."""
    text = _encode(
        (
            terms,
            [role.template.event.digest for role in roles],
            group.labels,
            group.priority_class,
            group.priority,
        )
    )
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def make_members(
    queue: str,
    job_set: str,
    group: GroupId,
    name: str,
    templates: Mapping[str, events.JobSubmitted],
    places: Sequence[tuple[str, int]],
    suffixes: Sequence[str] | None = None,
    generation: int = 1,
) -> list[events.JobSubmitted]:
    """The members at these places (role, index) as events, with ids derived from their names.

    `suffixes` distinguish members from earlier ones of the same place.
    """
    client_ids = [f"{name}/{role}-{index}" for role, index in places]
    if suffixes is not None:
        client_ids = [text + more for text, more in zip(client_ids, suffixes, strict=True)]
    partition = ids.job_set_partition(queue, job_set)
    job_ids: list[JobId] = ids.client_job_ids(partition, queue, job_set, client_ids)
    return [
        msgspec.structs.replace(
            templates[role],
            job_id=job_id,
            client_id=client_id,
            group=events.GroupMember(group, role, index, generation),
        )
        for (role, index), job_id, client_id in zip(places, job_ids, client_ids, strict=True)
    ]
