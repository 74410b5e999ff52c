"""What operators do: queues with all their parts, cordons of executors and nodes."""

from collections.abc import AsyncIterator

import pytest

from fairlead_common.db import lock_session, locks
from fairlead_common.domain import position_tokens
from fairlead_common.domain.records import clusters, configuration
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.topics import CONFIG
from fairlead_submit.store import token_store
from tests.integration.submit.submit_and_lookout import watched
from tests.integration.submit.submit_server import Served, served

RUN = {"command": ["true"]}


@pytest.fixture
async def submit(fresh_database: str) -> AsyncIterator[Served]:
    async with served(fresh_database) as made:
        yield made


async def reported(submit: Served, executor: str, *nodes: str) -> None:
    """An executor lives, with these nodes."""
    producer = await submit.log.producer(executor)
    records = [clusters.heartbeat_record(clusters.Heartbeat(executor=executor))]
    records += [
        clusters.node_record(clusters.Node(executor=executor, name=name, allocatable={"cpu": 1}))
        for name in nodes
    ]
    await producer.append(records)
    await producer.close()


async def cordons_told(submit: Served, count: int) -> list[configuration.Cordon]:
    """What the log says of cordons, once there are so many values."""
    while True:
        items = [configuration.decode(value) for value in await submit.logged(CONFIG)]
        written_records = [item for item in items if isinstance(item, configuration.Cordon)]
        if len(written_records) >= count:
            return written_records


async def test_cordons_of_executors_and_nodes_are_written_to_the_log(submit: Served) -> None:
    await reported(submit, "north", "n0")
    url = "/api/v1/executors/north"
    body = {"cordoned": True, "reason": "repairs"}
    first = await submit.client.put(url, json=body)
    assert first.status_code == 200, first.text
    assert first.json() == {
        "executor": "north",
        "node": None,
        "version": first.json()["version"],
        "position": first.json()["position"],
        **body,
    }
    place = position_tokens.decode(first.json()["position"])
    assert place.configured == {"cordon/north": first.json()["version"]}
    again = await submit.client.put(url, json=body)
    assert again.json() == first.json()
    node = await submit.client.put(f"{url}/nodes/n0", json={"cordoned": True})
    assert (node.json()["node"], node.json()["reason"]) == ("n0", "")
    lifted = await submit.client.put(url, json={"cordoned": False})
    assert lifted.json()["version"] > first.json()["version"]
    written_records = await cordons_told(submit, 3)
    assert [(item.node, item.cordoned) for item in written_records] == [
        (None, True),
        ("n0", True),
        (None, False),
    ]


async def test_a_change_is_in_the_log_before_its_response(submit: Served) -> None:
    await reported(submit, "north", "n0")
    await submit.post("/queues", {"name": "tides"})
    put = submit.client.put
    for change in (
        submit.post("/queues/tides/cordon", {}),
        submit.post("/queues/tides/uncordon", {}),
        put("/api/v1/queues/tides", json={"weight": 2}),
        put("/api/v1/executors/north", json={"cordoned": True}),
        put("/api/v1/executors/north/nodes/n0", json={"cordoned": True}),
    ):
        changed = (await change).json()
        written = [configuration.decode(value) for value in await submit.logged(CONFIG)]
        assert changed["version"] in {item.version for item in written}
        assert "pending" not in changed


async def test_a_change_is_relayed_by_another_process_before_its_response(submit: Served) -> None:
    await submit.post("/queues", {"name": "tides"})  # from now on this process relays
    async with served(submit.url) as other:
        changed = (await other.post("/queues/tides/cordon", {})).json()
        written = [configuration.decode(value) for value in await submit.logged(CONFIG)]
        assert changed["version"] in {item.version for item in written}


