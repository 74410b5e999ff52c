"""From groups to events, and every error of a request about groups."""

from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest

from fairlead_common.domain import ids
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import GroupRole, MemberFailure
from fairlead_common.domain.records.group_terms import (
    GroupNetwork,
    Rendezvous,
    Topology,
    TopologyScope,
)
from fairlead_common.domain.requests.decoding import Decoder
from fairlead_submit.domain.groups import group_changes
from fairlead_submit.domain.groups.group_submission import PreparedGroups, prepare_groups
from fairlead_submit.domain.groups.group_types import (
    NOT_SUPPORTED,
    Group,
    GroupChange,
    GroupSubmission,
    RoleChange,
)
from fairlead_submit.domain.jobs.job_templates import JobTemplates
from fairlead_submit.domain.jobs.submission import IdSource
from fairlead_submit.domain.policy import JobPolicy, Limits

RUN: dict[str, object] = {"command": ["true"]}
PS: dict[str, object] = {"name": "ps", "min": 1, "template": RUN}
WORKER: dict[str, object] = {"name": "worker", "min": 2, "max": 4, "template": RUN}
GROUP: dict[str, object] = {"clientId": "g", "roles": [PS, WORKER]}
LIMITS = Limits()
SOURCE = IdSource(now_ms=1_800_000_000_000, random_79=12345)


def prepare(
    *groups: Mapping[str, object], limits: Limits = LIMITS
) -> tuple[PreparedGroups, list[FieldError]]:
    body = msgspec.json.encode({"queue": "q", "jobSet": "s", "groups": list(groups)})
    request, found = Decoder(GroupSubmission)(body)
    return prepare_groups(request, found, JobTemplates(JobPolicy()), limits, SOURCE)


def errors(**fields: object) -> dict[str, str]:
    """What is wrong with the group if these fields are added to it."""
    _, found = prepare({**GROUP, **fields})
    return {error.pointer.removeprefix("/groups/0"): error.detail for error in found}


def test_a_group_becomes_its_announcement_and_its_members() -> None:
    made, found = prepare(
        {
            **GROUP,
            "labels": {"team": "sea"},
            "priority": 7,
            "completion": {"roles": ["worker"], "count": 3},
            "onMemberFailure": "restartGroup",
            "restartLimit": 5,
            "elastic": {"freezeSeconds": 60, "stepMax": 2},
            "topology": {"level": "rack", "scope": "group"},
        }
    )
    assert found == []
    (group,) = made.groups
    assert group.event.terms == events.Group(
        roles=(GroupRole("ps", 1, 1), GroupRole("worker", 2, 4)),
        completion_roles=("worker",),
        completion_count=3,
        on_member_failure=MemberFailure.RESTART_GROUP,
        restart_limit=5,
        freeze_s=60,
        step_max=2,
        topology=Topology(level="rack", scope=TopologyScope.GROUP),
    )
    names = ["g/ps-0", *(f"g/worker-{index}" for index in range(4))]
    assert [member.client_id for member in group.members] == names
    assert [member.job_id for member in group.members] == ids.client_job_ids(
        made.partition, "q", "s", names
    )
    last = group.members[-1]
    assert last.group == events.GroupMember(group.event.group, "worker", 3)
    assert (last.priority, last.labels) == (7, {"team": "sea"})


def test_a_repeated_request_has_the_same_ids_and_digests() -> None:
    (one,), (other,) = prepare(GROUP)[0].groups, prepare(GROUP)[0].groups
    assert one == other


def test_another_template_has_another_digest() -> None:
    changed = {**WORKER, "template": {"command": ["false"]}}
    (one,) = prepare(GROUP)[0].groups
    (other,) = prepare({**GROUP, "roles": [PS, changed]})[0].groups
    assert one.event.group == other.event.group
    assert one.event.digest != other.event.digest


def test_a_group_without_client_id_has_a_new_id_that_names_its_members() -> None:
    unnamed = {"roles": [PS]}
    one, other = prepare(unnamed, unnamed)[0].groups
    assert one.event.group != other.event.group
    assert ids.is_job_id(one.event.group)
    assert one.members[0].client_id == f"{one.event.group}/ps-0"


def test_the_id_of_a_group_is_not_that_of_a_job_of_its_client_id() -> None:
    made, _ = prepare(GROUP)
    of_a_job = ids.client_job_id(made.partition, "q", "s", "g")
    assert str(made.groups[0].event.group) != str(of_a_job)


