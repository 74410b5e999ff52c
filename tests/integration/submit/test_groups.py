"""Groups by the API with the view of lookout: repeated, conflicting, scaled, cancelled, refused."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairlead_common.domain.ids import GroupId
from fairlead_common.domain.records import events
from fairlead_common.domain.records.clusters import (
    Heartbeat,
    Node,
    heartbeat_record,
    node_record,
)
from tests.integration.submit.submit_and_lookout import Watched, watched

RUN = {"command": ["true"]}
ROLES = [
    {"name": "ps", "min": 1, "template": RUN},
    {"name": "worker", "min": 1, "max": 2, "template": RUN},
]


@pytest.fixture
async def submit(fresh_database: str, valkey_url: str) -> AsyncIterator[Watched]:
    async with watched(fresh_database, valkey_url) as made:
        yield made


async def send(
    submit: Watched, *groups: dict[str, Any], status: int = 200, query: str = ""
) -> dict[str, Any]:
    """Submit groups to the job set `set`, and wait until the view has them; the response."""
    body = {"queue": submit.queue, "jobSet": "set", "groups": list(groups)}
    answer = await submit.post(f"/groups{query}", body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    if found.get("position"):
        await submit.seen(found["position"])
    return found


async def happened(submit: Watched) -> list[events.AnyEvent]:
    """All events of the job set."""
    found: list[events.AnyEvent] = []
    for value in await submit.logged():
        sequence = events.decode(value)
        if sequence.job_set == "set":
            found += sequence.events
    return found


async def change(
    submit: Watched, method: str, path: str, body: object = None, status: int = 200
) -> dict[str, Any]:
    """A request about a group, and wait until the view has it."""
    answer = await submit.client.request(method, f"/api/v1/groups/{path}", json=body)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    if found.get("position"):
        await submit.seen(found["position"])
    return found


async def test_a_group_and_its_members_are_one_append_and_a_repeat_creates_nothing(
    submit: Watched,
) -> None:
    first = await send(submit, {"clientId": "g", "roles": ROLES})
    (group,) = first["groups"]
    names = ["g/ps-0", "g/worker-0", "g/worker-1"]
    assert [member["clientId"] for member in group["members"]] == names
    announced, *members = await happened(submit)
    assert isinstance(announced, events.GroupSubmitted)
    assert announced.group == group["id"]
    assert [event.group for event in members if isinstance(event, events.JobSubmitted)] == [
        events.GroupMember(GroupId(group["id"]), member["role"], member["index"])
        for member in group["members"]
    ]
    again = await send(submit, {"clientId": "g", "roles": ROLES})
    assert again["groups"] == [{**group, "duplicate": True}]
    assert len(await happened(submit)) == 4


async def test_a_client_id_of_something_different_is_a_conflict(submit: Watched) -> None:
    await send(submit, {"clientId": "g", "roles": ROLES})
    problem = await send(submit, {"clientId": "g", "roles": ROLES[:1]}, status=409)
    assert "which has a different spec" in problem["errors"][0]["detail"]
    taken = await submit.submit([{**RUN, "clientId": "h/ps-0"}], "set")
    await submit.seen(taken.json()["position"])
    problem = await send(submit, {"clientId": "h", "roles": ROLES}, status=409)
    assert "makes the clientId 'h/ps-0'" in problem["errors"][0]["detail"]


async def test_of_things_with_one_client_id_that_are_sent_at_a_time_one_is_accepted(
    submit: Watched,
) -> None:
    groups = [
        {"queue": submit.queue, "jobSet": "set", "groups": [{"clientId": "g", "roles": roles}]}
        for roles in (ROLES, ROLES[:1])
    ]
    answers = await asyncio.gather(
        *(submit.post("/groups", body) for body in groups),
        submit.submit([{"command": ["x"], "clientId": "g/ps-0"}], "set"),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json()["errors"][0]["pointer"].endswith("/0/clientId")


async def test_nothing_of_a_request_with_an_error_is_done(submit: Watched) -> None:
    bad = {"clientId": "bad", "roles": [{"name": "a", "min": 2, "max": 1, "template": RUN}]}
    problem = await send(submit, {"clientId": "g", "roles": ROLES}, bad, status=422)
    assert [error["pointer"] for error in problem["errors"]] == ["/groups/1/roles/0/min"]
    problem = await send(submit, {"roles": ROLES, "order": "fair"}, status=422)
    assert "belongs to the queue" in problem["errors"][0]["detail"]
    problem = await send(submit, {"roles": ROLES, "order": "fair"}, status=422)
    assert "belongs to the queue" in problem["errors"][0]["detail"]
    assert await happened(submit) == []


async def test_a_dry_run_reports_each_role_and_creates_nothing(submit: Watched) -> None:
    found = await send(submit, {"clientId": "g", "roles": ROLES}, query="?dryRun=true")
    (group,) = found["groups"]
    assert found["position"] is None
    assert [role["name"] for role in group["roles"]] == ["ps", "worker"]
    assert await happened(submit) == []


async def test_a_dry_run_says_that_no_node_has_the_required_level(submit: Watched) -> None:
    node = Node(
        executor="e",
        name="n",
        allocatable={"cpu": 8_000, "memory": 2**34},
        labels={"example.com/rack": "r1"},
    )
    producer = await submit.log.producer("test-nodes")
    await producer.append([heartbeat_record(Heartbeat(executor="e")), node_record(node)])
    await producer.close()
    for level, mode, missing in (
        ("shelf", "required", True),
        ("shelf", "preferred", False),
        ("rack", "required", False),
        ("hostname", "required", False),
    ):
        group = {"roles": ROLES, "topology": {"level": level, "mode": mode}}
        (found,) = (await send(submit, group, query="?dryRun=true"))["groups"]
        assert [role["feasible"] for role in found["roles"]] == [not missing] * 2
        if missing:
            assert found["roles"][0]["why"] == (
                "no node of pool 'default' has a label 'shelf', which `topology.level` requires;"
                " the group would wait for such a node"
            )


async def add_node(submit: Watched, cpu: int, **labels: str) -> None:
    """A node of the default pool with this many milli-CPUs."""
    allocatable = {"cpu": cpu, "memory": 1 << 40}
    node = Node(executor="e", name="n", allocatable=allocatable, labels=labels)
    producer = await submit.log.producer("nodes")
    await producer.append([heartbeat_record(Heartbeat(executor="e")), node_record(node)])
    await producer.close()


async def test_a_dry_run_says_why_a_group_can_never_run(submit: Watched) -> None:
    await add_node(submit, 12_000, rack="r1")

    def role(name: str, cpu: str, least: int = 1) -> dict[str, Any]:
        return {"name": name, "min": least, "template": {**RUN, "cpu": cpu}}

    groups: list[dict[str, Any]] = [
        {"roles": [role("ps", "50m"), role("tr", "64", 2)]},
        {"roles": [role("a", "7"), role("b", "7")]},
        {"roles": [role("a", "4", 4)], "topology": {"level": "rack"}},
        {"roles": [role("a", "4", 3)], "topology": {"level": "rack"}},
        {"roles": [{"name": "a", "min": 1, "template": {**RUN, "gpu": 1}}]},
    ]
    found = (await send(submit, *groups, query="?dryRun=true"))["groups"]
    assert [group["feasible"] for group in found] == [False, False, False, True, None]
    whys = [group["why"] for group in found]
    assert whys[0] == "role tr: needs 64 cpu on one node; the only eligible node has 12"
    assert "2 members must start together and need 14 cpu (role a 1 x 7, role b 1 x 7)" in whys[1]
    assert "need 16 cpu; the only eligible node has 12, with space for 3 of them" in whys[2]
    assert whys[3] is None
    assert whys[4] == "role a: no node of pool 'default' has nvidia.com/gpu"
    assert [role["feasible"] for role in found[0]["roles"]] == [True, False]
    limits = {"name": submit.queue, "limits": {"default": {"cpu": "3"}}}
    answer = await submit.client.put(f"/api/v1/queues/{submit.queue}", json=limits)
    assert answer.status_code == 200, answer.text
    both = {"roles": [role("a", "1", 2), role("b", "1", 2)]}
    (group,) = (await send(submit, both, query="?dryRun=true"))["groups"]
    assert group["feasible"] is False
    assert "the group needs 4.0 cpu for the 4 members of all roles; the limit" in group["why"]


@pytest.mark.parametrize(
    ("roles", "pointer", "detail"),
    [
        (
            [("ps", {"template": {"cpu": "1500m"}}), ("worker", {"template": {"cpu": "1500m"}})],
            "/roles/0/template",
            "the group could never run: 2 members must start together and need 3 cpu (role ps 1 x"
            " 1500m, role worker 1 x 1500m); the only eligible node has 2, with space for at most"
            " 1 of them",
        ),
        (
            [("worker", {"min": 4, "max": 4})],
            "/roles/0/min",
            "role worker could never run: 4 members must start together and need 4 cpu; the only"
            " eligible node has 2, with space for 2 of them",
        ),
        (
            [("ps", {"min": 2, "max": 2})],
            "/roles/0/min",
            "the group could never run: 3 members must start together and need 3 cpu (role ps 2 x"
            " 1, role worker 1 x 1); the only eligible node has 2, with space for at most 2 of",
        ),
        (
            [("worker", {"template": {"gpu": 1}})],
            "/roles/0/template",
            "members of role worker that may never run: no node of pool 'default' has"
            " nvidia.com/gpu",
        ),
        (
            [("ps", {"template": {"pool": "typo"}}), ("worker", {"template": {"pool": "typo"}})],
            "/roles/0/template",
            "members of role ps that may never run: pool 'typo' has no nodes",
        ),
    ],
)
async def test_a_change_after_which_the_group_can_never_run_is_refused(
    submit: Watched, roles: list[tuple[str, dict[str, Any]]], pointer: str, detail: str
) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    await submit.happened("set", events.GroupRunning(group=group["id"]))
    await add_node(submit, 2_000)
    before = await happened(submit)
    wanted = [
        {"name": name}
        | {key: {**RUN, **value} if key == "template" else value for key, value in fields.items()}
        for name, fields in roles
    ]
    problem = await change(submit, "PATCH", group["id"], {"priority": 3, "roles": wanted}, 422)
    error = problem["errors"][0]
    assert error["pointer"] == pointer
    assert detail in error["detail"]
    assert await happened(submit) == before, "nothing is stopped or written"


async def test_a_change_that_changes_nothing_writes_nothing(submit: Watched) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    first = {"elastic": {"stepMax": 2}, "roles": [{"name": "worker", "max": 3}]}
    assert (await change(submit, "PATCH", group["id"], first))["submitted"] == 1
    before = await happened(submit)
    again = await change(submit, "PATCH", group["id"], first)
    assert (again["position"], again["submitted"]) == (None, 0)
    assert await happened(submit) == before


async def test_raising_a_maximum_submits_members_like_those_that_there_are(
    submit: Watched,
) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    last = group["members"][-1]["id"]
    await submit.happened("set", events.JobCancelled(job_id=last, reason="scaled down"))
    done = await change(submit, "PATCH", group["id"], {"roles": [{"name": "worker", "max": 3}]})
    assert done["submitted"] == 2
    changed, *members = (await happened(submit))[-3:]
    assert isinstance(changed, events.GroupChanged)
    assert changed.terms.roles[1] == events.GroupRole("worker", 1, 3)
    assert [event.client_id for event in members if isinstance(event, events.JobSubmitted)] == [
        "g/worker-1~2",
        "g/worker-2",
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"roles": [{"name": "none", "max": 3}]}, "/roles/0/name"),
        ({"roles": [{"name": "worker", "min": 3}]}, "/roles/0/min"),
        ({}, ""),
        ({"roles": [{"name": "worker"}]}, "/roles/0"),
        ({"priority": 1, "clientId": "h"}, "/clientId"),
        ({"roles": [{"name": "worker", "template": {}}]}, "/roles/0/template"),
        (
            {"roles": [{"name": "worker", "template": {**RUN, "clientId": "x"}}]},
            "/roles/0/template/clientId",
        ),
        (
            {"roles": [{"name": "worker", "template": {**RUN, "pool": "other"}}]},
            "/roles/0/template/pool",
        ),
        ({"priority": 1, "elastic": {"stepMax": -1}}, "/elastic/stepMax"),
    ],
)
async def test_bad_changes_are_refused(submit: Watched, body: object, pointer: str) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    problem = await change(submit, "PATCH", group["id"], body, 422)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert len(await happened(submit)) == 4


async def test_a_minimum_above_what_the_queue_may_hold_is_refused(submit: Watched) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    node = Node(executor="e", name="n", allocatable={"cpu": 64_000, "memory": 1 << 40})
    producer = await submit.log.producer("nodes")
    await producer.append([heartbeat_record(Heartbeat(executor="e")), node_record(node)])
    await producer.close()
    limits = {"name": submit.queue, "limits": {"default": {"cpu": "3"}}}
    answer = await submit.client.put(f"/api/v1/queues/{submit.queue}", json=limits)
    assert answer.status_code == 200, answer.text
    wanted = {"roles": [{"name": "worker", "min": 4, "max": 4}]}
    problem = await change(submit, "PATCH", group["id"], wanted, 422)
    (error,) = problem["errors"]
    assert error["pointer"] == "/roles/0/min"
    assert "needs 4.0 cpu for 4 members; the limit of queue" in error["detail"]
    wanted = {"roles": [{"name": "worker", "min": 2, "max": 3}]}
    assert (await change(submit, "PATCH", group["id"], wanted))["submitted"] == 1


async def test_minima_that_exceed_a_limit_of_the_queue_together_are_refused(
    submit: Watched,
) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    node = Node(executor="e", name="n", allocatable={"cpu": 64_000, "memory": 1 << 40})
    producer = await submit.log.producer("nodes")
    await producer.append([heartbeat_record(Heartbeat(executor="e")), node_record(node)])
    await producer.close()
    limits = {"name": submit.queue, "limits": {"default": {"cpu": "3"}}}
    answer = await submit.client.put(f"/api/v1/queues/{submit.queue}", json=limits)
    assert answer.status_code == 200, answer.text
    before = await happened(submit)
    wanted = {"priority": 3, "roles": [{"name": "worker", "min": 3, "max": 3}]}
    problem = await change(submit, "PATCH", group["id"], wanted, 422)
    (error,) = problem["errors"]
    assert error["pointer"] == "/roles/0/min"
    assert "the group needs 4.0 cpu for the 4 members of all roles; the limit" in error["detail"]
    assert await happened(submit) == before, "nothing of the request is done"


async def test_a_different_template_submits_members_of_a_new_generation(submit: Watched) -> None:
    first = {"clientId": "g", "priority": 4, "labels": {"team": "sea"}, "roles": ROLES}
    (group,) = (await send(submit, first))["groups"]
    template = {"command": ["false"], "labels": {"own": "1"}}
    body: dict[str, Any] = {"roles": [{"name": "worker", "template": template}]}
    assert (await change(submit, "PATCH", group["id"], body))["submitted"] == 3
    changed, *members = (await happened(submit))[-4:]
    assert isinstance(changed, events.GroupChanged)
    assert (changed.kind, changed.reason) == ("recreated", "template of role worker")
    assert changed.terms.generation == 2
    made = [event for event in members if isinstance(event, events.JobSubmitted)]
    assert [event.client_id for event in made] == ["g/ps-0~2", "g/worker-0~2", "g/worker-1~2"]
    assert {event.group.generation for event in made if event.group} == {2}
    assert [event.priority for event in made] == [4, 4, 4]
    assert made[1].labels == {"team": "sea", "own": "1"}
    assert (b"false" in bytes(made[0].spec), b"false" in bytes(made[1].spec)) == (False, True)
    # The same template once more, and a change of scale, replace no member.
    assert (await change(submit, "PATCH", group["id"], body))["submitted"] == 0
    body = {"roles": [{"name": "worker", "max": 3}]}
    assert (await change(submit, "PATCH", group["id"], body))["submitted"] == 1
    newest = (await happened(submit))[-1]
    assert isinstance(newest, events.JobSubmitted)
    assert b"false" in bytes(newest.spec)
    assert newest.group == events.GroupMember(GroupId(group["id"]), "worker", 2, 2)


async def test_a_template_that_could_never_run_is_refused(submit: Watched) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    node = Node(executor="e", name="n", allocatable={"cpu": 4_000, "memory": 1 << 40})
    producer = await submit.log.producer("nodes")
    await producer.append([heartbeat_record(Heartbeat(executor="e")), node_record(node)])
    await producer.close()
    body = {"roles": [{"name": "ps", "template": {**RUN, "cpu": "8"}}]}
    problem = await change(submit, "PATCH", group["id"], body, 422)
    (error,) = problem["errors"]
    assert error["pointer"] == "/roles/0/template"
    assert "role ps could never run: needs 8 cpu on one node" in error["detail"]
    assert len(await happened(submit)) == 4


async def test_a_priority_applies_to_all_members_and_later_ones(submit: Watched) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    ids = [member["id"] for member in group["members"]]
    await submit.happened("set", events.JobCancelled(job_id=ids[2], reason="scaled down"))
    body = {"priority": 7, "elastic": {"freezeSeconds": 60, "stepMax": 2}}
    await change(submit, "PATCH", group["id"], body)
    found = (await happened(submit))[-4:]
    changed = next(event for event in found if isinstance(event, events.GroupChanged))
    assert (changed.kind, changed.reason) == ("updated", "priority 7, freezeSeconds 60, stepMax 2")
    assert (changed.terms.priority, changed.terms.freeze_s, changed.terms.step_max) == (7, 60, 2)
    changed_priorities = [event for event in found if isinstance(event, events.JobReprioritized)]
    assert [(event.job_id, event.priority) for event in changed_priorities] == [
        (ids[0], 7), (ids[1], 7),
    ]  # fmt: skip
    (again,) = (event for event in found if isinstance(event, events.JobSubmitted))
    assert (again.client_id, again.priority) == ("g/worker-1~2", 7)


async def test_a_group_that_has_ended_cannot_be_changed(submit: Watched) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    await submit.happened("set", events.GroupFailed(group=group["id"], reason="boom"))
    problem = await change(submit, "PATCH", group["id"], {"priority": 1}, 409)
    assert "has ended (FAILED) and cannot be changed" in problem["detail"]


async def test_a_group_that_is_being_cancelled_cannot_be_changed(submit: Watched) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    await change(submit, "DELETE", group["id"])
    before = await happened(submit)
    wanted = {"roles": [{"name": "worker", "max": 9}]}
    for method, path, body in (("PATCH", "", wanted), ("POST", "/restart", {})):
        problem = await change(submit, method, group["id"] + path, body, 409)
        assert "is being cancelled and cannot be changed" in problem["detail"]
    assert await happened(submit) == before
    assert (await change(submit, "DELETE", group["id"]))["position"] is not None


async def test_a_group_is_cancelled_and_restarted_by_events_and_not_after_its_end(
    submit: Watched,
) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    await change(submit, "POST", f"{group['id']}/restart", {"reason": "new data"})
    await change(submit, "DELETE", f"{group['id']}?reason=enough")
    restart, cancel = (await happened(submit))[-2:]
    assert restart == events.GroupRestartRequested(group=group["id"], reason="new data")
    assert cancel == events.GroupCancelRequested(group=group["id"], reason="enough")
    await submit.happened("set", events.GroupCancelled(group=group["id"], reason="enough"))
    problem = await change(submit, "POST", f"{group['id']}/restart", {}, 409)
    assert "has ended (CANCELLED)" in problem["detail"]
    assert (await change(submit, "DELETE", group["id"]))["position"] is None


async def test_secret_values_of_a_template_are_sealed(fresh_database: str, valkey_url: str) -> None:
    key = {"secrets_key": base64.b64encode(bytes(32)).decode()}
    async with watched(fresh_database, valkey_url, submit_settings=key) as submit:
        await _check_sealing(submit)


async def _check_sealing(submit: Watched) -> None:
    env = {"TOKEN": {"value": "hunter2", "secret": True}}
    role = {"name": "a", "min": 1, "template": {**RUN, "env": env}}
    await send(submit, {"clientId": "g", "roles": [role]})
    assert not [value for value in await submit.logged() if b"hunter2" in value]
    _, member = await happened(submit)
    assert isinstance(member, events.JobSubmitted)
    assert b"TOKEN" in bytes(member.spec)


async def test_a_member_is_not_resubmitted_without_its_group(submit: Watched) -> None:
    (group,) = (await send(submit, {"clientId": "g", "roles": ROLES}))["groups"]
    body = {"ids": [group["members"][0]["id"]], "jobSet": "again"}
    answer = await submit.post("/jobs/resubmit", body)
    assert answer.status_code == 202, answer.text
    path = f"/api/v1/actions/{answer.json()['action']}"
    async with asyncio.timeout(60):
        while True:
            found = (await submit.client.get(path)).json()
            if found["state"] == "DONE":
                break
            await asyncio.sleep(0.05)
    assert found["made"] == 0
    assert "it is a member of group" in found["refused"][0]["reason"]


async def test_an_unknown_group_is_not_found(submit: Watched) -> None:
    for method, path in (("DELETE", "x"), ("PATCH", "0" * 28), ("POST", f"{'0' * 28}/restart")):
        body = {"roles": [{"name": "worker", "max": 3}]} if method == "PATCH" else {}
        await change(submit, method, path, None if method == "DELETE" else body, 404)
