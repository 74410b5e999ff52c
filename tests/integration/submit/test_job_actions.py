"""Asking something of many jobs: how many it concerns, and whose jobs they are."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_submit.store import token_store
from tests.integration.submit.submit_and_lookout import Watched, watched

RUN = {"command": ["true"]}
MISSING = "00" + "0" * 26


@pytest.fixture
async def submit(fresh_database: str, valkey_url: str) -> AsyncIterator[Watched]:
    async with watched(fresh_database, valkey_url) as made:
        yield made


async def had(submit: Watched, jobs: list[Any], queue: str = "") -> list[ids.JobId]:
    """Submit these (`Any`: JSON) and wait until the view knows them; their ids."""
    body = {"queue": queue or submit.queue, "jobSet": "set", "jobs": jobs}
    answer = await submit.post("/jobs", body)
    assert answer.status_code == 200, answer.text
    await submit.seen(answer.json()["position"])
    return [ids.JobId(job["id"]) for job in answer.json()["jobs"]]


async def running(submit: Watched, job_id: ids.JobId) -> None:
    lease = events.JobRunLeased(job_id=job_id, run=1, executor="north", node="n0", pool="default")
    await submit.happened("set", lease)


async def test_a_dry_run_of_a_filter_counts_jobs_and_changes_nothing(
    submit: Watched,
) -> None:
    jobs = [{**RUN, "labels": {"team": "x"}}, RUN, {**RUN, "priorityClass": "high"}, RUN]
    first, _, _, ended = await had(submit, jobs)
    await running(submit, first)
    await submit.happened("set", events.JobCancelled(job_id=ended, reason="x"))
    counts: dict[str, list[tuple[dict[str, object], int]]] = {
        "cancel": [({}, 3), ({"labels": {"team": "x"}}, 1), ({"classes": ["high"]}, 1)],
        "preempt": [({}, 1), ({"states": ["QUEUED"]}, 0), ({"cluster": "north"}, 1)],
        "reprioritize": [({}, 3), ({"jobSet": "another"}, 0), ({"node": "n1"}, 0)],
    }
    for action, cases in counts.items():
        for chosen, count in cases:
            body: dict[str, object] = {"filter": {"queue": submit.queue, **chosen}}
            if action == "reprioritize":
                body["priority"] = 1
            answer = await submit.post(f"/jobs/{action}?dryRun=true", body)
            assert answer.status_code == 200, answer.text
            said = answer.json()
            assert (said["position"], said["matched"]) == (None, count), (action, chosen)
            assert len(said["sample"]) == count
    before = len(await submit.events())
    answer = await submit.post("/jobs/cancel", {"filter": {"queue": submit.queue}})
    assert answer.json()["matched"] == 3
    assert "sample" not in answer.json()
    assert len(await submit.events()) > before


async def test_a_dry_run_by_ids_changes_nothing(submit: Watched) -> None:
    first, second = await had(submit, [RUN, RUN])
    await running(submit, first)
    before = len(await submit.events())
    body = {"ids": [first, second]}
    answer = await submit.post("/jobs/preempt?dryRun=true", body)
    assert answer.json()["matched"] == 1
    assert {job["state"] for job in answer.json()["sample"]} == {"LEASED", "QUEUED"}
    answer = await submit.post("/jobs/cancel?dryRun=true", {"ids": [first, MISSING]})
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/ids/1"]
    assert len(await submit.events()) == before


async def test_an_action_on_an_ended_job_is_not_an_error(submit: Watched) -> None:
    (only,) = await had(submit, [RUN])
    await submit.happened("set", events.JobCancelled(job_id=only, reason="x"))
    answer = await submit.post("/jobs/cancel", {"ids": [only]})
    assert (answer.status_code, answer.json()["matched"]) == (200, 0)


async def test_actions_by_ids_check_the_queue_of_each_job(submit: Watched) -> None:
    seen = [{"subjects": ["eve"], "verbs": ["view"]}, {"subjects": ["ann"], "verbs": ["cancel"]}]
    for name, permissions in (("shown", seen), ("hidden", [{**seen[1], "verbs": ["view"]}])):
        made = await submit.post("/queues", {"name": name, "permissions": permissions})
        assert made.status_code == 201, made.text
    (had_action,) = await had(submit, [RUN], "shown")
    (hidden,) = await had(submit, [RUN], "hidden")
    (free,) = await had(submit, [RUN])
    token = await token_store.make_token(submit.pool, "eve", ["submitter"])
    headers = {"Authorization": f"Bearer {token}"}

    async def cancelled(*named: str) -> tuple[int, list[str]]:
        answer = await submit.client.post(
            "/api/v1/jobs/cancel", json={"ids": named}, headers=headers
        )
        return answer.status_code, [f["pointer"] for f in answer.json().get("errors", [])]

    assert await cancelled(free, had_action) == (403, ["/ids/1"])
    assert await cancelled(hidden, free) == (404, ["/ids/0"])
    assert await cancelled(MISSING) == (404, ["/ids/0"])
    assert await cancelled(free) == (200, [])
    job_ids = {e.job_id for e in await told_to_cancel(submit)}
    assert job_ids == {free}


async def told_to_cancel(submit: Watched) -> list[events.JobCancelRequested]:
    sequences = [events.decode(value) for value in await submit.logged()]
    return [
        event
        for sequence in sequences
        for event in sequence.events
        if isinstance(event, events.JobCancelRequested)
    ]


async def test_actions_on_hidden_queues_are_refused(submit: Watched) -> None:
    permissions = [{"subjects": ["ann"], "verbs": ["view", "cancel"]}]
    await submit.post("/queues", {"name": "own", "permissions": permissions})
    for name, status in (("ann", 200), ("eve", 422)):
        token = await token_store.make_token(submit.pool, name, ["submitter"])
        headers = {"Authorization": f"Bearer {token}"}
        body = {"filter": {"queue": "own"}}
        answer = await submit.client.post("/api/v1/jobs/cancel", json=body, headers=headers)
        assert answer.status_code == status, answer.text


async def test_every_event_has_its_caller_and_reason(submit: Watched) -> None:
    (only,) = await had(submit, [RUN])
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    submit.client.headers["traceparent"] = trace
    for body in ({"ids": [only]}, {"filter": {"queue": submit.queue, "jobSet": "set"}}):
        said = {**body, "priority": 4, "reason": "the paper is due"}
        assert (await submit.post("/jobs/reprioritize", said)).status_code == 200
    sequences = [events.decode(value) for value in await submit.logged()][-2:]
    for sequence in sequences:
        assert (sequence.by, sequence.traceparent) == ("tester", trace)
        assert sequence.request
        assert [getattr(event, "reason", "") for event in sequence.events] == ["the paper is due"]


async def test_jobs_are_named_by_queue_job_set_and_client_id(submit: Watched) -> None:
    (job_id,) = await had(submit, [{**RUN, "clientId": "one"}])
    name = f"{submit.queue}/set/one"
    tried = await submit.post("/jobs/cancel?dryRun=true", {"ids": [name]})
    assert [job["id"] for job in tried.json()["sample"]] == [job_id]
    assert (await submit.post("/jobs/cancel", {"ids": [name]})).status_code == 200
    (event,) = [e for e in await submit.events() if isinstance(e, events.JobCancelRequested)]
    assert event.job_id == job_id
    missing = f"{submit.queue}/set/two"
    answer = await submit.post("/jobs/cancel", {"ids": [name, missing]})
    assert answer.status_code == 404
    assert answer.json()["errors"] == [
        {"pointer": "/ids/1", "detail": f"job {missing} does not exist"}
    ]
    answer = await submit.post("/jobs/cancel", {"ids": ["one"]})
    assert "queue/jobSet/clientId" in answer.json()["errors"][0]["detail"]