BAD: dict[str, tuple[dict[str, object], str, str]] = {
    "no role": ({"roles": []}, "/roles", "has no role"),
    "roles missing": ({"roles": None}, "/roles", "is missing"),
    "min above max": (
        {"roles": [{**WORKER, "min": 5}]},
        "/roles/0/min",
        "is 5, more than the maximum of 4",
    ),
    "too many members": (
        {"roles": [{**WORKER, "max": 6_000}, {**PS, "max": 6_000}]},
        "/roles",
        "have 12000 members; at most 10000",
    ),
    "no member is needed": ({"roles": [{**WORKER, "min": 0}]}, "/roles", "need no member"),
    "a role twice": ({"roles": [PS, PS]}, "/roles/1/name", "'ps' is the name of another role"),
    "a bad name": ({"roles": [{**PS, "name": "P S"}]}, "/roles/0/name", "is not a valid name"),
    "no name": ({"roles": [{**PS, "name": None}]}, "/roles/0/name", "is missing"),
    "no min": ({"roles": [{**PS, "min": None}]}, "/roles/0/min", "is missing"),
    "no template": ({"roles": [{"name": "a", "min": 1}]}, "/roles/0/template", "is missing"),
    "a gang": (
        {"roles": [{**PS, "template": {**RUN, "gang": {"name": "x", "size": 2}}}]},
        "/roles/0/template/gang",
        "is not allowed",
    ),
    "after": (
        {"roles": [{**PS, "template": {**RUN, "after": ["x"]}}]},
        "/roles/0/template/after",
        "is not allowed",
    ),
    "a client id": (
        {"roles": [{**PS, "template": {**RUN, "clientId": "x"}}]},
        "/roles/0/template/clientId",
        "is not allowed",
    ),
    "a bad template": (
        {"roles": [{**PS, "template": {**RUN, "cpu": "many"}}]},
        "/roles/0/template/cpu",
        "",
    ),
    "an unknown priority class": ({"priorityClass": "none"}, "/priorityClass", "'none'"),
    "different pools": (
        {"roles": [PS, {**WORKER, "template": {**RUN, "pool": "other"}}]},
        "/roles/1/template/pool",
        "differs from 'default', the pool of role ps",
    ),
    "an unknown completion role": (
        {"completion": {"roles": ["ps", "none"]}},
        "/completion/roles/1",
        "'none' is not a role of this group",
    ),
    "a completion role twice": (
        {"completion": {"roles": ["ps", "ps"]}},
        "/completion/roles/1",
        "'ps' is repeated",
    ),
    "a count above the members": (
        {"completion": {"roles": ["worker"], "count": 5}},
        "/completion/count",
        "is 5, but these roles have at most 4 members",
    ),
    "a topology of nothing": ({"topology": {}}, "/topology", "needs `level` or `maxHops`"),
    "a level that is no label": (
        {"topology": {"level": "my rack"}},
        "/topology/level",
        "'my rack' is not the key of a node label",
    ),
    "a level and a distance": (
        {"topology": {"level": "rack", "maxHops": 2}},
        "/topology/maxHops",
        "says the same as `level`",
    ),
    "a preferred distance": (
        {"topology": {"mode": "preferred", "maxHops": 2}},
        "/topology/maxHops",
        "is a required distance",
    ),
    "an unknown mode": ({"topology": {"level": "rack", "mode": "maybe"}}, "/topology/mode", ""),
    "a negative distance": ({"topology": {"maxHops": -1}}, "/topology/maxHops", ""),
    "a long client id": ({"clientId": "g" * 125}, "/clientId", "is too long"),
    "an unknown policy": ({"onMemberFailure": "shrug"}, "/onMemberFailure", ""),
    "an unknown field": ({"color": "red"}, "/color", ""),
}


def test_roles_without_a_maximum_count_for_the_members_of_a_request() -> None:
    """Otherwise one request of 32 MiB would make a hundred million members."""
    made, found = prepare(*[{"roles": [{**PS, "min": 6_000}]}] * 2)
    assert [(error.pointer, error.detail.split(";")[0]) for error in found] == [
        ("/groups", "have 12000 members")
    ]
    assert made.groups == []


@pytest.mark.parametrize(("fields", "pointer", "detail"), BAD.values(), ids=BAD.keys())
def test_bad_groups_are_refused_with_the_field(
    fields: dict[str, object], pointer: str, detail: str
) -> None:
    found = errors(**fields)
    assert pointer in found, found
    assert detail in found[pointer]


def test_a_group_can_have_a_startup_order_and_a_network() -> None:
    network = {"headlessService": True, "rendezvous": "torch"}
    made, found = prepare({**GROUP, "startup": ["ps", "worker"], "network": network})
    assert found == []
    terms = made.groups[0].event.terms
    assert terms.startup == ("ps", "worker")
    assert terms.network == GroupNetwork(True, Rendezvous.TORCH)


def test_a_startup_order_names_each_role_at_most_once() -> None:
    assert errors(startup=["ps", "board", "ps"]) == {
        "/startup/1": "'board' is not a role of this group",
        "/startup/2": "'ps' is repeated, so it would have to wait for itself",
    }


@pytest.mark.parametrize("name", [None, "My group", "1st", "a" * 64])
def test_a_headless_service_needs_a_group_with_a_name_of_dns(name: str | None) -> None:
    found = errors(clientId=name, network={"headlessService": True})
    assert list(found) == ["/clientId"]
    assert "names the headless service" in found["/clientId"]


