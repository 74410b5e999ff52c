"""Lists of jobs and job sets: every filter, order, group and count, page by page and as files."""

import csv
import io
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import asyncpg
import pytest

from fairlead_common import db
from fairlead_common.domain.records import events
from fairlead_lookout.http import list_exports
from fairlead_lookout.store.queries import job_lists
from fairlead_lookout.store.queries.job_lists import JobLists
from fairlead_lookout.store.queries.list_filters import JobFilter
from fairlead_lookout.store.queries.view_reader import ViewReader
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.unit.lookout.builders import (
    cancel,
    failed_run,
    job_id,
    leased,
    submitted,
    succeeded,
)
from tests.unit.lookout.builders import running as started


async def pages(
    harness: LookoutHarness, path: str = "/jobs", limit: int = 3, **query: Any
) -> list[Any]:
    """All items of a list, read page by page."""
    name = {"/jobs": "jobs", "/jobsets": "jobSets"}[path]
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = await harness.read(path, limit=limit, **query, **cursor)
        found += page[name]
        if "next" not in page:
            return found
        cursor = {"cursor": page["next"]}


def failed(name: str, category: events.FailureCategory) -> events.AnyEvent:
    """The scheduler gave the job up."""
    return events.JobFailed(job_id=job_id(name), category=category, reason="it failed")


async def some_jobs(harness: LookoutHarness) -> None:
    """Jobs of several queues, classes, labels, nodes and ends."""
    written: list[events.AnyEvent] = [
        submitted("a", labels={"team": "x", "kind": "big"}, annotations={"who": "anna"}),
        submitted("b", labels={"team": "y"}, priority_class="high", priority=3),
        submitted("c", priority=7),
        submitted("d", labels={"team": "x"}),
        submitted("e"),
        leased("a", node="n1"),
        started("a"),
        leased("b", node="n2"),
        leased("d", node="n1"),
        started("d"),
        failed_run("d"),
        failed("d", events.FailureCategory.EXIT_CODE),
        leased("e", node="n3"),
        *succeeded("e"),
    ]
    after = await harness.append_events(*written)
    await harness.read("/jobsets/q/s", after)
    other = [submitted("z", "other-set")]
    after = await harness.append_events(*other, job_set="other-set")
    await harness.read("/jobsets", after)


FILTERS: Final[Sequence[tuple[dict[str, str], str]]] = (
    ({"cluster": "e"}, "abde"),
    ({"node": "n1"}, "ad"),
    ({"node": "n1", "state": "RUNNING"}, "a"),
    ({"label.team": "x"}, "ad"),
    ({"label.team": "x", "label.kind": "big"}, "a"),
    ({"annotation.who": "anna"}, "a"),
    ({"category": "exit-code"}, "d"),
    ({"category": "oom"}, ""),
    ({"category": "exit-code", "state": "FAILED,RUNNING"}, "d"),
    ({"category": "exit-code", "state": "RUNNING"}, ""),
    ({"class": "high"}, "b"),
    ({"class": "high,default", "state": "QUEUED"}, "cz"),
    ({"q": "other"}, "z"),
    ({"q": "c"}, "c"),
    ({"submittedAfter": "2020-01-01T00:00:00Z"}, "abcdez"),
    ({"submittedAfter": "2999-01-01T00:00:00+01:00"}, ""),
    ({"state": "SUCCEEDED,FAILED"}, "de"),
    ({"jobSet": "other-set"}, "z"),
)
"""Parameters of the list of jobs, and the client ids of the jobs that they find."""


