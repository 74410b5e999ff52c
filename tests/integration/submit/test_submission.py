"""Jobs that are taken: what the log holds of them, what a repeat does, what actions ask for."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from fairlead_common.domain import ids, position_tokens
from fairlead_common.domain.records import clusters, configuration, events
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log.topics import CONFIG, JOB_PARTITIONS
from tests.integration.submit.submit_server import Served, served

RUN = {"command": ["true"]}


@pytest.fixture
async def submit(database: str) -> AsyncIterator[Served]:
    async with served(database) as made:
        yield made


async def submitted(submit: Served) -> list[events.JobSubmitted]:
    return [event for event in await submit.events() if isinstance(event, events.JobSubmitted)]


async def view_knows(submit: Served, jobs: Sequence[tuple[str, str, str]]) -> None:
    """Stand in for lookout's view: (job id, digest, state), and everything was read."""
    await submit.pool.execute("CREATE SCHEMA fairlead_lookout")
    await submit.pool.execute(
        "CREATE TABLE fairlead_lookout.known_jobs"
        " (job_id text, digest text, state text, queue text, job_set text)"
    )
    await submit.pool.execute(
        "CREATE VIEW fairlead_lookout.submitted_jobs AS"
        " SELECT job_id, digest, 0 AS week FROM fairlead_lookout.known_jobs"
    )
    await submit.pool.execute(
        "CREATE VIEW fairlead_lookout.known_job_sets AS"
        " SELECT DISTINCT queue, job_set, 0 AS first_week FROM fairlead_lookout.known_jobs"
    )
    await submit.pool.execute(
        "CREATE TABLE fairlead_lookout.known_arrays (array_id text, digest text, queue text,"
        " job_set text, submitted bytea, ended boolean, cancelled_ranges int, waiting int,"
        " live int)"
    )
    await submit.pool.execute(
        "CREATE TABLE fairlead_lookout.view_positions (partition int, position bigint)"
    )
    await submit.pool.executemany(
        "INSERT INTO fairlead_lookout.known_jobs VALUES ($1, $2, $3, $4, 'set')",
        [(*job, submit.queue) for job in jobs],
    )
    await submit.pool.executemany(
        "INSERT INTO fairlead_lookout.view_positions VALUES ($1, 1000000)",
        [(partition,) for partition in range(JOB_PARTITIONS)],
    )


async def test_the_short_form_becomes_a_pod_spec_with_its_shape(submit: Served) -> None:
    job = {
        "clientId": "a",
        "image": "python:3.12",
        "command": ["python", "-c", "pass"],
        "env": {"A": "1"},
        "cpu": "500m",
        "gpu": 2,
        "priority": 3,
        "labels": {"team": "x"},
    }
    answer = await submit.submit([job])
    assert answer.status_code == 200, answer.text
    (event,) = await submitted(submit)
    partition = ids.job_set_partition(submit.queue, "set")
    assert event.job_id == ids.client_job_id(partition, submit.queue, "set", "a")
    assert answer.json()["jobs"] == [{"id": event.job_id, "clientId": "a", "duplicate": False}]
    assert position_tokens.decode(answer.json()["position"]).jobs.keys() == {partition}
    amounts = {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 2}
    assert msgspec.json.decode(event.spec) == {
        "containers": [
            {
                "name": "main",
                "image": "python:3.12",
                "command": ["python", "-c", "pass"],
                "env": [{"name": "A", "value": "1"}],
                "resources": {"requests": amounts, "limits": amounts},
            }
        ],
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": "Never",
    }
    assert shapes.decode(event.shape).requests == {
        "cpu": 500,
        "memory": 2**30,
        "nvidia.com/gpu": 2,
    }
    assert (event.priority, event.priority_class, event.labels) == (3, "default", {"team": "x"})
    assert event.runtime_s_max == 336 * 3600


