"""The types of request bodies about groups. As in `request_types`, every field is optional."""

from typing import Annotated, Final

from msgspec import Meta

from fairlead_common.domain.records.group_terms import (
    MemberFailure,
    Rendezvous,
    TopologyMode,
    TopologyScope,
)
from fairlead_submit.domain.request_types import ClientId, Int32, Job, Name, Reason, Request, Texts

ROLES_MAX: Final = 100
MEMBERS_MAX: Final = 10_000
"""The largest sum of the maxima of a group's roles."""
RESTARTS_MAX: Final = 1_000
FREEZE_S_MAX: Final = 86_400
ROLE_NAME_MAX: Final = 40
LEVEL_MAX: Final = 317
"""The longest key of a node label."""
HOPS_MAX: Final = 1_000

Count = Annotated[int, Meta(ge=0, le=MEMBERS_MAX)]


class Role(Request, kw_only=True):
    """Identical members of a group: `min` that it needs to run, and `max` that there are.

    `template`: every field of a job except `gang`, `after` and `clientId`.
    """

    name: Name | None = None
    min: Count | None = None
    max: Count | None = None
    template: Job | None = None


class Completion(Request, kw_only=True):
    """The group succeeds when `count` members of these roles have succeeded (null: all)."""

    roles: Annotated[list[Name], Meta(max_length=ROLES_MAX)] | None = None
    count: Annotated[int, Meta(ge=1, le=MEMBERS_MAX)] | None = None


class Elastic(Request, kw_only=True):
    """How a group grows: for `freezeSeconds` after a surplus member started or was stopped by the
    scheduler no other one starts or is preempted for balance; at most `stepMax` surplus members of
    a role start per round (0: no limit).
    """

    freeze_seconds: Annotated[int, Meta(ge=0, le=FREEZE_S_MAX)] | None = None
    step_max: Count | None = None


class Network(Request, kw_only=True):
    """How members find each other. `headlessService`: on Kubernetes `<role>-<index>.<group>`
    resolves to the address of a member. `rendezvous`: `torch` sets `MASTER_ADDR`, `MASTER_PORT`,
    `RANK` and `WORLD_SIZE`.
    """

    headless_service: bool | None = None
    rendezvous: Rendezvous | None = None


class Topology(Request, kw_only=True):
    """Where members are relative to each other: in one domain of a level of the pool's topology
    (`required`), or as close as possible (`preferred`).

    `level`: a node label of the pool's topology, or its last part. `maxHops` instead of it: the
    widest level in which two nodes are at most so far apart. `scope`: whether the members of each
    `role` must be close to each other (the default), or all of the `group`.
    """

    level: Annotated[str, Meta(min_length=1, max_length=LEVEL_MAX)] | None = None
    max_hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)] | None = None
    mode: TopologyMode | None = None
    scope: TopologyScope | None = None


class Group(Request, kw_only=True):
    """A distributed job. `labels`, `priority` and `priorityClass` apply to all its members.

    `startup`: roles in the order in which their members start; members of other roles do not wait.
    """

    client_id: ClientId | None = None
    priority_class: Name | None = None
    priority: Int32 | None = None
    labels: Texts | None = None
    roles: Annotated[list[Role], Meta(max_length=ROLES_MAX)] | None = None
    completion: Completion | None = None
    on_member_failure: MemberFailure | None = None
    restart_limit: Annotated[int, Meta(ge=0, le=RESTARTS_MAX)] | None = None
    elastic: Elastic | None = None
    startup: Annotated[list[Name], Meta(max_length=ROLES_MAX)] | None = None
    network: Network | None = None
    topology: Topology | None = None


class GroupSubmission(Request, kw_only=True):
    """The body of `POST /api/v1/groups`."""

    queue: str | None = None
    job_set: str | None = None
    groups: list[Group] | None = None


class RoleChange(Request, kw_only=True):
    """New numbers of members of a role, or a new template; what is absent stays as it is."""

    name: Name | None = None
    min: Count | None = None
    max: Count | None = None
    template: Job | None = None


class GroupChange(Request, kw_only=True):
    """The body of `PATCH /api/v1/groups/{group}`; what is absent stays as it is.

    `priority` applies to all members. A different template re-creates the group: all members stop,
    and new ones are submitted for all of them.
    """

    roles: Annotated[list[RoleChange], Meta(min_length=1, max_length=ROLES_MAX)] | None = None
    priority: Int32 | None = None
    elastic: Elastic | None = None


class GroupAction(Request, kw_only=True):
    """The body of a restart or a cancellation."""

    reason: Reason | None = None


NOT_SUPPORTED: Final = {
    "rendezvous": "is a field of `network`: write `network: {rendezvous: torch}`",
    "order": "belongs to the queue: set `order: fair` or `order: fifo` of the queue",
}
"""Fields of a group that this version refuses, and what is said about each."""

REQUIRED: Final[dict[type, tuple[str, ...]]] = {
    GroupSubmission: ("queue", "jobSet", "groups"),
    Group: ("roles",),
    Role: ("name", "min", "template"),
    RoleChange: ("name",),
}
"""Required fields by type, by their names in JSON."""