async def test_a_change_that_the_log_does_not_take_in_time_is_pending(fresh_database: str) -> None:
    log = MemoryLog(lambda: 0)
    async with served(fresh_database, log) as submit:
        await submit.post("/queues", {"name": "tides"})
        log.core.away = True
        for _ in range(2):  # the repetition changes nothing, and is not in effect either
            changed = await submit.post("/queues/tides/cordon", {})
            assert (changed.status_code, changed.json()["pending"]) == (200, True)
        log.core.away = False
        assert "pending" not in (await submit.post("/queues/tides/cordon", {})).json()
        written = [configuration.decode(value) for value in await submit.logged(CONFIG)]
        assert changed.json()["version"] in {item.version for item in written}


async def test_an_unknown_name_can_only_be_uncordoned(submit: Served) -> None:
    await reported(submit, "north", "n0")
    for path in ("south", "north/nodes/n1"):
        url = f"/api/v1/executors/{path}"
        assert (await submit.client.put(url, json={"cordoned": True})).status_code == 404
        assert (await submit.client.put(url, json={"cordoned": False})).status_code == 200


async def test_only_operators_cordon(fresh_database: str) -> None:
    async with served(fresh_database, roles=("submitter",)) as submit:
        answer = await submit.client.put("/api/v1/executors/e", json={"cordoned": True})
        assert answer.status_code == 403


async def test_a_queue_stores_all_its_fields(submit: Served) -> None:
    body = {
        "name": "tides",
        "weight": 2.5,
        "limits": {"default": {"cpu": 0.5, "memory": "64Gi"}},
        "permissions": [{"subjects": ["group:sea"], "verbs": ["submit", "view"]}],
        "labels": {"team": "sea"},
        "retryPolicy": {"limit": 2, "on": ["oom"], "memoryFactor": 1.5},
        "order": "fair",
    }
    made = await submit.post("/queues", body)
    assert made.status_code == 201, made.text
    answer_body = (await submit.client.get("/api/v1/queues/tides")).json()
    assert answer_body == made.json()
    assert {name: answer_body[name] for name in body} == body
    queue = None
    while queue is None:
        written_records = [configuration.decode(value) for value in await submit.logged(CONFIG)]
        queue = next(
            (item for item in written_records if getattr(item, "name", "") == "tides"), None
        )
    assert isinstance(queue, configuration.Queue)
    assert queue.retry_policy is not None
    assert queue.retry_policy.memory_factor == 1.5
    assert queue.order == "fair"


async def test_an_unknown_order_of_a_queue_is_refused_with_the_orders(submit: Served) -> None:
    refused = await submit.post("/queues", {"name": "tides", "order": "lifo"})
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["pointer"] == "/order"
    assert "fifo, fair" in error["detail"]


async def test_a_dry_run_of_a_queue_changes_nothing(submit: Served) -> None:
    good, bad = {"name": "tides", "weight": 2}, {"name": "tides", "weight": -1}
    tried = await submit.post("/queues?dryRun=true", good)
    assert (tried.status_code, tried.json()["weight"]) == (200, 2.0), tried.text
    assert (await submit.client.get("/api/v1/queues/tides")).status_code == 404
    assert (await submit.post("/queues?dryRun=true", bad)).status_code == 422

    made = (await submit.post("/queues", good)).json()
    assert (await submit.post("/queues?dryRun=true", good)).status_code == 409
    put = submit.client.put
    url = "/api/v1/queues/tides?dryRun=true"
    tried = await put(url, json={"weight": 3})
    assert (tried.status_code, tried.json()["weight"]) == (200, 3.0), tried.text
    assert (await put(url, json=bad)).status_code == 422
    assert (await put(url, json=good, headers={"if-match": '"0"'})).status_code == 412
    assert (await put(f"{url}&dryrun=true", json=good)).status_code == 422
    assert (await put("/api/v1/queues/none?dryRun=true", json={})).status_code == 404
    assert (await submit.client.get("/api/v1/queues/tides")).json() == made


async def test_a_limit_of_an_unknown_class_is_refused(submit: Served) -> None:
    answer = await submit.post("/queues", {"name": "a", "limits": {"royal": {"cpu": 1}}})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/limits/royal"
    assert "urgent" in error["detail"]


