"""The form of a case: the structs of its YAML, and the priority classes of every case.

Unknown keys are errors. Simulations read nodes in the same form.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from fairlead_common.domain.records import clusters, group_terms
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_common.domain.scheduling.priority_classes import (
    AwayNodeType,
    Preemption,
    PriorityClass,
)
from fairlead_common.service import yaml_loader
from fairlead_scheduler.state.pool_rules import Rules

V = TypeVar("V")
Amount = str | int | float
Text = str | int | float | bool
"""The value of a label in YAML, where `true` and `1` are not strings."""


def _away(value: int) -> tuple[AwayNodeType, ...]:
    return tuple(
        AwayNodeType(taints=(shapes.Taint(key=kind, value="true"),), value=value)
        for kind in ("gpu", "large")
    )


FIXTURE_CLASSES: Final = (
    *(PriorityClass(name=f"p{value}", value=value) for value in range(4)),
    PriorityClass(name="p2np", value=2, preemption=Preemption.NONE),
    PriorityClass(name="p3np", value=3, preemption=Preemption.NONE),
    PriorityClass(name="p2u", value=2, preemption=Preemption.URGENCY),
    PriorityClass(name="home", value=30_000),
    PriorityClass(name="away", value=30_000, away_node_types=_away(29_000)),
    PriorityClass(name="awaylow", value=30_000, away_node_types=_away(28_000)),
)


class Form(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Common settings of the structs of a case."""


class Taint(Form):
    """A taint of a node, as Kubernetes writes it."""

    key: str
    value: Text = ""
    effect: str = "NoSchedule"


class Toleration(Form):
    """A toleration of a job, as Kubernetes writes it."""

    key: str = ""
    operator: str = "Equal"
    value: Text = ""
    effect: str = ""


class Nodes(Form):
    """`count` equal nodes, named `name` with a number from 0."""

    name: str
    resources: dict[str, Amount]
    count: int = 1
    labels: dict[str, Text] = {}
    taints: tuple[Taint, ...] = ()
    pool: str = "default"
    executor: str = "e0"
    unschedulable: bool = False

    def node(self, name: str) -> clusters.Node:
        """The node of this name."""
        return clusters.Node(
            executor=self.executor,
            name=name,
            pool=self.pool,
            allocatable=parse_all(self.resources, round_up=False),
            labels=_texts(self.labels),
            taints=tuple(shapes.Taint(t.key, label_text(t.value), t.effect) for t in self.taints),
            unschedulable=self.unschedulable,
        )


class Gang(Form):
    """The group is a gang; with a name, a part of a gang."""

    name: str | None = None
    size: int | None = None
    min_size: int | None = None
    uniformity_label: str | None = None
    rest: str = "wait"


class Running(Form):
    """The jobs have runs when the case starts."""

    on_node: str
    since: float = 0


class Requirement(Form):
    """One expression over a label."""

    key: str
    operator: str
    values: tuple[Text, ...] = ()