def test_an_unknown_rendezvous_is_refused() -> None:
    assert "/network/rendezvous" in errors(network={"rendezvous": "gloo"})


@pytest.mark.parametrize("field", sorted(NOT_SUPPORTED))
def test_fields_that_have_no_effect_yet_are_refused_with_a_sentence(field: str) -> None:
    assert errors(**{field: {}}) == {f"/{field}": NOT_SUPPORTED[field]}
    assert field not in Group.__struct_encode_fields__


def test_all_errors_of_a_request_are_named_at_once() -> None:
    _, found = prepare({**GROUP, "roles": [{**PS, "min": -1}]}, {"roles": []}, GROUP, GROUP)
    pointers = {error.pointer for error in found}
    assert {"/groups/0/roles/0/min", "/groups/1/roles", "/groups/3/clientId"} <= pointers


# Changes ---------------------------------------------------------------------------------------

TERMS = events.Group(roles=(GroupRole("ps", 1, 1), GroupRole("worker", 2, 4)))


def change(
    *roles: dict[str, object], **fields: object
) -> tuple[group_changes.TermsChange, dict[str, str]]:
    body = {"roles": list(roles), **fields} if roles else fields
    made, found = group_changes.change_terms(TERMS, msgspec.convert(body, GroupChange))
    return made, {error.pointer: error.detail for error in found}


def test_a_change_replaces_what_it_names() -> None:
    made, found = change({"name": "worker", "max": 8})
    assert found == {}
    assert made.terms.roles == (GroupRole("ps", 1, 1), GroupRole("worker", 2, 8))
    made, found = change(priority=5, elastic={"stepMax": 2})
    assert found == {}
    assert made.terms == msgspec.structs.replace(TERMS, priority=5, step_max=2)
    assert describe(made) == ("updated", "priority 5, stepMax 2")


def describe(made: group_changes.TermsChange, *recreated: str) -> tuple[str, str]:
    kind, reason = group_changes.describe_change(TERMS, made.terms, recreated)
    return kind.value, reason


def test_a_change_is_described_for_events() -> None:
    made, _ = change({"name": "worker", "min": 1, "max": 2}, priority=3)
    numbers = "role worker 2 to 4 -> 1 to 2, priority 3"
    assert describe(made) == ("scaled", numbers)
    assert describe(made, "ps") == ("recreated", f"template of role ps, {numbers}")


@pytest.mark.parametrize(
    ("role", "pointer", "detail"),
    [
        ({"name": "none", "max": 1}, "/roles/0/name", "'none' is not a role of this group"),
        ({"max": 1}, "/roles/0/name", "is missing"),
        ({"name": "worker"}, "/roles/0", "changes nothing"),
        (
            {"name": "worker", "min": 0, "max": 0, "template": {"command": ["true"]}},
            "/roles/0/template",
            "has no effect: the role has no members",
        ),
        ({"name": "worker", "min": 5}, "/roles/0/min", "is 5, more than the maximum of 4"),
        ({"name": "worker", "max": 10_000}, "/roles", "have 10001 members"),
    ],
)
def test_bad_changes_are_refused(role: dict[str, object], pointer: str, detail: str) -> None:
    _, found = change(role)
    assert detail in found[pointer]


def test_a_maximum_below_the_count_of_the_completion_names_that_field() -> None:
    terms = msgspec.structs.replace(TERMS, completion_roles=("worker",), completion_count=3)
    body = GroupChange(roles=[RoleChange(name="worker", max=2)])
    _, found = group_changes.change_terms(terms, body)
    assert [(error.pointer, error.detail) for error in found] == [
        ("/roles", "completion.count is 3, but these roles have at most 2 members")
    ]


def test_a_change_of_no_roles_names_the_field() -> None:
    _, (error,) = Decoder(GroupChange)(b'{"roles": [], "priority": 1}')
    assert (error.pointer, error.detail) == ("/roles", "has no entries; at least 1 is required")


@pytest.mark.parametrize(
    ("groups", "advice"),
    [(1, "lower `max` of its roles"), (2, "Send the groups in several requests")],
)
def test_groups_that_take_too_many_bytes_say_what_to_do(groups: int, advice: str) -> None:
    many = [{**GROUP, "clientId": f"g{number}"} for number in range(groups)]
    with pytest.raises(Problem) as refused:
        prepare(*many, limits=Limits(events_bytes_max=10))
    assert advice in refused.value.detail


def test_a_change_of_nothing_is_refused() -> None:
    _, found = change()
    assert "changes nothing; give `roles`, `priority` or `elastic`" in found[""]


def test_places_without_a_member_get_a_new_one_with_another_client_id() -> None:
    present = {("ps", 0), ("worker", 0), ("worker", 1)}
    known = Counter({("ps", 0): 1, ("worker", 0): 1, ("worker", 1): 1, ("worker", 2): 2})
    places, suffixes = group_changes.list_missing(TERMS, present, known)
    assert places == [("worker", 2), ("worker", 3)]
    assert suffixes == ["~3", ""]