async def test_unused_fields_of_a_pod_spec_are_passed_on(submit: Served) -> None:
    spec = {
        "containers": [
            {
                "name": "train",
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "resources": {"claims": [{"name": "c"}], "limits": {"cpu": 2}},
            },
            {"resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 60,
        "priorityClassName": "high",
        "nodeSelector": {"disk": "ssd"},
    }
    assert (await submit.submit([{"podSpec": spec}])).status_code == 200
    (event,) = await submitted(submit)
    pod_spec = msgspec.json.decode(event.spec)
    assert pod_spec["volumes"] == spec["volumes"]
    first, second = pod_spec["containers"]
    assert first["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]
    amounts = {"cpu": 2, "memory": "1Gi"}
    assert first["resources"] == {
        "claims": [{"name": "c"}],
        "requests": amounts,
        "limits": amounts,
    }
    assert second["name"] == "c1"
    assert "priorityClassName" not in pod_spec
    shape = shapes.decode(event.shape)
    assert shape.requests == {"cpu": 2100, "memory": 2**30 + 2**20}
    assert shape.node_selector == {"disk": "ssd"}
    assert (event.priority_class, event.grace_s) == ("high", 60)


async def test_defaults_apply_to_missing_fields(submit: Served) -> None:
    defaults = {"cpu": "2", "command": ["a"], "labels": {"x": "1", "y": "1"}, "priority": 5}
    jobs = [{}, {"cpu": "3", "labels": {"y": "2"}}, {"podSpec": {"containers": [{}]}}]
    answer = await submit.submit(jobs, defaults=defaults)
    assert answer.status_code == 200, answer.text
    first, second, third = await submitted(submit)
    assert shapes.decode(first.shape).requests["cpu"] == 2000
    assert shapes.decode(second.shape).requests["cpu"] == 3000
    assert second.labels == {"x": "1", "y": "2"}
    assert shapes.decode(third.shape).requests["cpu"] == 1000
    assert {event.priority for event in (first, second, third)} == {5}


async def test_a_job_can_depend_on_jobs_of_its_job_set(submit: Served) -> None:
    jobs = [
        {**RUN, "clientId": "a"},
        {**RUN, "clientId": "b"},
        {**RUN, "clientId": "merge", "after": ["a", "b", "a"]},
    ]
    assert (await submit.submit(jobs)).status_code == 200
    first, second, merge = await submitted(submit)
    assert merge.after == (first.job_id, second.job_id)
    again = await submit.submit([{**RUN, "after": ["merge", first.job_id]}])
    assert again.status_code == 200, again.text
    assert (await submitted(submit))[-1].after == (merge.job_id, first.job_id)


async def test_a_repeated_submission_returns_the_same_jobs(submit: Served) -> None:
    jobs = [{**RUN, "clientId": "a"}, RUN]
    first = (await submit.submit(jobs)).json()
    second = (await submit.submit(jobs)).json()
    assert second["jobs"][0] == {**first["jobs"][0], "duplicate": True}
    assert first["jobs"][1]["id"] != second["jobs"][1]["id"]
    assert len(await submitted(submit)) == 3
    third = (await submit.submit(jobs[:1])).json()
    assert third["position"] == first["position"]


async def test_a_different_job_with_a_new_client_id_is_refused_at_once(submit: Served) -> None:
    """The view does not exist here, so it knows of neither."""
    one, other = {**RUN, "clientId": "a"}, {"command": ["x"], "clientId": "a"}
    assert (await submit.submit([one])).status_code == 200
    answer = await submit.submit([{**RUN, "clientId": "b"}, other])
    assert answer.status_code == 409
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/jobs/1/clientId"]
    assert len(await submitted(submit)) == 1


async def test_of_different_jobs_with_one_client_id_at_a_time_one_is_accepted(
    submit: Served,
) -> None:
    answers = await asyncio.gather(
        *(submit.submit([{"command": ["echo", str(n)], "clientId": "a"}]) for n in range(20))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    (event,) = await submitted(submit)
    (accepted,) = [answer.json() for answer in answers if answer.status_code == 200]
    assert accepted["jobs"][0]["id"] == event.job_id


async def test_a_repeated_submission_of_known_jobs_creates_nothing(empty_database: str) -> None:
    async with served(empty_database) as submit:
        assert (await submit.submit([{**RUN, "clientId": "a"}])).status_code == 200
        (event,) = await submitted(submit)
    async with served(empty_database) as other:
        other.queue = submit.queue
        await view_knows(other, [(event.job_id, event.digest, "RUNNING")])
        answer = await other.submit([{**RUN, "clientId": "a"}, {**RUN, "clientId": "b"}])
        assert [job["duplicate"] for job in answer.json()["jobs"]] == [True, False]
        assert len(await submitted(other)) == 2
        answer = await other.submit([{**RUN, "clientId": "a"}])
        assert answer.json()["position"] == position_tokens.encode({})
        answer = await other.submit([{**RUN, "clientId": "b"}, {"command": ["x"], "clientId": "a"}])
        assert answer.status_code == 409
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/jobs/1/clientId"]
        assert len(await submitted(other)) == 2
        answer = await other.submit([{**RUN, "after": ["nobody"]}])
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/jobs/0/after/0"]
        missing = "00" + "0" * 26
        answer = await other.post("/jobs/cancel", {"ids": [event.job_id, missing]})
        assert answer.status_code == 404
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/ids/1"]
        answer = await other.post("/jobs/cancel", {"ids": [event.job_id]})
        assert answer.json()["matched"] == 1


async def test_a_dry_run_writes_nothing(submit: Served) -> None:
    body = {"queue": submit.queue, "jobSet": "s", "jobs": [RUN]}
    answer = await submit.post("/jobs?dryRun=true", body)
    assert (answer.status_code, answer.json()["position"]) == (200, None)
    assert await submit.events() == []


async def test_a_dry_run_returns_the_feasibility(fresh_database: str) -> None:
    async with served(fresh_database) as submit:
        jobs = [{**RUN, "cpu": 2}, {**RUN, "cpu": 9}, {**RUN, "pool": "far"}, {**RUN, "gpu": 1}]
        body = {"queue": submit.queue, "jobSet": "s", "jobs": jobs}
        said = (await submit.post("/jobs?dryRun=true", body)).json()["jobs"]
        assert [job["feasible"] for job in said] == [None] * 4
        assert said[0]["why"] == "pool 'default' has no nodes"
        amounts = {"cpu": 8_000, "memory": 2**34}
        node = clusters.Node(executor="e", name="n", allocatable=amounts)
        producer = await submit.log.producer("e")
        await producer.append([clusters.node_record(node)])
        await producer.close()
    async with served(fresh_database) as submit:
        body["queue"] = submit.queue
        said = (await submit.post("/jobs?dryRun=true", body)).json()["jobs"]
        assert [job["feasible"] for job in said] == [True, False, None, None]
        assert said[0]["why"] is None
        assert said[1]["why"].startswith("needs 9 cpu on one node")
        assert "feasible" not in (await submit.post("/jobs", body)).json()["jobs"][0]


async def test_jobs_are_cancelled_by_id_in_their_partitions(submit: Served) -> None:
    made = [(await submit.submit([RUN], job_set)).json()["jobs"][0]["id"] for job_set in ("a", "b")]
    answer = await submit.post("/jobs/cancel", {"ids": [*made, made[0]], "reason": "enough"})
    assert answer.status_code == 200, answer.text
    asked = [e for e in await submit.events() if isinstance(e, events.JobCancelRequested)]
    mine = [event for event in asked if event.job_id in made]
    assert sorted(event.job_id for event in mine) == sorted(made)
    assert {event.reason for event in mine} == {"enough"}
    at = position_tokens.decode(answer.json()["position"]).jobs
    assert at.keys() == {ids.partition_of_job(job_id) for job_id in made}


async def test_a_job_set_is_cancelled_by_one_event_and_a_queue_by_one_in_each_partition(
    submit: Served,
) -> None:
    body = {"filter": {"queue": submit.queue, "jobSet": "a", "states": ["QUEUED"]}}
    answer = await submit.post("/jobs/cancel", body)
    assert answer.status_code == 200, answer.text
    (event,) = await submit.events()
    assert isinstance(event, events.JobsCancelRequested)
    assert (event.filter.queue, event.filter.job_set) == (submit.queue, "a")
    answer = await submit.post(
        "/jobs/reprioritize", {"filter": {"queue": submit.queue}, "priority": 7}
    )
    assert len(position_tokens.decode(answer.json()["position"]).jobs) == JOB_PARTITIONS
    moved = [e for e in await submit.events() if isinstance(e, events.JobsReprioritized)]
    assert [event.priority for event in moved] == [7] * JOB_PARTITIONS


async def test_jobs_are_released_and_preempted_by_id(submit: Served) -> None:
    answer = await submit.submit([{**RUN, "hold": True}])
    job_id = answer.json()["jobs"][0]["id"]
    for action in ("release", "preempt"):
        assert (await submit.post(f"/jobs/{action}", {"ids": [job_id]})).status_code == 200
    kinds = {type(e) for e in await submit.events() if getattr(e, "job_id", "") == job_id}
    assert kinds == {events.JobSubmitted, events.JobReleased, events.JobPreemptRequested}


async def test_a_new_queue_is_usable_at_once_and_written_to_the_log(submit: Served) -> None:
    name = f"{submit.queue}-b"
    answer = await submit.post("/queues", {"name": name, "weight": 2.5})
    assert answer.status_code == 201, answer.text
    assert answer.headers["etag"] == f'"{answer.json()["version"]}"'
    assert (await submit.post("/queues", {"name": name})).status_code == 409
    body = {"queue": name, "jobSet": "s", "jobs": [RUN]}
    assert (await submit.post("/jobs", body)).status_code == 200
    stored_queue = (await submit.client.get(f"/api/v1/queues/{name}")).json()
    assert (stored_queue["weight"], stored_queue["cordoned"]) == (2.5, False)
    assert name in {queue.name for queue in await told(submit, 1)}


async def told(submit: Served, count: int) -> list[configuration.Queue]:
    """What the log says of queues that begin like ours, once there are so many values."""
    while True:
        items = [configuration.decode(value) for value in await submit.logged(CONFIG)]
        mine = [
            item
            for item in items
            if isinstance(item, configuration.Queue) and item.name.startswith(f"{submit.queue}-")
        ]
        if len(mine) >= count:
            return mine


async def test_another_process_takes_over_the_outbox_relay(fresh_database: str) -> None:
    async with served(fresh_database) as second:
        async with served(fresh_database) as first:
            await first.post("/queues", {"name": f"{second.queue}-a"})
        await second.post("/queues", {"name": f"{second.queue}-b"})
        names = {queue.name for queue in await told(second, 2)}
        assert names == {f"{second.queue}-a", f"{second.queue}-b"}


async def test_the_openapi_document_describes_a_submission(submit: Served) -> None:
    document = (await submit.client.get("/openapi.json")).json()
    post = document["paths"]["/api/v1/jobs"]["post"]
    schemas = document["components"]["schemas"]
    schema = schemas["Submission"]
    content = post["requestBody"]["content"]["application/json"]
    assert content["schema"] == {"$ref": "#/components/schemas/Submission"}
    assert schema["required"] == ["queue", "jobSet", "jobs"]
    assert schema["additionalProperties"] is False
    jobs = next(part for part in schema["properties"]["jobs"]["anyOf"] if "items" in part)
    assert jobs["items"] == {"$ref": "#/components/schemas/Job"}
    assert {"clientId", "podSpec", "cpu", "gang"} <= schemas["Job"]["properties"].keys()
    assert {"200", "400", "401", "403", "409", "413", "422", "503"} <= post["responses"].keys()


async def test_a_queue_change_needs_the_current_etag(submit: Served) -> None:
    name = f"{submit.queue}-c"
    made = await submit.post("/queues", {"name": name})
    url, etag = f"/api/v1/queues/{name}", made.headers["etag"]
    changed = await submit.client.put(url, json={"weight": 3}, headers={"If-Match": etag})
    assert (changed.status_code, changed.json()["weight"]) == (200, 3)
    stale = await submit.client.put(url, json={"weight": 4}, headers={"If-Match": etag})
    assert stale.status_code == 412
    cordoned = await submit.post(f"/queues/{name}/cordon", {"reason": "repairs"})
    assert (cordoned.json()["cordoned"], cordoned.json()["reason"]) == (True, "repairs")
    open_again = await submit.client.post(f"{url}/uncordon")
    assert (open_again.json()["cordoned"], open_again.json()["weight"]) == (False, 3)
    versions = [queue.version for queue in await told(submit, 4)]
    assert versions == sorted(versions)


async def test_without_a_view_no_queue_is_removed(submit: Served) -> None:
    name = f"{submit.queue}-d"
    assert (await submit.post("/queues", {"name": name})).status_code == 201
    assert (await submit.client.delete(f"/api/v1/queues/{name}")).status_code == 503


async def test_view_queries_of_small_requests_are_batched(empty_database: str) -> None:
    async with served(empty_database) as submit:
        answers = await asyncio.gather(
            *(submit.submit([{**RUN, "clientId": f"{n}"}]) for n in range(50))
        )
        assert {answer.status_code for answer in answers} == {200}
        known = [(e.job_id, e.digest, "QUEUED") for e in await submitted(submit)]
    async with served(empty_database) as other:
        other.queue = submit.queue
        await view_knows(other, known)
        answers = await asyncio.gather(
            *(other.submit([{**RUN, "clientId": f"{n}"}]) for n in range(60))
        )
        duplicates = [answer.json()["jobs"][0]["duplicate"] for answer in answers]
        assert duplicates == [True] * 50 + [False] * 10


async def test_queues_are_listed_by_name_a_page_at_a_time(fresh_database: str) -> None:
    async with served(fresh_database) as submit:
        for name in ("b", "a", "c"):
            await submit.post("/queues", {"name": name})
        first = (await submit.client.get("/api/v1/queues?limit=2")).json()
        assert [queue["name"] for queue in first["queues"]] == ["a", "b"]
        rest = await submit.client.get(f"/api/v1/queues?limit=2&cursor={first['next']}")
        assert [queue["name"] for queue in rest.json()["queues"]] == ["c", submit.queue]
        assert rest.json()["next"] is None
        assert (await submit.client.get("/api/v1/queues?cursor=%C3%A9")).status_code == 400
