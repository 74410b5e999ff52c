"""Whether the minimal set of a group could ever run, and a group after a change."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.records.group_terms import Topology, TopologyMode, TopologyScope
from fairlead_common.domain.scheduling import shapes
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_common.domain.scheduling.shapes import Shape
from fairlead_submit.domain.feasibility import change_feasibility, group_feasibility
from fairlead_submit.domain.feasibility.change_feasibility import ChangedGroup
from fairlead_submit.domain.feasibility.group_feasibility import GroupKind, GroupVerdict, RoleKind
from fairlead_submit.domain.groups import group_changes
from fairlead_submit.domain.groups.group_types import GroupChange, RoleChange
from fairlead_submit.domain.request_types import Job

GPU = "nvidia.com/gpu"
CLASSES = {"default": PriorityClass(name="default", value=0)}
QUEUE = Queue(name="q")


def node(name: str = "n0", cpu: int = 2, **more: object) -> Node:
    """A node with this many thousand milli-CPUs."""
    allocatable = {"cpu": cpu * 1000, "memory": 2**33}
    return Node(executor="e", name=name, allocatable=allocatable, **more)  # type: ignore[arg-type]


def member(cpu: int = 1000, **more: Any) -> events.JobSubmitted:  # requests and other fields
    """A member that requests this many milli-CPUs, and what else is given."""
    pool = more.pop("pool", "default")
    selector = more.pop("node_selector", {})
    wait = more.pop("when_infeasible", "reject")
    shape = Shape({"cpu": cpu, **more}, node_selector=selector)
    return events.JobSubmitted(
        job_id=JobId("j"),
        priority_class="default",
        shape=shapes.encode(shape),
        spec=msgspec.Raw(b"{}"),
        digest="",
        pool=pool,
        when_infeasible=wait,
    )


def role(name: str, minimum: int, cpu: int = 1000, **more: object) -> RoleKind:
    return group_feasibility.make_role_kind(name, minimum, member(cpu, **more))


def check(
    roles: Sequence[RoleKind],
    nodes: Sequence[Node],
    topology: Topology | None = None,
    queue: Queue = QUEUE,
) -> GroupVerdict:
    group = GroupKind(tuple(roles), topology)
    return group_feasibility.check_groups([group, group], nodes, queue, CLASSES)[group]


def test_a_role_that_fits_nowhere_is_named_with_its_resource_and_how_much_there_is() -> None:
    found = check([role("ps", 1, 50), role("tr", 2, 64_000)], [node()])
    assert found.roles["ps"].feasible is True
    assert found.roles["tr"].why == "needs 64 cpu on one node; the only eligible node has 2"
    assert found.group.feasible is False
    assert found.group.why == "role tr: needs 64 cpu on one node; the only eligible node has 2"


def test_too_many_members_of_a_role_name_the_resource() -> None:
    found = check([role("tr", 30, 500)], [node(), node("n1", 1)])
    assert found.group.why == (
        "role tr: 30 members must start together and need 15 cpu; the 2 eligible nodes have 3, with"
        " space for 6 of them"
    )


def test_roles_that_fit_alone_and_not_together() -> None:
    roles = [role("a", 1, 1500), role("b", 1, 1500)]
    found = check(roles, [node()])
    assert [verdict.feasible for verdict in found.roles.values()] == [True, True]
    assert found.group.feasible is False
    assert found.group.why == (
        "2 members must start together and need 3 cpu (role a 1 x 1500m, role b 1 x 1500m); the"
        " only eligible node has 2, with space for at most 1 of them"
    )
    assert check(roles, [node(), node("n1")]).group.feasible is True


def test_minima_above_what_the_pool_has_together() -> None:
    found = check([role("a", 3, 500), role("b", 3, 500)], [node()])
    assert "6 members must start together and need 3 cpu" in (found.group.why or "")
    assert check([role("a", 2, 500), role("b", 2, 500)], [node()]).group.feasible is True


def test_the_sum_counts_where_the_smallest_members_would_fit() -> None:
    # By the number of the smallest members alone, 6 would fit.
    found = check([role("a", 2, 3000), role("b", 3, 1000)], [node(cpu=4), node("n1", 4)])
    assert found.group.why == (
        "5 members must start together and need 9 cpu (role a 2 x 3, role b 3 x 1); the 2 eligible"
        " nodes have 8"
    )


def test_nodes_of_one_role_do_not_count_for_another() -> None:
    nodes = [node("gpu", labels={"kind": "gpu"}), node("n1", 8)]
    roles = [
        role("a", 1, 1500, node_selector={"kind": "gpu"}),
        role("b", 1, 1500, node_selector={"kind": "gpu"}),
    ]
    assert check(roles, nodes).group.feasible is False
    assert check([*roles[:1], role("b", 1, 1500)], nodes).group.feasible is True


def test_no_single_resource_is_short() -> None:
    # One node for each member by CPUs, and one by memory, but not the same.
    nodes = [
        Node(executor="e", name="a", allocatable={"cpu": 4000, "memory": 4}),
        Node(executor="e", name="b", allocatable={"cpu": 1000, "memory": 8}),
    ]
    found = check([role("a", 2, 1000, memory=4), role("b", 1, 1000, memory=3)], nodes)
    assert found.group.why == (
        "3 members must start together and need more than there is (2 of role a, 1 of role b); the"
        " 2 eligible nodes have space for at most 2 of them"
    )


def test_a_limit_of_the_queue_for_all_roles() -> None:
    queue = Queue(name="q", limits={"default": {"cpu": "3"}})
    found = check([role("a", 2), role("b", 2)], [node(cpu=64)], queue=queue)
    assert found.group.why == (
        "the group needs 4.0 cpu for the 4 members of all roles; the limit of queue 'q' is 3.0 in"
        " class 'default'"
    )
    found = check([role("a", 4)], [node(cpu=64)], queue=queue)
    assert (found.group.why or "").startswith("role a: needs 4.0 cpu for 4 members; the limit of")


def test_a_role_without_a_minimum_does_not_decide_for_the_group() -> None:
    found = check([role("a", 1), role("board", 0, 64_000)], [node()])
    assert found.roles["board"].feasible is False
    assert found.group.feasible is True


def test_a_pool_without_nodes_and_an_unknown_resource_are_unknown() -> None:
    found = check([role("a", 1)], [])
    assert (found.group.feasible, found.group.why) == (None, "role a: pool 'default' has no nodes")
    found = check([role("a", 1), role("b", 1, **{GPU: 1})], [node()])
    assert found.group.feasible is None
    assert found.group.why == f"role b: no node of pool 'default' has {GPU}"
    # What is on nodes decides all the same.
    found = check([role("a", 1, 1500), role("b", 1, 1500, **{GPU: 1})], [node()])
    assert found.group.feasible is False


RACKS = [
    node(f"n{number}", 12, labels={"example.com/rack": rack})
    for number, rack in enumerate(("r1", "r2"))
]


@pytest.mark.parametrize("level", ["rack", "example.com/rack"])
def test_a_role_that_no_rack_holds(level: str) -> None:
    found = check([role("tr", 4, 4000)], RACKS, Topology(level=level))
    assert found.roles["tr"].feasible is False
    assert found.group.why == (
        "role tr: 4 members must start together and need 16 cpu; the largest of the 2 domains of"
        " 'example.com/rack', 'r1', has 12, with space for 3 of them"
    )
    assert check([role("tr", 3, 4000)], RACKS, Topology(level=level)).group.feasible is True
    near = Topology(level=level, mode=TopologyMode.PREFERRED)
    assert check([role("tr", 4, 4000)], RACKS, near).group.feasible is True


def test_a_group_whose_roles_need_one_rack_together() -> None:
    roles = [role("a", 2, 4000), role("b", 2, 4000)]
    assert check(roles, RACKS, Topology(level="rack")).group.feasible is True
    found = check(roles, RACKS, Topology(level="rack", scope=TopologyScope.GROUP))
    assert [verdict.feasible for verdict in found.roles.values()] == [True, True]
    assert "4 members must start together and need 16 cpu (role a 2 x 4" in (found.group.why or "")


def test_a_level_that_can_be_two_labels_is_impossible_only_in_both() -> None:
    nodes = [
        node(f"n{number}", 12, labels={"a/rack": f"r{number}", "b/rack": "all"})
        for number in range(2)
    ]
    assert check([role("tr", 4, 4000)], nodes, Topology(level="rack")).group.feasible is True
    assert check([role("tr", 4, 4000)], nodes, Topology(level="a/rack")).group.feasible is False


def test_one_node_is_a_level() -> None:
    nodes = [node(), node("n1")]
    assert check([role("tr", 3)], nodes, Topology(level="hostname")).group.feasible is False
    assert check([role("tr", 2)], nodes, Topology(level="hostname")).group.feasible is True


@given(
    nodes=st.lists(st.tuples(st.integers(1, 4), st.sampled_from("xy")), min_size=1, max_size=3),
    roles=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 4), st.sampled_from(["", "x"])),
        min_size=2,
        max_size=3,
    ),
)
def test_nothing_that_fits_is_called_impossible(
    nodes: list[tuple[int, str]], roles: list[tuple[int, int, str]]
) -> None:
    made = [node(f"n{at}", cpu, labels={"k": label}) for at, (cpu, label) in enumerate(nodes)]
    asked = [
        role(f"r{at}", members, 1000 * cpu, node_selector={"k": label} if label else {})
        for at, (members, cpu, label) in enumerate(roles)
    ]
    wanted = [(cpu, label) for members, cpu, label in roles for _ in range(members)]
    if fits(wanted, [cpu for cpu, _ in nodes], [label for _, label in nodes]):
        assert check(asked, made).group.feasible is True


def fits(wanted: list[tuple[int, str]], left: list[int], labels: list[str]) -> bool:
    """Whether some placement has all members, by trying every one."""
    if not wanted:
        return True
    (cpu, label), *others = wanted
    return any(
        fits(others, [*left[:at], amount - cpu, *left[at + 1 :]], labels)
        for at, amount in enumerate(left)
        if amount >= cpu and label in ("", labels[at])
    )


# Changes ---------------------------------------------------------------------------------------

TERMS = events.Group(roles=(events.GroupRole("a", 1, 1), events.GroupRole("b", 1, 2)))


def errors(
    roles: list[RoleChange],
    nodes: Sequence[Node],
    new: dict[str, events.JobSubmitted] | None = None,
    succeeded: int = 0,
    before: events.JobSubmitted | None = None,
) -> list[tuple[str, str]]:
    """What is wrong with this change of a group of one `a` and one or two `b`."""
    change, found = group_changes.change_terms(TERMS, GroupChange(roles=roles))
    assert found == []
    known = {"a": before or member(500), "b": before or member(500)}
    changed = ChangedGroup(
        terms=TERMS,
        change=change,
        templates_before=known,
        templates={**known, **(new or {})},
        new=list(new or {}),
        succeeded=Counter({"b": succeeded}),
    )
    found = change_feasibility.check_change(changed, nodes, QUEUE, CLASSES)
    return [(error.pointer, error.detail) for error in found]


def template(name: str) -> RoleChange:
    return RoleChange(name=name, template=Job())


def test_templates_that_fit_alone_and_not_together_are_refused() -> None:
    new = {"a": member(1500), "b": member(1500)}
    ((pointer, detail),) = errors([template("b"), template("a")], [node()], new)
    assert pointer == "/roles/1/template"
    assert detail.startswith("the group could never run: 2 members must start together and need 3")


def test_minima_that_fit_alone_and_not_together_are_refused() -> None:
    raised = [RoleChange(name="a", min=3, max=3), RoleChange(name="b", min=3, max=3)]
    ((pointer, detail),) = errors(raised, [node()])
    assert (pointer, "need 3 cpu (role a 3 x 500m" in detail) == ("/roles/0/min", True)


def test_a_template_that_asks_what_no_node_has_is_refused_unless_it_waits() -> None:
    ((pointer, detail),) = errors([template("b")], [node()], {"b": member(**{GPU: 1})})
    assert pointer == "/roles/0/template"
    assert detail == (
        "would stop the group for members of role b that may never run: no node of pool 'default'"
        f" has {GPU}. If the group is to wait for it, set `whenInfeasible: wait`"
    )
    waits = {"b": member(when_infeasible="wait", **{GPU: 1})}
    assert errors([template("b")], [node()], waits) == []


def test_what_the_members_had_before_can_be_a_floating_resource() -> None:
    assert (
        errors([template("b")], [node()], {"b": member(license=2)}, before=member(license=1)) == []
    )
    assert errors([RoleChange(name="b", min=2)], [node()], before=member(500, license=1)) == []


def test_another_pool_without_nodes_is_refused() -> None:
    new = {"a": member(pool="typo"), "b": member(pool="typo")}
    found = errors([template("a"), template("b")], [node()], new)
    assert [pointer for pointer, _ in found] == ["/roles/0/template", "/roles/1/template"]
    assert "may never run: pool 'typo' has no nodes" in found[0][1]
    assert errors([template("a")], [], {"a": member(600)}) == [], "its own pool has no nodes now"


def test_members_that_have_succeeded_are_not_needed() -> None:
    raised = [RoleChange(name="b", min=4, max=4)]
    assert len(errors(raised, [node()])) == 1
    assert errors(raised, [node()], succeeded=1) == []