async def test_a_filter_finds_its_jobs_and_counts_them(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await some_jobs(harness)
        for query, want in FILTERS:
            found = await pages(harness, limit=1, **query)
            assert sorted(job["clientId"] for job in found) == sorted(want), query
            page = await harness.read("/jobs", include="count", **query)
            assert page["count"] == str(len(want)), query


async def test_lists_are_sorted_by_the_requested_field(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await some_jobs(harness)
        newest = [job["clientId"] for job in await pages(harness)]
        assert newest == ["z", "e", "d", "c", "b", "a"]
        oldest = [job["clientId"] for job in await pages(harness, sort="submitted")]
        assert oldest == newest[::-1]
        by_priority = [job["priority"] for job in await pages(harness, limit=2, sort="-priority")]
        assert by_priority == [7, 3, 0, 0, 0, 0]
        for sort in ("changed", "started", "ended"):
            up = [job["id"] for job in await pages(harness, limit=2, sort=sort)]
            down = [job["id"] for job in await pages(harness, limit=2, sort=f"-{sort}")]
            assert up == down[::-1]
            assert len(set(up)) == 6


GROUPS: Final[Sequence[tuple[str, dict[str, str], dict[tuple[str | None, ...], int]]]] = (
    ("queue,state", {}, {("q", "QUEUED"): 2, ("q", "RUNNING"): 1, ("q", "LEASED"): 1,
                         ("q", "FAILED"): 1, ("q", "SUCCEEDED"): 1}),
    ("class", {}, {("default",): 5, ("high",): 1}),
    ("jobSet", {}, {("s",): 5, ("other-set",): 1}),
    ("cluster,node", {"state": "RUNNING,LEASED"}, {("e", "n1"): 1, ("e", "n2"): 1}),
    ("label.team", {}, {("x",): 2, ("y",): 1, (None,): 3}),
    ("label.team,label.kind", {"jobSet": "s"},
     {("x", "big"): 1, ("x", None): 1, ("y", None): 1, (None, None): 2}),
    ("state", {"label.team": "x"}, {("RUNNING",): 1, ("FAILED",): 1}),
)  # fmt: skip
"""`groupBy`, other parameters of the list of jobs, and the number of jobs of each group."""


async def test_groups_count_the_jobs_of_a_filter(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await some_jobs(harness)
        for by, query, want in GROUPS:
            found = await harness.read("/jobs", groupBy=by, **query)
            groups = {tuple(each["group"].values()): each["jobs"] for each in found["groups"]}
            assert groups == want, (by, query)
            assert found["total"] == str(sum(want.values()))
            most = max(want.values())
            (greatest,) = (await harness.read("/jobs", groupBy=by, limit=1, **query))["groups"]
            assert greatest["jobs"] == most


@pytest.mark.parametrize("sort", ["-submitted", "-changed"])
async def test_a_job_that_changes_state_while_a_page_is_read_is_on_the_page(
    fresh_database: str, valkey_url: str, sort: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:

        class LeasedMeanwhile(ViewReader):
            """Leases the job after the statement that finds which states have jobs."""

            async def fetch(self, name: str, *arguments: object) -> list[Any]:
                found = await super().fetch(name, *arguments)
                if name.startswith("branches_of") and arguments[4] == ["QUEUED"]:
                    after = await harness.append_events(leased("a"))
                    listed = await harness.read("/jobs", after, state="LEASED")
                    assert len(listed["jobs"]) == 1
                return found

        await harness.read("/jobs", await harness.append_events(submitted("a")))
        pool = await db.open_pool(fresh_database, size_max=1)
        lists = JobLists(LeasedMeanwhile(pool))
        page = await lists.read_page(JobFilter(states=("QUEUED",)), 10, None, sort)
        assert [(row["id"], row["state"]) for row in page.jobs.rows] == [(job_id("a"), "QUEUED")]
        groups = await lists.count_groups(JobFilter(states=("LEASED",)), ["node"], 10)
        assert groups.total == "1"
        await pool.close()


async def test_groups_count_jobs_without_listing_them(fresh_database: str, valkey_url: str) -> None:
    class Explained(ViewReader):
        """Asks for the plan of whatever groups jobs, besides what it finds."""

        plans: list[str] = []  # noqa: RUF012 - of this test

        async def fetch_text(self, text: str, *arguments: object) -> list[Any]:
            if "label_1" in text:
                explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {text}"
                self.plans += [row[0] for row in await super().fetch_text(explained, *arguments)]
            return await super().fetch_text(text, *arguments)

    async with running(fresh_database, valkey_url) as harness:
        await harness.read(
            "/jobs", await harness.append_events(*(submitted(f"j{n}") for n in range(500)))
        )
        pool = await db.open_pool(fresh_database, size_max=1)
        view = Explained(pool)
        found = await JobLists(view).count_groups(JobFilter(), ["node", "label.team"], 100)
        await pool.close()
    assert found.total == "500"
    (plan,) = view.plans
    parts = list(_parts(json.loads(plan)[0]["Plan"]))
    assert any(part["Actual Rows"] * part["Actual Loops"] >= 500 for part in parts)
    retained = [part for part in parts if part["Node Type"] in ("CTE Scan", "WindowAgg")]
    assert all(part["Actual Rows"] * part["Actual Loops"] < 500 for part in retained), retained


def _parts(plan: Any) -> Iterator[Any]:
    """The nodes of a plan. `Any`: JSON of Postgres."""
    yield plan
    for part in plan.get("Plans", ()):
        yield from _parts(part)


async def test_a_page_is_complete_up_to_its_cursor_for_any_number_of_branches(
    fresh_database: str, valkey_url: str
) -> None:
    chance = random.Random(7)
    async with running(fresh_database, valkey_url) as harness:
        written: dict[str, str] = {}
        for number in range(60):
            queue, name = f"q{chance.randrange(5)}", f"j{number}"
            job = submitted(name, labels={"odd": "1"} if number % 7 == 0 else {})
            done = [cancel(name)] if chance.random() < 0.4 else []
            written[name] = queue
            after = await harness.append_events(job, *done, queue=queue)
        await harness.read("/jobsets", after)
        newest = [job["clientId"] for job in await pages(harness, limit=1_000)]
        assert sorted(newest) == sorted(written)
        for limit in (1, 4, 50):
            assert [job["clientId"] for job in await pages(harness, limit=limit)] == newest
        odd = [job["clientId"] for job in await pages(harness, limit=2, **{"label.odd": "1"})]
        assert odd == [name for name in newest if int(name[1:]) % 7 == 0]
        one = [job["clientId"] for job in await pages(harness, queue="q3", sort="submitted")]
        assert one == [name for name in newest[::-1] if written[name] == "q3"]


@pytest.mark.parametrize(
    ("sizes", "rows"), [([5, 5, 5], 9), ([1, 1000], 100), ([10], 100), ([3, 7, 100_000], 30)]
)
def test_branches_are_visited_as_far_back_as_each_other(sizes: list[int], rows: int) -> None:
    branches = job_lists.Branches(
        "queue", ["q"] * len(sizes), ["QUEUED"] * len(sizes), sizes, sizes
    )
    shares = branches.rows_per_branch(rows)
    assert sum(map(min, shares, sizes)) <= rows + (job_lists.BRANCH_ROWS_MIN + 1) * len(sizes)
    if sum(sizes) <= rows:
        assert all(share > size for share, size in zip(shares, sizes, strict=True))


@pytest.mark.parametrize(
    ("path", "query", "pointer"),
    [
        ("/jobs", {"colour": "red"}, "/query/colour"),
        ("/jobs", {"sort": "colour"}, "/query/sort"),
        ("/jobs", {"groupBy": "colour"}, "/query/groupBy"),
        ("/jobs", {"groupBy": "label."}, "/query/groupBy"),
        ("/jobs", {"groupBy": "state", "cursor": "x"}, "/query/cursor"),
        ("/jobs", {"groupBy": "label.a,label.b,label.c,label.d"}, "/query/groupBy"),
        ("/jobs", {"label.": "x"}, "/query/label."),
        ("/jobs", {"submittedAfter": "yesterday"}, "/query/submittedAfter"),
        ("/jobs", {"submittedAfter": "2026-13-01T00:00:00Z"}, "/query/submittedAfter"),
        ("/jobs/export.csv", {"limit": "5"}, "/query/limit"),
        ("/jobs/export.csv", {"format": "xml"}, "/query/format"),
        ("/jobsets", {"label.team": "x"}, "/query/label.team"),
        ("/clusters", {"x": "1"}, "/query/x"),
    ],
)
async def test_an_error_names_the_unknown_parameter(
    database: str, valkey_url: str, path: str, query: dict[str, str], pointer: str
) -> None:
    async with running(database, valkey_url) as harness:
        answer = await harness.client.get(f"/api/v1{path}", params=query)
        assert answer.status_code == 422, answer.text
        assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
        twice = await harness.client.get(f"/api/v1{path}?limit=1&limit=2")
        assert twice.status_code == 422


async def test_all_invalid_parameters_are_listed_in_one_response(
    database: str, valkey_url: str
) -> None:
    wrong = {"state": "TIRED", "sort": "colour", "groupBy": "x", "limit": "0", "wait": "soon"}
    async with running(database, valkey_url) as harness:
        answer = await harness.client.get(
            "/api/v1/jobs", params={**wrong, "submittedAfter": "then"}
        )
        pointers = {error["pointer"] for error in answer.json()["errors"]}
        assert pointers == {f"/query/{name}" for name in (*wrong, "submittedAfter")}


async def test_too_many_jobs_are_sorted_only_by_submission(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await harness.read("/jobsets", await harness.append_events(submitted("a")))
        connection = await asyncpg.connect(fresh_database)
        await connection.execute("UPDATE fairlead_lookout.queue_counts SET jobs = 1000000")
        await connection.close()
        answer = await harness.get("/jobs", sort="-ended")
        assert answer.status_code == 422
        assert "Narrow the filter" in answer.json()["errors"][0]["detail"]
        assert len((await harness.read("/jobs", sort="submitted"))["jobs"]) == 1


async def test_lists_are_exported_as_csv_and_ndjson(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        many = [submitted(f"j{number}") for number in range(2_500)]
        for start in range(0, len(many), 500):
            after = await harness.append_events(*many[start : start + 500])
        after = await harness.append_events(submitted("=1+2", labels={"team": "x"}))
        answer = await harness.get("/jobs/export.csv", after)
        assert answer.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert len({row["id"] for row in rows}) == len(rows) == 2_501
        assert rows[0]["clientId"] == "'=1+2"
        assert rows[-1] | {"clientId": "j0", "state": "QUEUED"} == rows[-1]
        lines = await harness.lines("/jobs/export.csv", format="ndjson", **{"label.team": "x"})
        assert [line["clientId"] for line in lines] == ["=1+2"]
        sets = list(csv.DictReader(io.StringIO((await harness.get("/jobsets/export.csv")).text)))
        assert [(row["queue"], row["jobs"]) for row in sets] == [("q", "2501")]


async def test_job_sets_are_found_by_name_queue_and_activity(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        for number in range(12):
            name, queue = f"set-{number}", f"q{number % 3}"
            jobs: list[events.AnyEvent] = [submitted("a", name)]
            if number % 2:
                jobs.append(events.JobCancelRequested(job_id=job_id("a", name)))
            await harness.read(
                "/jobsets", await harness.append_events(*jobs, job_set=name, queue=queue)
            )
        for query, want in (
            ({}, range(12)),
            ({"queue": "q1"}, range(1, 12, 3)),
            ({"active": "true"}, range(0, 12, 2)),
            ({"active": "false", "queue": "q0"}, (3, 9)),
            ({"q": "set-1"}, (1, 10, 11)),
            ({"q": "nothing"}, ()),
            ({"queue": "nobody"}, ()),
        ):
            found = await pages(harness, "/jobsets", limit=2, **query)
            assert [each["jobSet"] for each in found] == [f"set-{n}" for n in sorted(want)[::-1]]


async def test_a_job_set_has_its_failures_and_its_usage(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await some_jobs(harness)
        found = await harness.read("/jobsets/q/s")
        assert found["failures"] == {"exit-code": 1}
        assert set(found["resourceHours"]) <= {"cpu"}


async def test_an_export_has_labels_and_requests(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(submitted("a", labels={"team": "x"}))
        lines = (await harness.get("/jobs/export.csv", after)).text.splitlines()
        (row,) = csv.DictReader(lines)
        assert (row["labels"], row["requests"]) == ('{"team":"x"}', '{"cpu":1.0}')
        answer = await harness.get("/jobs/export.csv", after, format="ndjson")
        assert answer.json()["requests"] == {"cpu": 1.0}


async def test_an_export_has_scheduling_fields_on_request(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        retry = events.RetryPolicy(limit=2, on=(events.FailureCategory.OOM,))
        job = submitted("a", retry=retry, runtime_s_max=60, after=(job_id("b"),))
        await harness.read("/jobs", await harness.append_events(job))
        (line,) = await harness.lines("/jobs/export.csv", format="ndjson", include="submission")
        submission = line["submission"]
        assert submission["shape"]["requests"] == {"cpu": 1000}
        assert (submission["maxRuntimeSeconds"], submission["after"]) == (60, [job_id("b")])
        assert submission["retry"] == {"limit": 2, "on": ["oom"]}
        assert (submission["whenInfeasible"], submission["onPreemption"]) == ("reject", "requeue")
        table = (await harness.get("/jobs/export.csv", include="submission")).text
        (row,) = csv.DictReader(table.splitlines())
        assert json.loads(row["submission"]) == line["submission"]
        (plain,) = await harness.lines("/jobs/export.csv", format="ndjson")
        assert "submission" not in plain


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_an_export_is_a_formula(start: str) -> None:
    assert list_exports._encode_cell({"jobSet": f"{start}1"}, "jobSet") == f"'{start}1"
    assert list_exports._encode_cell({"jobSet": f"1{start}"}, "jobSet") == f"1{start}"
    assert list_exports._encode_cell({"priority": -1}, "priority") == -1
