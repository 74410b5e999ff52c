"""Who may do what: the ladder of roles, what queues permit, and what a token narrows."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain import permissions
from fairlead_common.domain.permissions import (
    Caller,
    QueueScope,
    Role,
    Scope,
    Verb,
    allows,
    find_queue_scope,
)
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records.configuration import Permission


class Case(msgspec.Struct, frozen=True):
    """May `caller` do `verb` with the queue `q` that has `permissions`?"""

    caller: Caller
    verb: str
    want: bool
    permissions: tuple[Permission, ...] = ()


def only(*subjects: str, verbs: tuple[str, ...] = ("submit",)) -> tuple[Permission, ...]:
    """Permissions of a queue that name these."""
    return (Permission(subjects, verbs),)


ANN = Caller("ann")
IN_ML = Caller("ann", groups=("ml",))
VIEWS = Caller("vic", ("viewer",))
SUBMITS = Caller("sue", ("submitter",))
RUNS = Caller("otto", ("operator",))
HERE = Caller("ann", queue_roles={"q": ("submitter",)})
TOKEN = Caller("sue", ("submitter",), scope=Scope(frozenset({"view"})))
FOR_Q = Caller("sue", ("submitter",), scope=Scope(frozenset(Verb), frozenset({"q"})))
FOR_R = Caller("sue", ("submitter",), scope=Scope(frozenset(Verb), frozenset({"r"})))

CASES = {
    "who has no role may not even look": Case(ANN, "view", False),
    "a viewer may look": Case(VIEWS, "view", True),
    "a viewer may do no more": Case(VIEWS, "cancel", False),
    "a submitter may submit": Case(SUBMITS, "submit", True),
    "a role in one queue is good there": Case(HERE, "submit", True),
    "who is named needs no role": Case(ANN, "submit", True, only("ann")),
    "who is named may look as well": Case(ANN, "view", True, only("ann")),
    "who is named for one thing may not do another": Case(ANN, "cancel", False, only("ann")),
    "a group is named as such": Case(IN_ML, "submit", True, only("group:ml")),
    "a group's plain name is a user's": Case(IN_ML, "submit", False, only("ml")),
    "a user who is called like a group is not in it": Case(
        Caller("ml"), "submit", False, only("group:ml")
    ),
    "what others are named for is closed": Case(SUBMITS, "submit", False, only("ann")),
    "what nobody is named for stays open to the role": Case(SUBMITS, "cancel", True, only("ann")),
    "who may not look may do nothing": Case(SUBMITS, "submit", False, only("ann", verbs=("view",))),
    "operators run the place": Case(RUNS, "preempt", True, only("ann", verbs=("preempt",))),
    "a token does no more than its scope": Case(TOKEN, "submit", False),
    "a token for a queue works there": Case(FOR_Q, "submit", True),
    "a token for another queue does not": Case(FOR_R, "view", False),
    "a token does not do what its owner may not": Case(FOR_Q, "submit", False, only("ann")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_permissions_of_a_caller(case: Case) -> None:
    assert allows(case.caller, case.verb, "q", case.permissions) is case.want


NAMES = st.sampled_from(["ann", "bob", "q", "r"])
ROLES = st.lists(st.sampled_from(list(Role)), max_size=2).map(tuple)
SUBJECTS = st.lists(st.sampled_from(["ann", "bob", "group:ml"]), max_size=2).map(tuple)
VERBS = st.lists(st.sampled_from(list(Verb)), max_size=3).map(tuple)
PERMISSIONS = st.lists(st.builds(Permission, SUBJECTS, VERBS), max_size=3).map(tuple)
SCOPES = st.none() | st.builds(
    Scope,
    st.frozensets(st.sampled_from(list(Verb))),
    st.none() | st.frozensets(st.sampled_from(["q", "r", "s"])),
)
CALLERS = st.builds(
    Caller,
    st.sampled_from(["ann", "bob"]),
    ROLES,
    st.sampled_from([(), ("ml",)]),
    st.dictionaries(st.sampled_from(["q", "s"]), ROLES, max_size=2),
    SCOPES,
)


@given(CALLERS, st.sampled_from(list(Verb)), st.dictionaries(NAMES, PERMISSIONS, max_size=4))
def test_a_queue_scope_contains_exactly_the_permitted_queues(
    caller: Caller, verb: str, restricted: dict[str, tuple[Permission, ...]]
) -> None:
    found = find_queue_scope(caller, verb, restricted)
    for queue in ("q", "r", "s", "t", "ann"):
        expected = allows(caller, verb, queue, restricted.get(queue, ()))
        assert (queue in found) is expected, queue


@given(CALLERS, PERMISSIONS, st.sampled_from(list(Verb)))
def test_every_permission_includes_viewing_unless_a_token_restricts_it(
    caller: Caller, items: tuple[Permission, ...], verb: str
) -> None:
    without = msgspec.structs.replace(caller, scope=None)
    if allows(without, verb, "q", items):
        assert allows(without, "view", "q", items)
    if allows(caller, verb, "q", items):
        assert allows(without, verb, "q", items), "a token never widens"


def test_a_queue_scope_has_arrays_for_statements() -> None:
    assert QueueScope().arguments() == (None, [])
    assert QueueScope().is_everything
    assert QueueScope(only=frozenset("ba")).arguments() == (["a", "b"], [])
    assert QueueScope(but=frozenset("c")).arguments() == (None, ["c"])


@pytest.mark.parametrize(
    ("wanted", "held", "got"),
    [
        ("viewer", ["admin"], "viewer"),
        ("admin", ["viewer"], "viewer"),
        ("submitter", ["operator", "viewer"], "submitter"),
        ("viewer", [], None),
    ],
)
def test_a_delegated_role_is_limited_by_its_owner(
    wanted: str, held: list[str], got: str | None
) -> None:
    assert permissions.cap_role(wanted, held) == got


def test_a_hidden_queue_is_not_found() -> None:
    hidden = only("bob", verbs=("view",))
    with pytest.raises(Problem) as caught:
        permissions.require_verb(SUBMITS, Verb.CANCEL, "q", hidden)
    assert caught.value.slug == "not-found"
    with pytest.raises(Problem) as caught:
        permissions.require_verb(VIEWS, Verb.CANCEL, "q", ())
    assert caught.value.slug == "forbidden"


@pytest.mark.parametrize("roles", [(), ("viewer",), ("submitter", "viewer")])
def test_a_refusal_names_the_sufficient_roles(roles: tuple[str, ...]) -> None:
    with pytest.raises(Problem, match="requires the role admin or operator") as caught:
        permissions.require_role(Caller("ada", roles), "operator")
    assert caught.value.slug == "forbidden"
    assert ("none" if not roles else ", ".join(roles)) in caught.value.detail


def test_a_refusal_of_a_queue_names_the_queue() -> None:
    local = Caller("ada", queue_roles={"q": ("operator",)})
    permissions.require_role(local, "operator", queue="q")
    for queue in ("r", None):
        with pytest.raises(Problem):
            permissions.require_role(local, "operator", queue=queue)


def test_a_refusal_names_the_roles_of_the_caller() -> None:
    queue_roles = {f"q{n}": ("viewer",) for n in range(7)}
    assert Caller("ann").titles() == "none"
    assert Caller("ann", roles=("viewer",)).titles() == "viewer"
    assert Caller("ann", roles=("viewer",), queue_roles=queue_roles).titles() == (
        "viewer, viewer of q0, viewer of q1, viewer of q2, viewer of q3, viewer of q4, 2 more"
    )
