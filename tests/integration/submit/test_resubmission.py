"""What is submitted again: which jobs, in which places, once, whoever dies in between."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_common.domain.scheduling import quantities, shapes
from fairlead_submit.store import resubmission_store, token_store
from fairlead_submit.store.schema import SQL
from tests.integration.submit.submit_and_lookout import Watched, watched
from tests.integration.submit.submit_server import Answer, served
from tests.waiting import until, until_read

RUN = {"command": ["true"]}
decoder = msgspec.json.Decoder(events.JobSubmitted)


@pytest.fixture
async def submit(fresh_database: str, valkey_url: str) -> AsyncIterator[Watched]:
    async with watched(fresh_database, valkey_url) as made:
        yield made


async def had(submit: Watched, jobs: list[Any], job_set: str = "set") -> list[str]:
    """Submit these (`Any`: JSON) and wait until the view knows them; their ids."""
    answer = await submit.submit(jobs, job_set)
    assert answer.status_code == 200, answer.text
    await submit.seen(answer.json()["position"])
    return [job["id"] for job in answer.json()["jobs"]]


async def done(submit: Watched, answer: Answer) -> dict[str, Any]:
    """The end of the action that this answer tells of (`Any`: JSON)."""
    assert answer.status_code == 202, answer.text
    async with asyncio.timeout(60):
        while True:
            action_state = await submit.client.get(f"/api/v1/actions/{answer.json()['action']}")
            assert action_state.status_code == 200, action_state.text
            if action_state.json()["state"] == "DONE":
                found: dict[str, Any] = action_state.json()
                return found
            await asyncio.sleep(0.05)


async def in_set(
    submit: Watched, job_set: str, missing: str | None = None
) -> dict[str, events.JobSubmitted]:
    """What was submitted to a job set, by the job that it takes the place of, else by `missing`."""
    made = {}
    for value in await submit.logged():
        sequence = events.decode(value)
        if (sequence.queue, sequence.job_set) == (submit.queue, job_set):
            for event in sequence.events:
                if missing is not None and not isinstance(event, events.JobSubmitted):
                    continue
                assert isinstance(event, events.JobSubmitted)
                replaced = event.annotations.get(events.RESUBMITTED_FROM, missing)
                assert replaced is not None
                made[replaced] = event
    return made


async def test_jobs_of_a_filter_are_resubmitted_into_another_job_set(submit: Watched) -> None:
    jobs = [{**RUN, "clientId": f"{n}", "cpu": 2, "priority": n} for n in range(5)]
    known = await had(submit, jobs)
    await submit.happened("set", events.JobCancelled(job_id=ids.JobId(known[3]), reason="x"))
    chosen = {"queue": submit.queue, "jobSet": "set", "states": ["QUEUED"]}
    answer = await submit.post("/jobs/resubmit", {"filter": chosen, "jobSet": "again"})
    assert answer.json()["total"] == 4
    action_state = await done(submit, answer)
    assert (
        action_state["total"],
        action_state["done"],
        action_state["made"],
        action_state["refused"],
    ) == (4, 4, 4, [])
    made = await in_set(submit, "again")
    assert set(made) == {job_id for n, job_id in enumerate(known) if n != 3}
    assert [event.priority for event in made.values()] == [0, 1, 2, 4]
    assert {event.client_id for event in made.values()} == {None}
    await submit.seen(action_state["position"])
    assert len(await submit.pool.fetch("SELECT * FROM fairlead_submit.action_items")) == 0


async def test_a_dry_run_counts_the_jobs_that_would_be_resubmitted(submit: Watched) -> None:
    known = await had(submit, [{**RUN, "clientId": f"{n}"} for n in range(5)])
    failed = events.JobFailed(
        job_id=ids.JobId(known[3]), category=events.FailureCategory.OOM, reason="x"
    )
    await submit.happened("set", failed)
    chosen = {"queue": submit.queue, "jobSet": "set"}
    for body, total in (
        ({"ids": known[1:3]}, 2),
        ({"ids": [known[1], known[1]], "jobSet": "again"}, 1),
        ({"filter": {**chosen, "states": ["QUEUED"]}, "jobSet": "again"}, 4),
        ({"filter": chosen, "failed": True}, 1),
        ({"filter": {**chosen, "states": ["RUNNING"]}}, 0),
    ):
        answer = await submit.post("/jobs/resubmit?dryRun=true", body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"total": total}
    for table in ("actions", "action_items"):
        assert await submit.pool.fetchval(f"SELECT count(*) FROM fairlead_submit.{table}") == 0
    answer = await submit.post("/jobs/resubmit?dryRun=true", {"ids": known, "jobSet": "a//b"})
    assert answer.status_code == 422


async def test_resubmitted_jobs_get_more_memory(submit: Watched) -> None:
    spec = {
        "containers": [{"name": "main", "image": "x", "resources": {"limits": {"memory": "3Gi"}}}]
    }
    known = await had(submit, [{**RUN, "memory": "1536Mi"}, {"podSpec": spec}])
    body = {"ids": known, "jobSet": "more", "memoryFactor": 2.5}
    await done(submit, await submit.post("/jobs/resubmit", body))
    made = await in_set(submit, "more")
    for job_id, want in zip(known, (3_840 * 2**20, 7_680 * 2**20), strict=True):
        assert shapes.decode(made[job_id].shape).requests["memory"] == want
        (container,) = json.loads(bytes(made[job_id].spec))["containers"]
        for amounts in container["resources"].values():
            assert quantities.parse_quantity("memory", amounts["memory"], round_up=True) == want
    for factor in (0.5, 17, "2", None):
        answer = await submit.post("/jobs/resubmit", {**body, "memoryFactor": factor})
        assert answer.status_code == (202 if factor is None else 422)


async def test_a_repeated_resubmission_creates_no_more_jobs(submit: Watched) -> None:
    known = await had(submit, [RUN] * 3)
    body = {"ids": known, "jobSet": "again", "clientId": "mine"}
    answers = [await submit.post("/jobs/resubmit", body) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    await done(submit, answers[0])
    assert len(await in_set(submit, "again")) == 3
    other = await submit.post("/jobs/resubmit", {**body, "ids": known[:1]})
    assert (other.status_code, other.json()["errors"][0]["pointer"]) == (409, "/clientId")


async def test_dependencies_and_gangs_refer_to_resubmitted_jobs(submit: Watched) -> None:
    gang = {"gang": {"name": "g", "size": 3, "minSize": 3}}
    jobs = [
        {**RUN, "clientId": "part"},
        {**RUN, "clientId": "merge", "after": ["part"]},
        *({**RUN, **gang, "clientId": f"g{n}"} for n in range(3)),
    ]
    part, merge, *members = await had(submit, jobs)
    body = {"ids": [part, merge, *members[1:]], "jobSet": "again"}
    action_state = await done(submit, await submit.post("/jobs/resubmit", body))
    assert action_state["made"] == 4
    made = await in_set(submit, "again")
    assert made[merge].after == (made[part].job_id,)
    gangs = [made[member].gang for member in members[1:]]
    assert gangs[0] is not None
    assert (gangs[0].size, gangs[0].min_size, gangs[0].name[:2]) == (2, 2, "g~")
    assert {gang and gang.member for gang in gangs} == {0, 1}


def ended(job_id: str, state: str, reason: str = "") -> list[events.AnyEvent]:
    """A job that was started, and how it ended."""
    job = ids.JobId(job_id)
    if state == "cancelled":
        return [events.JobCancelled(job_id=job, reason=reason)]
    lease = events.JobRunLeased(job_id=job, run=1, executor="e", node="n", pool="default")
    if state == "succeeded":
        return [lease, events.JobSucceeded(job_id=job)]
    return [
        lease,
        events.JobFailed(job_id=job, category=events.FailureCategory.EXIT_CODE, reason="x"),
    ]


async def again(submit: Watched) -> list[str]:
    """What of the job set `set` failed is submitted again; the client ids of the new jobs."""
    before = len(await submit.logged())
    body = {"filter": {"queue": submit.queue, "jobSet": "set"}, "failed": True}
    action_state = await done(submit, await submit.post("/jobs/resubmit", body))
    assert action_state["refused"] == []
    await submit.seen(action_state["position"])
    new = [events.decode(value) for value in (await submit.logged())[before:]]
    return [
        event.client_id or ""
        for sequence in new
        for event in sequence.events
        if isinstance(event, events.JobSubmitted)
    ]


async def test_failed_jobs_are_resubmitted_once_and_superseded(submit: Watched) -> None:
    jobs = [
        {**RUN, "clientId": "good"},
        {**RUN, "clientId": "bad"},
        {**RUN, "clientId": "then", "after": ["bad"]},
        {**RUN, "clientId": "unwanted"},
        {**RUN, "clientId": "v~2"},
    ]
    good, bad, then, unwanted, odd = await had(submit, jobs)
    await submit.happened(
        "set",
        *ended(good, "succeeded"),
        *ended(bad, "failed"),
        *ended(then, "cancelled", f"job {bad}, which it waits for, ended FAILED"),
        *ended(unwanted, "cancelled", "no longer needed"),
        *ended(odd, "failed"),
    )
    assert sorted(await again(submit)) == ["bad~2", "then~2", "v~2~2"]
    assert await again(submit) == []
    second = {name: ids.job_ids_of(f"{submit.queue}/set/{name}~2")[0] for name in ("bad", "then")}
    made = await in_set(submit, "set", missing="")
    assert made[bad].job_id == second["bad"]
    assert made[then].after == (second["bad"],)
    await submit.happened("set", *ended(second["bad"], "failed"))
    assert await again(submit) == ["bad~3"]


async def test_a_job_set_counts_superseded_jobs_separately(submit: Watched) -> None:
    bad, worse = await had(submit, [{**RUN, "clientId": "bad"}, {**RUN, "clientId": "worse"}])
    await submit.happened("set", *ended(bad, "failed"), *ended(worse, "failed"))
    assert len(await again(submit)) == 2
    row = await submit.pool.fetchrow(
        "SELECT superseded, jobs, live FROM fairlead_lookout.job_sets WHERE queue = $1",
        submit.queue,
    )
    assert row is not None
    assert dict(row) == {"superseded": 2, "jobs": 4, "live": 2}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"filter": {"queue": "QUEUE"}}, "/filter/jobSet"),
        ({"jobSet": "another"}, "/jobSet"),
        ({"queue": "another"}, "/queue"),
        ({"filter": {"queue": "QUEUE", "jobSet": "set", "states": ["FAILED"]}}, "/filter/states"),
    ],
)
async def test_failed_jobs_are_resubmitted_only_into_their_job_set(
    submit: Watched, change: dict[str, Any], pointer: str
) -> None:
    body = {"filter": {"queue": submit.queue, "jobSet": "set"}, "failed": True, **change}
    body["filter"]["queue"] = submit.queue
    answer = await submit.post("/jobs/resubmit", body)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_a_job_with_an_unfinished_outside_dependency_is_refused(submit: Watched) -> None:
    jobs = [
        {**RUN, "clientId": "a"},
        {**RUN, "clientId": "b", "after": ["a"]},
        {**RUN, "clientId": "c", "after": ["b"]},
    ]
    first, second, third = await had(submit, jobs)
    body = {"ids": [second, third], "jobSet": "again"}
    action_state = await done(submit, await submit.post("/jobs/resubmit", body))
    assert (action_state["done"], action_state["made"]) == (2, 0)
    assert [item["id"] for item in action_state["refused"]] == [second, third]
    await submit.happened(
        "set",
        events.JobRunLeased(job_id=ids.JobId(first), run=1, executor="e", node="n", pool="default"),
        events.JobSucceeded(job_id=ids.JobId(first)),
    )
    action_state = await done(submit, await submit.post("/jobs/resubmit", body))
    assert action_state["made"] == 2
    assert (await in_set(submit, "again"))[second].after == ()


async def test_an_action_without_matching_jobs_is_complete_at_once(submit: Watched) -> None:
    await had(submit, [RUN])
    chosen = {"queue": submit.queue, "jobSet": "nothing"}
    answer = await submit.post("/jobs/resubmit", {"filter": chosen, "jobSet": "again"})
    assert answer.json()["total"] == 0
    assert (await done(submit, answer))["made"] == 0


async def test_a_step_looks_up_its_own_jobs_and_no_others(submit: Watched) -> None:
    known = await had(submit, [RUN] * 1_000)
    insert = (
        "INSERT INTO fairlead_submit.action_items (action, number, job_id) VALUES ('a', $1, $2)"
    )
    await submit.pool.executemany(insert, list(enumerate(known, 1)))
    # Knowing how many there are, Postgres would rather read them all for so large a step.
    await submit.pool.execute("ANALYZE")
    explained = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {SQL['read_items']}"
    ((plan,),) = await submit.pool.fetch(explained, "a", 40, 400)
    read = list(_read(json.loads(plan)[0]["Plan"]))
    assert {name for name, _ in read} >= {"action_items", "jobs", "submissions"}
    assert all(rows <= 400 for _, rows in read), read


async def test_a_step_reads_each_chunk_of_submissions_once(submit: Watched) -> None:
    known = await had(submit, [{**RUN, "clientId": f"{n}"} for n in range(600)])
    insert = (
        "INSERT INTO fairlead_submit.action_items (action, number, job_id) VALUES ('a', $1, $2)"
    )
    # Every second job first: the jobs of a chunk are no neighbours.
    order = [*known[::2], *known[1::2], "0" * ids.JOB_ID_LENGTH]
    await submit.pool.executemany(insert, list(enumerate(order, 1)))
    rows = await submit.pool.fetch(SQL["read_items"], "a", 0, 1_000)
    chunks = {row["chunk"] for row in rows} - {None}
    assert sum(row["lines"] is not None for row in rows) == len(chunks) < 100
    items = await resubmission_store.read_items(submit.pool, "a", 0, 1_000)
    assert [item.job_id for item in items] == order
    assert items[-1].submitted is None
    for item in items[:-1]:
        assert item.submitted is not None
        assert decoder.decode(item.submitted).job_id == item.job_id


async def test_an_action_waits_for_views_of_its_version(
    submit: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    known = await had(submit, [RUN])
    rename = "ALTER VIEW fairlead_lookout.found_jobs RENAME COLUMN"
    await submit.pool.execute(f"{rename} chunk TO submitted")
    answer = await submit.post("/jobs/resubmit", {"ids": known, "jobSet": "again"})
    await until(lambda: "resubmission is waiting" in caplog.text)
    await submit.pool.execute(f"{rename} submitted TO chunk")
    assert (await done(submit, answer))["made"] == 1


def _read(plan: Any) -> Iterator[tuple[str, int]]:
    """The tables that a plan reads, without their weeks, and how many of their rows. `Any`: JSON of
    Postgres."""
    if "Relation Name" in plan:
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield re.sub(r"_\d+$", "", plan["Relation Name"]), rows * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from _read(part)


async def test_an_interrupted_action_is_finished_by_another_process(
    fresh_database: str, valkey_url: str
) -> None:
    async with watched(fresh_database, valkey_url) as submit:
        known = await had(submit, [{**RUN, "clientId": f"{n}"} for n in range(2_500)])
        chosen = {"queue": submit.queue, "jobSet": "set"}
        answer = await submit.post("/jobs/resubmit", {"filter": chosen, "jobSet": "again"})
        begun = "SELECT done > 0 FROM fairlead_submit.actions"
        await until_read(lambda: submit.pool.fetchval(begun), poll_s=0.001)
        half = await submit.pool.fetchrow("SELECT done, total FROM fairlead_submit.actions")
        queue = submit.queue
    # As if it had died after an append that it could not note down any more.
    async with served(fresh_database) as other:
        await other.pool.execute(
            "UPDATE fairlead_submit.actions SET done = greatest(0, done - 1000), ended = false"
            " WHERE done < total"
        )
        other.queue = queue
        ended = "SELECT ended FROM fairlead_submit.actions"
        await until_read(lambda: other.pool.fetchval(ended))
        taken = [e for e in await other.events() if isinstance(e, events.JobSubmitted)]
        made = {
            e.annotations[events.RESUBMITTED_FROM]: e.job_id
            for e in taken
            if events.RESUBMITTED_FROM in e.annotations
        }
        assert made.keys() == set(known)
        assert len({e.job_id for e in taken}) == 5_000
        assert half["total"] == 2_500
        assert answer.json()["total"] == 2_500


async def test_recent_submissions_are_resubmitted_too(submit: Watched) -> None:
    answer = await submit.submit([RUN] * 3_000, "set")
    chosen = {"queue": submit.queue, "jobSet": "set"}
    tried = await submit.post("/jobs/cancel?dryRun=true", {"filter": chosen})
    assert tried.json()["matched"] == 3_000
    more = await submit.submit([RUN], "set")
    again = await submit.post("/jobs/resubmit", {"filter": chosen, "jobSet": "all"})
    assert (await done(submit, again))["made"] == 3_001
    last = await submit.submit([RUN], "set")
    named = [each.json()["jobs"][0]["id"] for each in (answer, more, last)]
    again = await submit.post("/jobs/resubmit", {"ids": named, "jobSet": "some"})
    assert (await done(submit, again))["made"] == 3


async def test_hidden_jobs_cannot_be_resubmitted(submit: Watched) -> None:
    known = await had(submit, [RUN])
    missing = "00" + "0" * 26
    answer = await submit.post("/jobs/resubmit", {"ids": [missing, *known], "jobSet": "again"})
    assert answer.status_code == 404
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/ids/0"]
    own = {"name": "own", "permissions": [{"subjects": ["ann"], "verbs": ["view", "submit"]}]}
    assert (await submit.post("/queues", own)).status_code == 201
    token = await token_store.make_token(submit.pool, "eve", ["submitter"])
    headers = {"Authorization": f"Bearer {token}"}
    for body, status in (
        ({"filter": {"queue": "own"}, "jobSet": "again"}, 422),
        ({"ids": known, "queue": "own", "jobSet": "again"}, 422),
        ({"ids": known, "jobSet": "again"}, 202),
    ):
        answer = await submit.client.post("/api/v1/jobs/resubmit", json=body, headers=headers)
        assert answer.status_code == status, answer.text
    assert (await submit.client.get("/api/v1/actions/none")).status_code == 404
