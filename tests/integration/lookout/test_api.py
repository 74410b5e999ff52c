"""What the API answers: lists, one job, why it waits, waiting for positions, and mistakes."""

import asyncio

import httpx2
import msgspec
import pytest

from fairlead_common.db import open_pool
from fairlead_common.domain import ids
from fairlead_common.domain.position_tokens import encode
from fairlead_common.domain.records import clusters, events, scheduling_reports
from fairlead_common.domain.records.events import Gang
from fairlead_common.domain.scheduling import shapes
from fairlead_submit.store import schema, token_store
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import (
    SHAPE,
    cancel,
    failed_run,
    job_id,
    leased,
    submitted,
    succeeded,
)
from tests.unit.lookout.builders import running as started
from tests.waiting import until_read

SETS = 40


async def test_pages_of_jobs_show_each_job_once(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        for job_set in ("s", "t"):
            jobs = [submitted(f"j{number}", job_set) for number in range(25)]
            after = await harness.append_events(*jobs, job_set=job_set)
            await harness.read(f"/jobsets/q/{job_set}", after)
        await harness.read(
            "/jobsets/q/s", await harness.append_events(*[cancel(f"j{n}") for n in range(5)])
        )
        for query, many in (
            ({}, 50),
            ({"queue": "q", "state": "QUEUED"}, 45),
            ({"queue": "q", "jobSet": "s", "state": "cancelled,running"}, 5),
            ({"class": "default", "jobSet": "t"}, 25),
            ({"queue": "nobody's"}, 0),
        ):
            seen: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = await harness.read("/jobs", limit=7, include="count", **query, **cursor)
                seen += [job["id"] for job in page["jobs"]]
                assert page["count"] == str(many)
                if "next" not in page:
                    break
                cursor = {"cursor": page["next"]}
            assert len(seen) == len(set(seen)) == many


async def test_failed_jobs_are_found_among_many_job_sets(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        for number in range(SETS + 5):
            name, job_set = f"j{number}", f"s{number}"
            rejected = events.JobRejected(
                job_id=job_id(name, job_set), code="infeasible", reason="too large"
            )
            history: list[events.AnyEvent] = [
                submitted(name, job_set),
                submitted("well", job_set),
                rejected,
            ]
            after = await harness.append_events(*history, job_set=job_set)
            await harness.read("/jobsets", after, limit=1)
        for state, many in (("REJECTED", SETS + 5), ("FAILED", 0), ("QUEUED", SETS + 5)):
            found = await harness.read("/jobs", state=state, limit=1_000)
            assert len(found["jobs"]) == many
            assert {job["state"] for job in found["jobs"]} <= {state}


async def test_groups_are_counted(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(
            submitted("a"), submitted("b"), submitted("c"), cancel("c")
        )
        found = await harness.read("/jobs", after, groupBy="state,queue")
        assert found["groups"] == [
            {"group": {"state": "QUEUED", "queue": "q"}, "jobs": 2},
            {"group": {"state": "CANCELLED", "queue": "q"}, "jobs": 1},
        ]


async def test_job_sets_are_listed_newest_first_and_by_activity(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a")))
        after = await harness.append_events(submitted("a", "t"), job_set="t")
        found = await harness.read("/jobsets", after)
        assert [each["jobSet"] for each in found["jobSets"]] == ["t", "s"]
        after = await harness.append_events(cancel("a"))
        found = await harness.read("/jobsets", after, active=True)
        assert [each["jobSet"] for each in found["jobSets"]] == ["t"]
        assert found.get("count") is None
        for query, count in (({}, "2"), ({"active": True}, "1"), ({"q": "nowhere"}, "0")):
            counted = await harness.read("/jobsets", limit=1, include="count", **query)
            assert counted["count"] == count, query
        first = await harness.read("/jobsets", limit=1)
        rest = await harness.read("/jobsets", limit=1, cursor=first["next"])
        assert [each["jobSet"] for each in rest["jobSets"]] == ["s"]


async def test_a_job_set_with_a_slash_in_its_name(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(submitted("a", "x/y"), job_set="x/y")
        assert (await harness.read("/jobsets/q/x%2Fy", after))["jobSet"] == "x/y"
        assert len(await harness.lines("/jobsets/q/x%2Fy/events")) == 1


async def test_a_job_is_found_by_queue_job_set_and_client_id(
    fresh_database: str, valkey_url: str
) -> None:
    key = "q/x/y/one"
    named, _ = ids.job_ids_of(key)
    async with running(fresh_database, valkey_url) as harness:
        submission = msgspec.structs.replace(submitted("a"), job_id=named, client_id="one")
        after = await harness.append_events(submission, job_set="x/y")
        for path in (f"/jobs/{key}", "/jobs/q%2Fx%2Fy%2Fone", f"/jobs/{named}"):
            assert (await harness.read(path, after))["id"] == named
        page = await harness.client.get(f"/jobs/{key}")
        assert (page.status_code, page.headers["location"]) == (303, f"/jobs/{named}")
        assert (await harness.client.get("/jobs/q//one")).status_code == 404


async def test_a_job_whose_client_id_has_a_slash_is_found_by_it(
    fresh_database: str, valkey_url: str
) -> None:
    """As members of groups have: `q/x/fit/worker-0` can be of the job sets `x/fit` and `x`."""
    _, member = ids.job_ids_of("q/x/fit/worker-0")
    async with running(fresh_database, valkey_url) as harness:
        submission = msgspec.structs.replace(
            submitted("a"), job_id=member, client_id="fit/worker-0"
        )
        after = await harness.append_events(submission, job_set="x")
        assert (await harness.read("/jobs/q/x/fit/worker-0", after))["id"] == member
        log = await harness.get("/jobs/q/x/fit/worker-0/logs")
        assert "has not run yet" in log.text
        page = await harness.client.get("/jobs/q/x/fit/worker-0")
        assert page.headers["location"] == f"/jobs/{member}"
        missing = await harness.get("/jobs/q/x/fit/worker-1")
        assert missing.json()["detail"] == "Job 'q/x/fit/worker-1' does not exist."


async def test_a_job_cancelled_for_another_names_it_by_its_client_id(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        other = job_id("first")
        reason = f"job {other}, which it waits for, ended FAILED"
        after = await harness.append_events(
            submitted("first", client_id="first"),
            submitted("then", client_id="then", after=(other,)),
            events.JobCancelled(job_id=job_id("then"), reason=reason),
        )
        said = "job first, which it waits for, ended FAILED"
        assert (await harness.read(f"/jobs/{job_id('then')}", after))["reason"] == said
        listed = await harness.read("/jobs", state="CANCELLED")
        assert [job["reason"] for job in listed["jobs"]] == [said]


async def test_a_job_detail_has_all_fields(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(
            submitted("a", labels={"team": "x"}, gang=Gang("g", 2), runtime_s_max=60),
            leased("a", node="n7"),
            started("a"),
            failed_run("a"),
        )
        found = await harness.read(f"/jobs/{job_id('a')}", after, spec=True)
        (run,) = found["runs"]
        assert (run["node"], run["exitCode"], run["category"]) == ("n7", 3, "exit-code")
        assert run["message"].startswith("The command ended")
        assert found["labels"] == {"team": "x"}
        assert found["gang"]["name"] == "g"
        assert found["maxRuntimeSeconds"] == 60
        assert found["spec"] == {"containers": []}
        assert "spec" not in await harness.read(f"/jobs/{job_id('a')}")


async def test_a_job_detail_has_the_reason_why_it_waits(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        why = scheduling_reports.WaitingReport(
            pool="default",
            queue="q",
            code="insufficient-resources",
            sentence="All 2 CPUs of pool default are in use; the job needs 1 CPU on one node.",
            shape=shapes.key(bytes(SHAPE), "default"),
            jobs=3,
        )
        member = scheduling_reports.WaitingReport(
            pool="default",
            queue="q",
            code="gang-incomplete",
            sentence="1 of 2 members are there",
            job_set="s",
            gang="g",
        )
        node = clusters.Node(executor="e", name="n0", allocatable={"cpu": 4000})
        reports = [scheduling_reports.record(each) for each in (why, member)]
        await harness.append([clusters.node_record(node), *reports])
        after = await harness.append_events(
            submitted("plain"),
            submitted("held", hold=True),
            submitted("later", start_after_ms=4_000_000_000_000),
            submitted("merge", after=(job_id("plain"), job_id("held"))),
            submitted("member", gang=Gang("g", 2)),
            submitted("other", priority_class="urgent"),
        )
        await harness.read("/jobsets/q/s", after)
        await until_read(
            lambda: harness.read(f"/jobs/{job_id('other')}"),
            lambda job: job["why"]["code"] == "scheduling",  # the pool's node was read
        )
        codes = {}
        for name in ("held", "later", "merge", "other"):
            codes[name] = (await harness.read(f"/jobs/{job_id(name)}"))["why"]["code"]
        assert codes == {
            "held": "hold",
            "later": "startAfter",
            "merge": "dependencies",
            "other": "scheduling",
        }
        async with asyncio.timeout(120):
            found = await _explained(harness, "plain")
            assert found == ("insufficient-resources", why.sentence)
            assert await _explained(harness, "member") == ("gang-incomplete", member.sentence)
        report = await harness.read("/queues/q/report")
        assert report["reasons"] == {"insufficient-resources": 3, "gang-incomplete": 0}
        await harness.read(
            "/jobsets/q/s", await harness.append_events(leased("plain"), *succeeded("plain"))
        )
        assert "why" not in await harness.read(f"/jobs/{job_id('plain')}")
        merge = (await harness.read(f"/jobs/{job_id('merge')}"))["why"]
        assert merge["dependencies"] == {job_id("held"): "QUEUED"}
        assert merge["clientIds"] == {job_id("held"): "held"}
        assert "to succeed: held." in merge["sentence"]
        listed = await harness.read("/jobs", state="QUEUED")
        assert {job["clientId"]: job["waitingFor"] for job in listed["jobs"]} == {
            "held": "hold",
            "later": "startAfter",
            "merge": "dependencies",
            "member": "scheduling",
            "other": "scheduling",
        }


async def _explained(harness: LookoutHarness, name: str) -> tuple[str, str]:
    """The code and sentence of a job once the reports have been read."""
    while True:
        why = (await harness.read(f"/jobs/{job_id(name)}"))["why"]
        if why["code"] != "scheduling":
            return why["code"], why["sentence"]
        await asyncio.sleep(0.02)


async def test_a_long_poll_answers_when_the_job_set_changed(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        path = "/api/v1/jobsets/q/s"
        await harness.read("/jobsets/q/s", await harness.append_events(submitted("a")))
        first = await harness.client.get(path)
        seen = {"If-None-Match": f'"other", W/{first.headers["etag"]}'}
        same = await harness.client.get(path, params={"wait": "50ms"}, headers=seen)
        assert same.status_code == 304
        waiting = asyncio.create_task(
            harness.client.get(path, params={"wait": "30s"}, headers=seen)
        )
        await harness.append_events(leased("a"))
        changed = await waiting
        assert changed.json()["states"] == {"LEASED": 1}
        finishing = asyncio.create_task(
            harness.client.get(path, params={"wait": "30s", "until": "finished"})
        )
        await harness.append_events(started("a"))
        await harness.append_events(*succeeded("a"))
        assert (await finishing).json()["live"] == 0


async def test_a_long_poll_can_start_before_its_job_set_exists(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        early = [
            asyncio.create_task(harness.get(path, wait="30s"))
            for path in ("/jobsets/q/s", f"/jobs/{job_id('a')}", "/jobsets/q/never")
        ]
        await harness.append_events(submitted("a"))
        job_set, job, never = await asyncio.gather(*early)
        assert job_set.json()["jobs"] == 1
        assert job.json()["state"] == "QUEUED"
        assert never.status_code == 404


async def test_long_polls_are_limited_and_do_not_block_reads(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url, waits_max=1) as harness:
        await harness.read("/jobsets/q/s", await harness.append_events(submitted("a")))
        path = f"/jobs/{job_id('a')}"
        tag = (await harness.get(path)).headers["etag"]

        def polls() -> asyncio.Task[httpx2.Response]:
            asked = harness.client.get(
                f"/api/v1{path}", params={"wait": "30s"}, headers={"If-None-Match": tag}
            )
            return asyncio.create_task(asked)

        waiting = polls()
        while (await harness.get("/jobsets/q/never", wait="1ms")).status_code != 503:
            waiting = polls() if waiting.done() else waiting  # the other had the only place
        assert (await harness.get(path)).status_code == 200
        assert (await harness.get("/jobsets/q/s", wait="1s")).status_code == 200
        await harness.append_events(leased("a"))
        assert (await waiting).json()["state"] == "LEASED"


async def test_a_wait_for_a_position_that_is_not_reached_is_a_503(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        answer = await harness.get("/jobs", after=encode({3: 1_000}), wait="100ms")
        assert answer.status_code == 503
        assert "1000 messages behind" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "query", "status", "pointer"),
    [
        ("/jobs", {"state": "BOGUS"}, 422, "/query/state"),
        ("/jobs", {"groupBy": "colour"}, 422, "/query/groupBy"),
        ("/jobs", {"limit": "0"}, 422, "/query/limit"),
        ("/jobs", {"limit": "1001"}, 422, "/query/limit"),
        ("/jobs", {"cursor": "%%%"}, 400, "/query/cursor"),
        ("/jobs", {"cursor": "W10"}, 400, "/query/cursor"),
        ("/jobs", {"after": "nonsense"}, 400, "/query/after"),
        ("/jobs", {"wait": "soon", "after": encode({})}, 422, "/query/wait"),
        ("/jobs", {"queue": "q" * 301}, 422, "/query/queue"),
        ("/jobsets", {"active": "perhaps"}, 422, "/query/active"),
        ("/jobsets/q/nothing", {}, 404, None),
        ("/jobsets/q/nothing/events", {}, 404, None),
        ("/jobs/0000", {}, 404, None),
        ("/jobs/0000/logs", {}, 404, None),
        ("/jobs/" + "x" * 513, {}, 422, "/path/job"),
        ("/jobs/0000/logs", {"stream": "stdin"}, 422, "/query/stream"),
        ("/jobs/0000/logs", {"sinceTime": "10"}, 422, "/query/sinceTime"),
    ],
)
async def test_invalid_parameters_get_a_problem_with_pointers(
    database: str,
    valkey_url: str,
    path: str,
    query: dict[str, str],
    status: int,
    pointer: str | None,
) -> None:
    async with running(database, valkey_url) as harness:
        answer = await harness.client.get(f"/api/v1{path}", params=query)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        found = [error["pointer"] for error in answer.json().get("errors", [])]
        assert found == ([] if pointer is None else [pointer])


async def test_a_cursor_of_another_list_is_refused(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(submitted("a"), submitted("b"))
        page = await harness.read("/jobs", after, limit=1)
        answer = await harness.get("/jobs", cursor=page["next"], state="QUEUED")
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == "/query/cursor"


async def test_names_that_postgres_cannot_store_find_nothing(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobs", await harness.append_events(submitted("a")))
        for path in ("/jobs/a%00b", "/jobsets/q/a%00b"):
            answer = await harness.client.get(f"/api/v1{path}")
            assert answer.status_code == 404, path
        names = ("queue", "jobSet", "class", "cluster", "node", "category", "q", "label.a")
        paths = [*(f"/jobs?{name}=a%00" for name in names), "/jobs?label.%00=a", "/jobsets?q=%00"]
        for path in [*paths, "/jobs/export.csv?q=%00", "/jobs?groupBy=node&q=%00"]:
            answer = await harness.client.get(f"/api/v1{path}")
            assert answer.status_code == 422, path
            (error,) = answer.json()["errors"]
            assert "NUL" in error["detail"]


async def test_a_cluster_without_heartbeat_has_nodes_but_no_logs(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        node = clusters.Node(executor="e", name="n0", allocatable={"cpu": 4000})
        await harness.append([clusters.node_record(node)])
        after = await harness.append_events(submitted("a"), leased("a"), submitted("b"))
        await harness.read("/jobsets/q/s", after)
        async with asyncio.timeout(120):
            while not (found := (await harness.read("/clusters"))["clusters"]):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert found[0]["allocatable"] == {"cpu": 4.0}
        answer = await harness.get(f"/jobs/{job_id('a')}/logs")
        assert answer.status_code == 404
        assert "does not serve logs" in answer.json()["detail"]
        answer = await harness.get(f"/jobs/{job_id('b')}/logs")
        assert "has not run yet" in answer.json()["detail"]
        after = await harness.append_events(events.JobCancelled(job_id=job_id("b"), reason="x"))
        await harness.read("/jobsets/q/s", after)
        answer = await harness.get(f"/jobs/{job_id('b')}/logs")
        assert "never ran" in answer.json()["detail"]
        page = await harness.client.get(f"/jobs/{job_id('b')}")
        assert "This job never ran." in page.text


async def test_the_page_of_a_job_leads_to_the_node_while_it_runs(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(
            submitted("a"), leased("a", node="rack/1 a"), started("a")
        )
        await harness.read("/jobsets/q/s", after)
        link = '<a href="/clusters/e/nodes/rack%2F1%20a">rack/1 a</a>'
        page = await harness.client.get(f"/jobs/{job_id('a')}")
        assert link in page.text
        assert "Began <time" in page.text
        after = await harness.append_events(failed_run("a"))
        await harness.read("/jobsets/q/s", after)
        page = await harness.client.get(f"/jobs/{job_id('a')}")
        assert link not in page.text
        assert "Began <time" not in page.text


NOT_FOR_VIEWERS = ("/api/v1/quarantine", "/api/v1/webhooks")
"""Records of the log hold what viewers of some queues must not see. A webhook requires permission
to submit."""


async def test_every_route_needs_a_token_with_view_permission(
    fresh_database: str, valkey_url: str
) -> None:
    pool = await open_pool(fresh_database)
    await schema.migrate(pool)
    tokens = {
        name: await token_store.make_token(pool, name, roles, ttl_s=ttl_s)
        for name, roles, ttl_s in (
            ("viewer", ["viewer"], None),
            ("nobody", [], None),
            ("expired", ["viewer"], -1),
        )
    }
    await pool.close()
    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        document = (await harness.client.get("/openapi.json")).json()
        paths = [
            path
            for path, calls in document["paths"].items()
            if path.startswith("/api/") and "get" in calls
        ]
        assert len(paths) >= 9
        for path in paths:
            address = path.replace("{", "").replace("}", "")
            for headers, status in (
                ({}, 401),
                ({"Authorization": "Bearer fl_wrong"}, 401),
                ({"Authorization": f"Bearer {tokens['expired']}"}, 401),
                ({"Authorization": f"Bearer {tokens['nobody']}"}, 403),
            ):
                answer = await harness.client.get(address, headers=headers)
                assert answer.status_code == status, (path, headers)
            answer = await harness.client.get(
                address, headers={"Authorization": f"Bearer {tokens['viewer']}"}
            )
            allowed = (403,) if path in NOT_FOR_VIEWERS else (200, 404, 422)
            assert answer.status_code in allowed, path
