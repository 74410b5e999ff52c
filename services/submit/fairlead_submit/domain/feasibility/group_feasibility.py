"""Whether the minimal set of a group could ever run: its roles one by one, and all together.

As `job_feasibility`, for groups: the roles start together, within the limits of the queue, and in
one domain of a required level. Which labels are levels of the pool only the scheduler knows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.records.events import JobSubmitted
from fairlead_common.domain.records.group_terms import Topology, TopologyMode, TopologyScope
from fairlead_common.domain.scheduling import shapes
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_submit.domain.feasibility import job_feasibility, joint_capacity
from fairlead_submit.domain.feasibility.job_feasibility import FEASIBLE, JobKind, Verdict
from fairlead_submit.domain.feasibility.joint_capacity import Part

HOSTNAMES: Final = ("hostname", "kubernetes.io/hostname")
"""Names of a level that every pool can have: the node itself."""


class RoleKind(msgspec.Struct, frozen=True):
    """A role: its members, and how many start together (0: the group runs without it)."""

    name: str
    kind: JobKind
    minimum: int


class GroupKind(msgspec.Struct, frozen=True):
    """Groups that are equal in everything that decides where they are able to run."""

    roles: tuple[RoleKind, ...]
    topology: Topology | None


class GroupVerdict(msgspec.Struct, frozen=True):
    """Whether each role could run alone, by name, and whether the group could."""

    roles: Mapping[str, Verdict]
    group: Verdict


def make_role_kind(name: str, minimum: int, member: JobSubmitted) -> RoleKind:
    """A role with members like this one; `minimum` of them start together."""
    shape = bytes(member.shape)
    kind = JobKind(shape, member.priority_class, member.pool, members=max(minimum, 1))
    return RoleKind(name, kind, minimum)


def check_groups(
    groups: Iterable[GroupKind],
    nodes: Sequence[Node],
    queue: Queue,
    classes: Mapping[str, PriorityClass],
) -> dict[GroupKind, GroupVerdict]:
    """The verdict for each kind."""
    wanted = list(dict.fromkeys(groups))
    kinds = [role.kind for group in wanted for role in group.roles]
    verdicts = job_feasibility.check_feasibility(kinds, nodes, queue, classes)
    by_pool = job_feasibility.group_by_pool(nodes)
    left = job_feasibility.CHECKS_MAX
    found: dict[GroupKind, GroupVerdict] = {}
    for group in wanted:
        there = by_pool.get(group.roles[0].kind.pool, []) if group.roles else []
        left -= len(there) * len(group.roles)
        roles = {role.name: verdicts[role.kind] for role in group.roles}
        check = _GroupCheck(group, there, queue, classes)
        found[group] = (
            check.combine(roles) if left >= 0 else GroupVerdict(roles, _sum_up(group, roles))
        )
    return found


def find_new_demand(role: JobKind, before: Sequence[JobKind], nodes: Iterable[Node]) -> str | None:
    """What a new template asks of its pool that no node there is known to have, and that members
    with one of the templates `before` did not ask.

    It could be a floating resource, or a pool whose nodes are still to come: only the scheduler
    knows.
    """
    there = [node for node in nodes if node.pool == role.pool]
    known = [kind for kind in before if kind.pool == role.pool]
    if not there:
        return None if known else f"pool {role.pool!r} has no nodes"
    asked = {name for kind in known for name in shapes.decode(kind.shape).requests}
    for name in shapes.decode(role.shape).requests:
        if name not in asked and not any(name in node.allocatable for node in there):
            return f"no node of pool {role.pool!r} has {name}"
    return None


def _sum_up(group: GroupKind, roles: Mapping[str, Verdict]) -> Verdict:
    """The verdict for the group by those for the roles that it needs."""
    needed = [role.name for role in group.roles if role.minimum]
    for feasible in (False, None):
        for name in needed:
            if roles[name].feasible is feasible:
                return Verdict(feasible, f"role {name}: {roles[name].why}")
    return FEASIBLE


class _GroupCheck:
    """Checks a group against the nodes of its pool."""

    def __init__(
        self,
        group: GroupKind,
        nodes: Sequence[Node],
        queue: Queue,
        classes: Mapping[str, PriorityClass],
    ) -> None:
        self._group = group
        self._nodes = nodes
        self._queue = queue
        self._classes = classes

    def combine(self, roles: Mapping[str, Verdict]) -> GroupVerdict:
        """The verdict for the group, and for its roles as far as the group changes them."""
        if not self._nodes:
            return GroupVerdict(roles, _sum_up(self._group, roles))
        topology = self._group.topology
        level = ""
        if topology is not None and topology.mode is TopologyMode.REQUIRED:
            level = topology.level
        labels = list(self._find_labels(level)) if level else []
        if level and not labels:
            missing = Verdict(False, self._describe_missing(level))
            return GroupVerdict(dict.fromkeys(roles, missing), missing)
        parts = self._make_parts()
        if labels:
            roles = self._check_domains(roles, parts, labels)
        alone = _sum_up(self._group, roles)
        if alone.feasible is False:
            return GroupVerdict(roles, alone)
        is_whole = topology is not None and topology.scope is TopologyScope.GROUP
        why = None
        if len(parts) > 1:
            why = self._find_exceeded_limit()
            why = why or joint_capacity.explain_shortage(parts, self._nodes)
            if labels and is_whole:
                why = why or self._explain_domains(parts, labels)
        return GroupVerdict(roles, alone if why is None else Verdict(False, why))

    def _make_parts(self) -> list[Part]:
        """The minimal set by role. What no node has is left out: it could be a floating resource,
        which is not on nodes."""
        found = []
        on_nodes = {name for node in self._nodes for name in node.allocatable}
        for role in self._group.roles:
            if not role.minimum:
                continue
            shape = shapes.decode(role.kind.shape)
            requests = {name: amount for name, amount in shape.requests.items() if name in on_nodes}
            priority_class = self._classes[role.kind.priority_class]
            eligible = job_feasibility.list_eligible(shape, self._nodes, priority_class)
            found.append(joint_capacity.make_part(role.name, role.minimum, requests, eligible))
        return found

    def _check_domains(
        self, roles: Mapping[str, Verdict], parts: Sequence[Part], labels: Sequence[str]
    ) -> dict[str, Verdict]:
        """The verdicts for roles that need one domain of the required level each."""
        found = dict(roles)
        for part in parts:
            if found[part.name].feasible is not False:
                why = self._explain_domains([part], labels)
                if why is not None:
                    found[part.name] = Verdict(False, why)
        return found

    def _explain_domains(self, parts: Sequence[Part], labels: Sequence[str]) -> str | None:
        """Why these members fit in no domain of any of the labels that the level can be."""
        why = None
        for label in labels:
            values = [
                f"{node.name} ({node.executor})" if label in HOSTNAMES else node.labels.get(label)
                for node in self._nodes
            ]
            why = joint_capacity.explain_domain_shortage(parts, self._nodes, label, values)
            if why is None:
                return None
        return why

    def _find_labels(self, level: str) -> Iterator[str]:
        """The labels of nodes that a level can be: its key, or the last part of its key."""
        if level in HOSTNAMES:
            yield level
            return
        for label in dict.fromkeys(label for node in self._nodes for label in node.labels):
            if level in (label, label.rpartition("/")[2]):
                yield label

    def _describe_missing(self, level: str) -> str:
        return (
            f"no node of pool {self._nodes[0].pool!r} has a label {level!r}, which"
            " `topology.level` requires; the group would wait for such a node"
        )

    def _find_exceeded_limit(self) -> str | None:
        kinds = [role.kind for role in self._group.roles if role.minimum]
        excess = job_feasibility.find_exceeded_group_limit(
            kinds, self._nodes, self._queue, self._classes
        )
        return None if excess is None else f"the group {excess}"
