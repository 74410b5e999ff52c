"""Users of groups: they submit, scale, re-create, restart and cancel them, and repeat themselves.

`GroupTable` is what lookout's tables have of groups, by the conditions of its statements.
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from fairlead_common.domain.ids import GroupId, JobId, client_job_id, job_set_partition
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import MemberFailure
from fairlead_common.domain.records.group_terms import Topology, TopologyMode, TopologyScope
from fairlead_lookout.domain.groups.group_fold import FINAL
from fairlead_lookout.domain.groups.group_records import GroupChanges
from tests.simulation.simulated_users import QUEUES
from tests.simulation.world import World, Writer

GROUPS_MAX = 6
TOPOLOGIES = (
    Topology(level="rack"),
    Topology(level="zone", scope=TopologyScope.GROUP),
    Topology(level="hostname", mode=TopologyMode.PREFERRED),
)
MEMBERS_MAX = 60


class SubmittedGroup(msgspec.Struct):
    """A group as its user knows it. `counts`: how many members each place has had.

    `is_raised`: a minimum was raised, which a running group reaches when capacity is free.
    """

    job_set: tuple[str, str]
    terms: ev.Group
    first: list[ev.AnyEvent]
    templates: dict[str, ev.JobSubmitted]
    counts: Counter[tuple[str, int]]
    members: dict[JobId, ev.GroupMember]
    is_raised: bool = False


class GroupUsers:
    """All requests about groups. `submitted` receives the members; `state_of`: what submit sees."""

    def __init__(
        self,
        world: World,
        submitted: dict[JobId, tuple[str, str, ev.JobSubmitted]],
        make_job: Callable[[str, str], ev.JobSubmitted],
        state_of: Callable[[JobId], JobState | None],
    ) -> None:
        self._world = world
        self._writer = Writer(world, "submit-groups")
        self._submitted = submitted
        self._make_job = make_job
        self._state_of = state_of
        self.groups: dict[GroupId, SubmittedGroup] = {}

    def turn(self) -> None:
        """One request."""
        chance = self._world.chance
        kinds = ("submit", "repeat", "scale", "recreate", "restart", "cancel", "preempt")
        kind = chance.choices(kinds, (3, 1, 3, 1, 1, 0.3, 1))[0]
        if kind == "submit":
            if len(self.groups) < GROUPS_MAX:
                self._submit()
            return
        if not self.groups:
            return
        group = chance.choice(list(self.groups))
        known = self.groups[group]
        match kind:
            case "repeat":
                self._write(known, *known.first)
            case "scale" if sum(known.counts.values()) < MEMBERS_MAX:
                self._scale(group, known)
            case "recreate" if sum(known.counts.values()) < MEMBERS_MAX:
                self._recreate(group, known)
            case "restart":
                self._write(known, ev.GroupRestartRequested(group=group, reason="new data"))
            case "cancel":
                self._write(known, ev.GroupCancelRequested(group=group, reason="enough"))
            case "preempt":
                job_id = chance.choice(list(known.members))
                self._write(known, ev.JobPreemptRequested(job_id=job_id))
            case _:
                return

    def _submit(self) -> None:
        chance = self._world.chance
        queue, job_set = chance.choice(QUEUES), "groups"
        name = f"group-{len(self.groups)}"
        group = GroupId(client_job_id(job_set_partition(queue, job_set), queue, job_set, name))
        least = chance.randint(1, 2)
        roles = (
            ev.GroupRole("server", 1, 1),
            ev.GroupRole("worker", least, least + chance.randint(0, 2)),
        )
        terms = ev.Group(
            roles=roles,
            completion_roles=chance.choice(((), ("worker",))),
            on_member_failure=chance.choice(list(MemberFailure)),
            restart_limit=chance.randint(0, 3),
            freeze_s=chance.choice((0, 30)),
            step_max=chance.choice((0, 1)),
            topology=chance.choice((None, None, *TOPOLOGIES)),
        )
        known = SubmittedGroup((queue, job_set), terms, [], {}, Counter(), {})
        self.groups[group] = known
        self._renew_templates(known)
        announced = ev.GroupSubmitted(group=group, terms=terms, digest=name, client_id=name)
        known.first = [announced, *self._make_members(group, known)]
        self._write(known, *known.first)

    def _renew_templates(self, known: SubmittedGroup) -> None:
        """A template for each role; the minimal members fit on the nodes one by one."""
        for role in known.terms.roles:
            job = self._make_job(*known.job_set)
            known.templates[role.name] = msgspec.structs.replace(job, queue_s_max=None)

    def _scale(self, group: GroupId, known: SubmittedGroup) -> None:
        server, before = known.terms.roles
        least = self._world.chance.choice((1, before.min, before.min, 2))
        known.is_raised |= least > before.min
        worker = ev.GroupRole("worker", least, least + self._world.chance.randint(0, 3))
        roles = (server, worker)
        known.terms = msgspec.structs.replace(known.terms, roles=roles)
        changed = ev.GroupChanged(group=group, terms=known.terms)
        self._write(known, changed, *self._make_members(group, known))

    def _recreate(self, group: GroupId, known: SubmittedGroup) -> None:
        self._renew_templates(known)
        known.terms = msgspec.structs.replace(known.terms, generation=known.terms.generation + 1)
        changed = ev.GroupChanged(
            group=group, terms=known.terms, kind=ev.GroupChangeKind.RECREATED, reason="template"
        )
        self._write(known, changed, *self._make_members(group, known))

    def _make_members(self, group: GroupId, known: SubmittedGroup) -> list[ev.JobSubmitted]:
        """The members that the group lacks: without one that is live or has succeeded."""
        present = {
            (member.role, member.index)
            for job_id, member in known.members.items()
            if member.generation == known.terms.generation
            and self._state_of(job_id) not in JOB_ENDED - {JobState.SUCCEEDED}
        }
        queue, job_set = known.job_set
        made = []
        for role in known.terms.roles:
            for index in range(role.max):
                if (role.name, index) in present:
                    continue
                known.counts[role.name, index] += 1
                name = f"{group}/{role.name}-{index}~{known.counts[role.name, index]}"
                job_id = client_job_id(job_set_partition(queue, job_set), queue, job_set, name)
                member = ev.GroupMember(group, role.name, index, known.terms.generation)
                job = msgspec.structs.replace(
                    known.templates[role.name], job_id=job_id, client_id=name, group=member
                )
                known.members[job_id] = member
                self._submitted[job_id] = (queue, job_set, job)
                made.append(job)
        return made

    def _write(self, known: SubmittedGroup, *facts: ev.AnyEvent) -> None:
        self._writer.append_surely(ev.records(*known.job_set, "user", list(facts)))


class GroupTable:
    """The state, restarts and members of groups by the rows that lookout's fold writes."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.restarts: Counter[str] = Counter()
        self.members: dict[str, tuple[str, str, int, int]] = {}

    def write(self, changes: GroupChanges) -> None:
        """As the statements `add_groups`, `add_members` and `change_groups` do."""
        for row in changes.new:
            self.states.setdefault(row.group_id, "QUEUED")
        for member in changes.members:
            place = (member.group_id, member.role, member.number, member.generation)
            self.members.setdefault(member.job_id, place)
        for group, change in changes.changes.items():
            if group not in self.states or self.states[group] in FINAL:
                continue
            self.states[group] = change.state or self.states[group]
            if change.is_recreated:
                self.restarts[group] = 0
            self.restarts[group] += change.restarts