async def test_queues_are_counted_and_have_etags(submit: Served) -> None:
    for name in ("a", "b"):
        await submit.post("/queues", {"name": name})
    listed = (await submit.client.get("/api/v1/queues?include=count&limit=1")).json()
    assert (listed["count"], len(listed["queues"])) == ("3", 1)
    answer_body = await submit.client.get("/api/v1/queues/a")
    headers = {"If-None-Match": answer_body.headers["etag"]}
    same = await submit.client.get("/api/v1/queues/a", headers=headers)
    assert (same.status_code, same.content) == (304, b"")
    await submit.post("/queues/a/cordon", {"reason": "x"})
    changed = await submit.client.get("/api/v1/queues/a?wait=5s", headers=headers)
    assert (changed.status_code, changed.json()["reason"]) == (200, "x")


async def test_a_queue_is_hidden_from_callers_without_view_permission(submit: Served) -> None:
    permissions = [{"subjects": ["ann"], "verbs": ["view", "submit"]}]
    await submit.post("/queues", {"name": "own", "permissions": permissions})
    for name, status in (("ann", 200), ("eve", 404)):
        token = await token_store.make_token(submit.pool, name, ["submitter"])
        headers = {"Authorization": f"Bearer {token}"}
        answer_body = await submit.client.get("/api/v1/queues/own", headers=headers)
        assert answer_body.status_code == status
        listed = (await submit.client.get("/api/v1/queues", headers=headers)).json()
        names = {queue["name"] for queue in listed["queues"]}
        assert ("own" in names) == (name == "ann")
        body = {"queue": "own", "jobSet": "s", "jobs": [RUN]}
        answer = await submit.client.post("/api/v1/jobs", json=body, headers=headers)
        assert answer.status_code == (200 if name == "ann" else 422), answer.text


async def test_a_queue_is_removed_when_it_has_no_live_jobs(
    fresh_database: str, valkey_url: str
) -> None:
    async with watched(fresh_database, valkey_url) as submit:
        name, url = submit.queue, f"/api/v1/queues/{submit.queue}"
        made = (await submit.client.get(url)).json()
        (job,) = (await submit.submit([RUN])).json()["jobs"]
        busy = await submit.client.delete(url)
        assert busy.status_code == 409, "also what the view had not seen yet counts"
        assert "1 jobs" in busy.json()["detail"]
        await submit.post("/jobs/cancel", {"ids": [job["id"]]})
        stale = await submit.client.delete(url, headers={"If-Match": '"0"'})
        assert stale.status_code == 412
        deleted = await submit.client.delete(url)
        assert deleted.status_code == 200
        assert deleted.json()["version"] == made["version"] + 1
        assert deleted.json()["position"]
        assert "pending" not in deleted.json()
        assert (await submit.client.delete(url)).status_code == 404
        assert (await submit.submit([RUN])).status_code == 422
        again = await submit.post("/queues", {"name": name})
        assert again.status_code == 201
        assert again.json()["version"] > made["version"] + 1


async def test_a_deletion_that_the_log_does_not_have_in_time_is_pending(
    fresh_database: str, valkey_url: str
) -> None:
    relay = await lock_session.connect(fresh_database, name="test", command_s_max=60.0)
    try:
        assert await lock_session.try_lock(relay, locks.SUBMIT_RELAY)
        async with watched(fresh_database, valkey_url) as submit:
            deleted = await submit.client.delete(f"/api/v1/queues/{submit.queue}")
            assert (deleted.status_code, deleted.json()["pending"]) == (200, True)
    finally:
        relay.terminate()


async def test_each_queue_change_records_its_caller(submit: Served) -> None:
    await reported(submit, "north", "n0")
    await submit.post("/queues", {"name": "tides"})
    await submit.post("/queues/tides/cordon", {"reason": "x"})
    await submit.client.put("/api/v1/executors/north", json={"cordoned": True})
    await cordons_told(submit, 1)
    written_records = [configuration.decode(value) for value in await submit.logged(CONFIG)]
    mine = [item for item in written_records if getattr(item, "name", "tides") == "tides"]
    assert [item.by for item in mine] == ["tester"] * 3
