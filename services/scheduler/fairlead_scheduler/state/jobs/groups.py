"""Groups of roles as the scheduler knows them (rules G and C): terms, members that ended, state.

A group is a gang with roles: its members are in `View.gang_members` under `gang_name`, and its
`GangTerms` name the roles. `GroupState` has the rest of a group. A group is in the
view from its submission until it has ended and all its members have.
"""

import zlib
from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.jobs.job_table import GangName, GangTerms, JobSet, RoleTerms


class GroupPhase(StrEnum):
    """Where a group is in its life. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL_PHASES: Final = frozenset({GroupPhase.SUCCEEDED, GroupPhase.FAILED, GroupPhase.CANCELLED})
FINAL_STATES: Final = {
    GroupPhase.SUCCEEDED: JobState.SUCCEEDED,
    GroupPhase.FAILED: JobState.FAILED,
    GroupPhase.CANCELLED: JobState.CANCELLED,
}
"""An ended group is remembered among the ended jobs: its id has the form of a job id."""


class GroupState(msgspec.Struct):
    """A group. Saved as JSON; fields grow with defaults."""

    group: GroupId
    job_set: JobSet
    terms: ev.Group
    digest: str
    submitted_ms: int
    client_id: str | None = None
    labels: dict[str, str] = {}
    phase: GroupPhase = GroupPhase.QUEUED
    reason: str = ""
    """Why it last restarted or ended."""
    restarts: int = 0
    """Restarts, of the group and of single members, that count against `restart_limit`."""
    cancel_reason: str | None = None
    """Why it is to be cancelled; None if nobody has requested that."""
    lost_reason: str | None = None
    """Which member that the group needs ended without success."""
    restart_reason: str | None = None
    """Why it is to stop and to start again; None if nobody has requested that since its last
    restart."""
    succeeded: dict[str, set[int]] = {}
    """Role -> indexes of members that succeeded."""
    ended: dict[str, set[int]] = {}
    """Role -> indexes of members that ended, the succeeded ones included. A new member with an
    index takes it out again."""
    used: dict[str, int] = {}
    """Resource -> amount x milliseconds, of all runs of members that have ended (G9)."""
    ran_until_ms: int = 0
    """When the last of these runs ended."""
    scaled_ms: int | None = None
    """Append time of the last start or stop of a surplus member by the scheduler (G7)."""

    @property
    def gang_name(self) -> GangName:
        """The name of the group in the tables of gangs."""
        return GangName(self.job_set.queue, self.job_set.name, self.group)

    @property
    def is_final(self) -> bool:
        """Whether the group has ended."""
        return self.phase in FINAL_PHASES


def is_outdated(state: GroupState, member: ev.GroupMember) -> bool:
    """Whether the group has been re-created since this member was submitted."""
    return member.generation != state.terms.generation


def start_generation(state: GroupState) -> None:
    """Start the next generation: forget how members of earlier ones ended."""
    state.phase = GroupPhase.QUEUED
    state.restarts = 0
    state.lost_reason = state.restart_reason = state.scaled_ms = None
    state.succeeded, state.ended = {}, {}


def find_role(terms: ev.Group, name: str) -> ev.GroupRole | None:
    """The role of that name."""
    return next((role for role in terms.roles if role.name == name), None)


def gang_terms(state: GroupState) -> GangTerms:
    """The terms of a group in the form of gang terms.

    The minimum of a role is how many members with an index below its `min` have not ended: those
    that succeeded are not needed any more.
    """
    roles = tuple(
        RoleTerms(role.name, minimum_left(state, role), role.max) for role in state.terms.roles
    )
    return GangTerms(
        size=sum(role.max for role in roles),
        min_size=sum(role.min for role in roles),
        uniformity_label=None,
        rest="wait",
        roles=roles,
        topology=state.terms.topology,
    )


def minimum_left(state: GroupState, role: ev.GroupRole) -> int:
    """How many members of a role the group still needs to run, without members that have ended."""
    over = state.ended.get(role.name, ())
    return role.min - sum(index < role.min for index in over)


def is_needed(terms: ev.Group, member: ev.GroupMember) -> bool:
    """Whether the member is not a surplus member."""
    role = find_role(terms, member.role)
    return role is None or member.index < role.min


def surplus_rank(terms: ev.Group, member: ev.GroupMember) -> int:
    """The place of a member among the surplus members of its group, from 1; 0 for other members.

    A group grows in this order (G2): first the member above the minimum of each role, in the order
    of the roles, then the second one of each, and so on.
    """
    place = next((i for i, role in enumerate(terms.roles) if role.name == member.role), None)
    if place is None or member.index < terms.roles[place].min:
        return 0
    above = member.index - terms.roles[place].min
    return (
        1
        + sum(
            min(max(role.max - role.min, 0), above + (i < place))
            for i, role in enumerate(terms.roles)
            if i != place
        )
        + above
    )


def find_master(state: GroupState) -> tuple[str, int] | None:
    """The role and index of the master, at which the other members meet: the member with rank 0.
    None if it has ended or the members do not meet."""
    if state.terms.network.rendezvous is None:
        return None
    role = next(role for role in state.terms.roles if role.min)
    return None if 0 in state.ended.get(role.name, ()) else (role.name, 0)


def rank_of_member(terms: ev.Group, member: ev.GroupMember) -> int:
    """The rank of a member, from 0: first the minima of the roles in their order, then surplus."""
    above = surplus_rank(terms, member)
    if above:
        return sum(role.min for role in terms.roles) + above - 1
    before = 0
    for role in terms.roles:
        if role.name == member.role:
            break
        before += role.min
    return before + member.index


RENDEZVOUS_PORT_MIN: Final = 10_000
RENDEZVOUS_PORTS: Final = 20_000
"""Ports below those that the kernel gives to clients (from 32,768)."""


def rendezvous_port(group: GroupId) -> int:
    """The port at which the members of a group meet.

    It follows from the id, so that groups that share the addresses of a machine rarely have the
    same one.
    """
    return RENDEZVOUS_PORT_MIN + zlib.crc32(group.encode()) % RENDEZVOUS_PORTS
