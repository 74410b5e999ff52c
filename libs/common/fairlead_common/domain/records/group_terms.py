"""The terms of groups, and the membership of jobs in them, as events contain them."""

from enum import StrEnum

import msgspec

from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.records.value_ranges import Int32, Seconds


class MemberFailure(StrEnum):
    """What the failure of a member, after its own retries, means for its group."""

    RESTART_MEMBER = "restartMember"
    """The member starts again if every role still has its minimum, else the whole group does."""
    RESTART_GROUP = "restartGroup"
    FAIL = "fail"


class TopologyMode(StrEnum):
    """Whether members must be in one domain of a level, or only as close as possible (T2)."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class TopologyScope(StrEnum):
    """Which members must be close to each other."""

    ROLE = "role"
    """Those of each role."""
    GROUP = "group"


class Topology(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Where members of a group are relative to each other (rules T).

    `level`: one of the pool's, by its label or the last part of it; or `max_hops`: the widest level
    of at most this distance.
    """

    level: str = ""
    max_hops: Int32 | None = None
    mode: TopologyMode = TopologyMode.REQUIRED
    scope: TopologyScope = TopologyScope.ROLE


class GroupChangeKind(StrEnum):
    """What a change of a group is about."""

    SCALED = "scaled"
    """The number of members of roles."""
    UPDATED = "updated"
    """The priority of its members, or how it grows."""
    RECREATED = "recreated"
    """The template of a role: all members stop, and members of a new generation are submitted."""


class GroupRole(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Identical members of a group: `min` that it needs to run, and `max` that there are."""

    name: str
    min: Int32
    max: Int32


class Rendezvous(StrEnum):
    """The framework by whose variables members of a group find each other."""

    TORCH = "torch"


class GroupNetwork(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How members of a group find each other.

    `headless_service`: on Kubernetes `<role>-<index>.<service>` resolves. `rendezvous`: which
    variables members get.
    """

    headless_service: bool = False
    rendezvous: Rendezvous | None = None


class Group(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What members of a distributed job have in common (rules G and C).

    `completion_roles`: the group succeeds when `completion_count` members of these roles have
    succeeded (None = all of them); () = all roles. `startup`: roles whose members start after those
    of the roles before have started; () = all at once. `priority`: what all members were given
    after the submission (None = nothing). `generation`: members of an earlier one are stopped.
    """

    roles: tuple[GroupRole, ...]
    completion_roles: tuple[str, ...] = ()
    completion_count: Int32 | None = None
    on_member_failure: MemberFailure = MemberFailure.RESTART_MEMBER
    restart_limit: Int32 = 3
    freeze_s: Seconds = 0
    step_max: Int32 = 0
    startup: tuple[str, ...] = ()
    network: GroupNetwork = GroupNetwork()
    topology: Topology | None = None
    priority: Int32 | None = None
    generation: Int32 = 1


class GroupMember(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The group of a job and its place there. `index` counts from 0 within the role.

    `generation` counts how often the members of the group have been replaced by new ones.
    """

    group: GroupId
    role: str
    index: Int32
    generation: Int32 = 1