class Term(Form):
    """A node must match all requirements of at least one term."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class Preferred(Form):
    """Nodes that match the term are preferred, by its weight."""

    weight: int
    preference: Term


class Affinity(Form):
    """Node affinity: required and preferred terms."""

    node_selector_terms: tuple[Term, ...] = ()
    preferred: tuple[Preferred, ...] = ()


class Group(Form):
    """`count` equal jobs, named `id` with a number from 0."""

    id: str
    queue: str
    count: int = 1
    cpu: Amount | None = None
    memory: Amount | None = None
    gpu: Amount | None = None
    resources: dict[str, Amount] = {}
    priority_class: str = "p0"
    priority: int = 0
    node_selector: dict[str, Text] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    gang: Gang | None = None
    max_runtime_seconds: int | None = None
    running: Running | None = None

    def shape(self) -> msgspec.Raw:
        """The shape of its jobs."""
        own = {"cpu": self.cpu, "memory": self.memory, "gpu": self.gpu}
        amounts = self.resources | {name: a for name, a in own.items() if a is not None}
        affinity = self.affinity or Affinity()
        return shapes.encode(
            shapes.Shape(
                requests=parse_all(amounts, round_up=True),
                node_selector=_texts(self.node_selector),
                affinity=tuple(_term(term) for term in affinity.node_selector_terms),
                tolerations=tuple(
                    shapes.Toleration(t.key, t.operator, label_text(t.value), t.effect)
                    for t in self.tolerations
                ),
                preferred=tuple(
                    shapes.Preference(preferred.weight, _term(preferred.preference))
                    for preferred in affinity.preferred
                ),
            )
        )

    def make_gang(self) -> ev.Gang | None:
        """The gang that its jobs are members of."""
        if self.gang is None:
            return None
        return ev.Gang(
            name=self.gang.name or self.id,
            size=self.gang.size or self.count,
            min_size=self.gang.min_size,
            uniformity_label=self.gang.uniformity_label,
            rest=self.gang.rest,
        )


class GroupRole(Form):
    """A role of a group: `max` members, named `group/name-` with a number from 0."""

    name: str
    min: int
    max: int
    cpu: Amount | None = None
    memory: Amount | None = None
    gpu: Amount | None = None
    node_selector: dict[str, Text] = {}
    priority_class: str | None = None


class Topology(Form):
    """Where the members of a group are relative to each other."""

    level: str = ""
    max_hops: int | None = None
    mode: group_terms.TopologyMode = group_terms.TopologyMode.REQUIRED
    scope: group_terms.TopologyScope = group_terms.TopologyScope.ROLE

    def terms(self) -> group_terms.Topology:
        """The terms of its event."""
        return group_terms.Topology(
            level=self.level, max_hops=self.max_hops, mode=self.mode, scope=self.scope
        )


class RoleGroup(Form):
    """A group of roles (rules G)."""

    id: str
    queue: str
    roles: list[GroupRole]
    priority_class: str = "p0"
    priority: int = 0
    freeze_seconds: int = 0
    step_max: int = 0
    topology: Topology | None = None

    def terms(self) -> ev.Group:
        """The terms of its event."""
        roles = tuple(ev.GroupRole(role.name, role.min, role.max) for role in self.roles)
        topology = None if self.topology is None else self.topology.terms()
        return ev.Group(
            roles=roles, freeze_s=self.freeze_seconds, step_max=self.step_max, topology=topology
        )

    def jobs_of(self, role: GroupRole) -> Group:
        """The members of a role."""
        return Group(
            id=f"{self.id}/{role.name}-",
            queue=self.queue,
            count=role.max,
            cpu=role.cpu,
            memory=role.memory,
            gpu=role.gpu,
            priority_class=role.priority_class or self.priority_class,
            priority=self.priority,
            node_selector=role.node_selector,
        )


class Queue(Form):
    """The configuration of a queue."""

    weight: float = 1.0
    cordoned: bool = False
    limits: dict[str, dict[str, float | str]] = {}
    order: Literal["fifo", "fair"] = "fifo"


class SameLabel(Form):
    """These jobs are on nodes with one value of the label."""

    jobs: list[str]
    label: str


class Shares(Form):
    """Shares at the start of a round; missing fields are not checked."""

    weight: float | None = None
    fair: float | None = None
    uncapped: float | None = None
    actual: float | None = None
    demand: float | None = None


class Expect(Form):
    """The expected results of a round; missing fields are not checked."""

    scheduled: list[str] | None = None
    preempted: list[str] | None = None
    queued: list[str] | None = None
    scheduled_count: int | None = None
    preempted_count: int | None = None
    running: dict[str, int] = {}
    on_node: dict[str, str] = {}
    same_node: list[list[str]] = []
    same_label: SameLabel | None = None
    reasons: dict[str, str] = {}
    sentences: dict[str, str] = {}
    causes: dict[str, str] = {}
    preempted_for: dict[str, str] = {}
    shares: dict[str, Shares] = {}
    rejected: dict[str, str] = {}
    failed: dict[str, str] = {}
    hops: dict[str, int | None] = {}


class CaseRound(Form):
    """The changes before a round, and its expected results."""

    at: float | None = None
    submit: list[Group] = []
    groups: list[RoleGroup] = []
    change_groups: list[RoleGroup] = []
    finish: list[str] = []
    cancel: list[str] = []
    cordon_nodes: list[str] = []
    uncordon_nodes: list[str] = []
    remove_nodes: list[str] = []
    add_nodes: list[Nodes] = []
    resize_nodes: dict[str, dict[str, Amount]] = {}
    cordon_queues: list[str] = []
    uncordon_queues: list[str] = []
    order_queues: dict[str, Literal["fifo", "fair"]] = {}
    lose_executors: list[str] = []
    restore_executors: list[str] = []
    cordon_executors: list[str] = []
    uncordon_executors: list[str] = []
    repeat: int = 1
    expect: Expect = msgspec.field(default_factory=Expect)


class Settings(Rules, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The scheduler's rules with the defaults of cases, and whether preempted jobs are requeued."""

    protected_fraction_of_fair_share: float = 0.0
    requeue_preempted: bool = False

    def rules(self) -> Rules:
        """The rules for the engine, with the full name of GPUs."""
        rules = {name: getattr(self, name) for name in Rules.__struct_fields__}
        for name in ("cost_multipliers", "round_limit", "floating", "score_weights"):
            rules[name] = use_full_names(rules[name])
        for name in ("class_limits", "ceiling"):
            rules[name] = {
                class_name: use_full_names(amounts) for class_name, amounts in rules[name].items()
            }
        return Rules(**rules)


