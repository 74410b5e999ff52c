"""Arrays by the API with the view of lookout: repeated, conflicting, cancelled, resubmitted."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import shapes
from fairlead_submit.domain.policy import AllowList, Quotas
from tests.integration.submit.submit_and_lookout import Watched, watched

RUN = {"command": ["true"]}


@pytest.fixture
async def submit(fresh_database: str, valkey_url: str) -> AsyncIterator[Watched]:
    quotas = Quotas(queue_jobs_max=1_500_000, jobs_max=None)
    async with watched(fresh_database, valkey_url, submit_settings={"quotas": quotas}) as made:
        yield made


async def send(
    submit: Watched, array: dict[str, Any], status: int = 200, **fields: object
) -> dict[str, Any]:
    """Submit an array to the job set `set`, and wait until the view has it; the response."""
    jobs = [{**RUN, **fields, "array": array}]
    answer = await submit.post("/jobs", {"queue": submit.queue, "jobSet": "set", "jobs": jobs})
    return await result(submit, answer, status)


async def act(submit: Watched, path: str, body: object, status: int = 200) -> dict[str, Any]:
    """A request about an array, and wait until the view has it."""
    return await result(submit, await submit.post(f"/arrays/{path}", body), status)


async def result(submit: Watched, answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    if found.get("position"):
        await submit.seen(found["position"])
    return found


async def logged(submit: Watched) -> list[events.AnyEvent]:
    """All events of the job set."""
    sequences = [events.decode(value) for value in await submit.logged()]
    return [event for each in sequences if each.job_set == "set" for event in each.events]


async def test_a_million_tasks_are_one_event_and_a_repeat_creates_nothing(submit: Watched) -> None:
    done = await send(submit, {"count": 1_000_000, "maxRunning": 5_000}, clientId="scan")
    (job,) = done["jobs"]
    assert (job["clientId"], job["tasks"], job["duplicate"]) == ("scan", 1_000_000, False)
    again = await send(submit, {"count": 1_000_000, "maxRunning": 5_000}, clientId="scan")
    assert again["jobs"] == [{**job, "duplicate": True}]
    (event,) = await logged(submit)
    assert isinstance(event, events.ArraySubmitted)
    assert (event.array, event.indexes, event.running_max) == (job["id"], "0-999999", 5_000)
    refused = await send(submit, {"count": 999}, status=409, clientId="scan")
    assert refused["errors"][0]["pointer"] == "/jobs/0/clientId"


async def test_the_tasks_count_for_the_quota(submit: Watched) -> None:
    await send(submit, {"count": 1_000_000})
    refused = await send(submit, {"count": 500_001}, status=403)
    assert "1000000 live jobs, and this request adds 500001" in refused["detail"]
    await send(submit, {"count": 500_000})


async def test_tasks_are_cancelled_by_index(submit: Watched) -> None:
    (job,) = (await send(submit, {"count": 100, "indexes": "0-99:2"}))["jobs"]
    done = await act(submit, f"{job['id']}/cancel", {"indexes": "10-19", "reason": "wrong"})
    assert (done["id"], done["tasks"]) == (job["id"], 5)
    done = await act(submit, f"{job['id']}/cancel", {})
    assert done["tasks"] == 50
    _, some, every = await logged(submit)
    assert some == events.ArrayCancelRequested(array=job["id"], indexes="10-18:2", reason="wrong")
    assert every == events.ArrayCancelRequested(array=job["id"])
    for indexes in ("1", "x", "5,4"):
        refused = await act(submit, f"{job['id']}/cancel", {"indexes": indexes}, status=422)
        assert refused["errors"][0]["pointer"] == "/indexes"
    await act(submit, f"{ids.array_id(job['id'][:-8] + '00000000')}/cancel", {}, status=404)


async def test_waiting_tasks_are_cancelled_by_their_ids(submit: Watched) -> None:
    (job,) = (await send(submit, {"count": 100, "indexes": "0-99:2"}))["jobs"]
    tasks = [ids.task_id(job["id"], index) for index in (4, 6)]
    done = await result(submit, await submit.post("/jobs/cancel", {"ids": tasks}), 200)
    assert done["matched"] == 2
    done = await result(submit, await submit.post("/jobs/cancel", {"ids": [job["id"]]}), 200)
    assert done["matched"] == 50
    unknown = [ids.task_id(job["id"], 5)]
    refused = await result(submit, await submit.post("/jobs/cancel", {"ids": unknown}), 404)
    assert [error["pointer"] for error in refused["errors"]] == ["/ids/0"]


async def test_a_waiting_task_has_the_priority_of_its_array(submit: Watched) -> None:
    (job,) = (await send(submit, {"count": 100, "indexes": "0-99:2"}))["jobs"]
    task = ids.task_id(job["id"], 4)
    for query in ("", "?dryRun=true"):
        path, body = f"/jobs/reprioritize{query}", {"ids": [task], "priority": 7}
        refused = await result(submit, await submit.post(path, body), 422)
        (error,) = refused["errors"]
        assert error["pointer"] == "/ids/0"
        assert f"is task 4 of array {job['id']}, which has not been released" in error["detail"]
        done = await result(
            submit, await submit.post(path, {"ids": [job["id"]], "priority": 7}), 200
        )
        assert done["matched"] == 50
    sequences = [events.decode(value) for value in await submit.logged()]
    changed = events.JobReprioritized(job_id=job["id"], priority=7)
    assert [event for each in sequences for event in each.events][1:] == [changed]
    released = events.JobSubmitted(
        job_id=task,
        shape=shapes.encode(shapes.Shape(requests={"cpu": 1000})),
        spec=msgspec.Raw(b"{}"),
        digest="",
        array=events.ArrayTask(job["id"], 4, 100, 4),
    )
    await submit.happened("set", released)
    done = await result(
        submit, await submit.post("/jobs/reprioritize", {"ids": [task], "priority": 7}), 200
    )
    assert done["matched"] == 1


async def test_a_waiting_task_does_not_run(submit: Watched) -> None:
    """So a preemption changes nothing, as that of a queued job; an array has no run of its own."""
    (job,) = (await send(submit, {"count": 10}))["jobs"]
    task = ids.task_id(job["id"], 4)
    done = await result(submit, await submit.post("/jobs/preempt", {"ids": [task]}), 200)
    assert done["matched"] == 0
    for action in ("preempt", "release"):
        refused = await result(
            submit, await submit.post(f"/jobs/{action}", {"ids": [job["id"]]}), 422
        )
        assert f"is array {job['id']}: name its tasks" in refused["errors"][0]["detail"]
    unknown = {"ids": [ids.task_id(job["id"], 11)]}
    await result(submit, await submit.post("/jobs/preempt", unknown), 404)


async def test_a_job_can_have_the_client_id_of_an_array(submit: Watched) -> None:
    (array,) = (await send(submit, {"count": 3}, clientId="a"))["jobs"]
    body = {"queue": submit.queue, "jobSet": "set", "jobs": [{**RUN, "clientId": "a"}]}
    (job,) = (await result(submit, await submit.post("/jobs", body), 200))["jobs"]
    assert not job["duplicate"]
    assert ids.array_id(job["id"]) != array["id"]


async def test_an_array_is_submitted_again_within_what_its_queue_permits_now(
    fresh_database: str, valkey_url: str
) -> None:
    async with watched(fresh_database, valkey_url) as submit:
        (job,) = (await send(submit, {"count": 3}))["jobs"]
        queue = submit.queue
    allow = {queue: AllowList(namespaces=("lab",))}
    async with watched(fresh_database, valkey_url, submit_settings={"allow": allow}) as submit:
        submit.queue = queue
        refused = await act(submit, f"{job['id']}/resubmit", {}, status=422)
        assert "this queue is permitted to use: lab" in refused["errors"][0]["detail"]


async def test_requests_that_divide_an_array_too_often_are_refused(submit: Watched) -> None:
    """Each range is short; together they would make millions of ranges."""
    (job,) = (await send(submit, {"count": 1_000_000}))["jobs"]
    stepped = ",".join(f"{n}000-{n}998:2" for n in range(1, 501))
    for action in ("cancel", "resubmit"):
        refused = await act(submit, f"{job['id']}/{action}", {"indexes": stepped}, status=422)
        assert refused["errors"][0]["pointer"] == "/indexes"
        assert "into more than 10000 ranges" in refused["errors"][0]["detail"]
    await act(submit, f"{job['id']}/cancel", {"indexes": stepped[:200].rpartition(",")[0]})


async def test_tasks_are_submitted_again_as_a_new_array(submit: Watched) -> None:
    array = {"count": 100, "maxRunning": 3}
    (job,) = (await send(submit, array, labels={"team": "a"}))["jobs"]
    body = {"indexes": "3,17-19", "clientId": "again"}
    done = await act(submit, f"{job['id']}/resubmit", body)
    assert done["tasks"] == 4
    event = (await logged(submit))[-1]
    assert isinstance(event, events.ArraySubmitted)
    assert (event.array, event.indexes, event.count) == (done["id"], "3,17-19", 100)
    assert event.template.labels == {"team": "a"}
    assert event.template.annotations == {events.RESUBMITTED_FROM: job["id"]}
    repeated = await act(submit, f"{job['id']}/resubmit", body)
    assert (repeated["id"], repeated["position"]) == (done["id"], done["position"])
    assert (await logged(submit))[-1] == event
    bad = await act(submit, f"{job['id']}/resubmit", {"clientId": "a\nb"}, status=422)
    assert bad["errors"][0]["pointer"] == "/clientId"
    other = await act(submit, f"{job['id']}/resubmit", {**body, "indexes": "5"}, status=409)
    assert other["errors"][0]["pointer"] == "/clientId"
    assert len(await logged(submit)) == 2


async def test_a_dry_run_says_how_many_tasks_there_would_be(submit: Watched) -> None:
    jobs = [{**RUN, "array": {"count": 7}}]
    body = {"queue": submit.queue, "jobSet": "set", "jobs": jobs}
    answer = await submit.post("/jobs?dryRun=true", body)
    assert answer.json()["jobs"][0]["tasks"] == 7
    assert await logged(submit) == []


async def test_jobs_and_arrays_wait_for_arrays_that_exist(submit: Watched) -> None:
    (scan,) = (await send(submit, {"count": 10}, clientId="scan"))["jobs"]
    merge = {**RUN, "clientId": "merge", "after": [{"array": "scan"}, {"array": scan["id"]}]}
    done = await result(submit, await submit.submit([merge], job_set="set"), 200)
    (submitted,) = [e for e in await logged(submit) if isinstance(e, events.JobSubmitted)]
    assert submitted.after == (scan["id"], scan["id"])
    assert done["jobs"][0]["id"] == submitted.job_id
    await send(submit, {"count": 5}, after=[{"array": "scan"}])
    *_, waiting = await logged(submit)
    assert isinstance(waiting, events.ArraySubmitted)
    assert waiting.template.after == (scan["id"],)
    for after, pointer, detail in (
        ({"array": "nobody"}, "/jobs/0/after/0/array", "does not exist as an array"),
        ({"array": "merge"}, "/jobs/0/after/0/array", "does not exist as an array"),
        ("scan", "/jobs/0/after/0", 'an array is written as {"array": "name"}'),
    ):
        job = {**RUN, "clientId": "x", "after": [after]}
        refused = await result(submit, await submit.submit([job], job_set="set"), 422)
        assert [error["pointer"] for error in refused["errors"]] == [pointer]
        assert detail in refused["errors"][0]["detail"]


async def test_a_resubmitted_array_waits_only_for_what_has_not_succeeded(submit: Watched) -> None:
    (done,) = (await send(submit, {"count": 1}, clientId="done"))["jobs"]
    (still,) = (await send(submit, {"count": 1}, clientId="open"))["jobs"]
    (merge,) = (
        await send(
            submit, {"count": 4}, clientId="merge", after=[{"array": "done"}, {"array": "open"}]
        )
    )["jobs"]
    task = ids.task_id(done["id"], 0)
    released = events.JobSubmitted(
        job_id=task,
        shape=shapes.encode(shapes.Shape(requests={"cpu": 1000})),
        spec=msgspec.Raw(b"{}"),
        digest="",
        array=events.ArrayTask(done["id"], 0, 1, 0),
    )
    await submit.happened(
        "set",
        released,
        events.JobRunLeased(job_id=task, run=1, executor="e", node="n"),
        events.JobRunSucceeded(job_id=task, run=1),
        events.JobSucceeded(job_id=task),
        events.ArrayEnded(array=done["id"]),
    )
    made = await act(submit, f"{merge['id']}/resubmit", {"indexes": "1"})
    (renewed,) = [
        event
        for event in await logged(submit)
        if isinstance(event, events.ArraySubmitted) and event.array == made["id"]
    ]
    assert renewed.template.after == (still["id"],)


async def test_a_cancellation_counts_the_tasks_that_have_not_ended(submit: Watched) -> None:
    """Of tasks that are jobs, that were cancelled before they were, and that wait."""
    (job,) = (await send(submit, {"count": 100_000}))["jobs"]
    array = job["id"]

    def make_task(index: int) -> events.JobSubmitted:
        return events.JobSubmitted(
            job_id=ids.task_id(array, index),
            shape=shapes.encode(shapes.Shape(requests={"cpu": 1000})),
            spec=msgspec.Raw(b"{}"),
            digest="",
            array=events.ArrayTask(array, index, 100_000, index),
        )

    done = ids.task_id(array, 0)
    await submit.happened(
        "set",
        *(make_task(index) for index in range(10)),
        events.JobRunLeased(job_id=done, run=1, executor="e", node="n"),
        events.JobRunSucceeded(job_id=done, run=1),
        events.JobSucceeded(job_id=done),
        events.ArrayCancelRequested(array=array, indexes="8-12,70000"),
        events.JobCancelled(job_id=ids.task_id(array, 8), reason=""),
        events.JobCancelled(job_id=ids.task_id(array, 9), reason=""),
        events.ArrayTasksCancelled(array=array, indexes="10-12,70000", tasks=4),
    )
    for indexes, tasks in {"0-9": 7, "0,8-12": 0, "5-15": 6, "69999-70001": 2}.items():
        body = {"indexes": indexes}
        answer = await submit.post(f"/arrays/{array}/cancel?dryRun=true", body)
        found = await result(submit, answer, 200)
        assert (found["tasks"], found["position"]) == (tasks, None), indexes
    before = len(await logged(submit))
    found = await act(submit, f"{array}/cancel", {"indexes": "0,8-12"})
    assert (found["tasks"], found["position"]) == (0, None)
    assert len(await logged(submit)) == before, "nothing is left of these"
    named = [ids.task_id(array, index) for index in (0, 1, 11, 20)]
    found = await result(submit, await submit.post("/jobs/cancel", {"ids": named}), 200)
    assert found["matched"] == 2
    found = await act(submit, f"{array}/cancel", {})
    assert found["tasks"] == 100_000 - 8, "and task 1, which the request for its id ended"