class Case(Form):
    """One case of a file."""

    name: str
    nodes: list[Nodes]
    rounds: list[CaseRound]
    settings: Settings = Settings()
    priority_classes: list[PriorityClass] = []
    queues: dict[str, Queue] = {}


def read_cases(path: Path) -> list[Case]:
    """The cases of a file. Raises `msgspec.ValidationError` with the place of an error."""
    return msgspec.convert(yaml_loader.load(path.read_text(encoding="utf-8")), list[Case])


def expand(names: Iterable[str]) -> list[str]:
    """Expand ranges: `a0-3` is `a0, a1, a2, a3`."""
    result: list[str] = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)-(\d+)", name)
        if match is None:
            result.append(name)
        else:
            result += [f"{match[1]}{n}" for n in range(int(match[2]), int(match[3]) + 1)]
    return result


def use_full_names(amounts: Mapping[str, V]) -> dict[str, V]:
    """The amounts with the resource name of nodes instead of `gpu`."""
    return {_resource(name): amount for name, amount in amounts.items()}


def parse_all(amounts: Mapping[str, Amount], *, round_up: bool) -> dict[str, int]:
    """Amounts in the fixed unit of each resource."""
    return {
        name: quantities.parse_quantity(name, amount, round_up=round_up)
        for name, amount in use_full_names(amounts).items()
    }


def label_text(value: Text) -> str:
    """The value of a label as Kubernetes writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(labels: Mapping[str, Text]) -> dict[str, str]:
    return {key: label_text(value) for key, value in labels.items()}


def _resource(name: str) -> str:
    return quantities.GPU if name == "gpu" else name


def _term(term: Term) -> shapes.SelectorTerm:
    return shapes.SelectorTerm(
        _requirements(term.match_expressions), _requirements(term.match_fields)
    )


def _requirements(requirements: tuple[Requirement, ...]) -> tuple[shapes.Requirement, ...]:
    return tuple(
        shapes.Requirement(r.key, r.operator, tuple(map(label_text, r.values)))
        for r in requirements
    )
