"""The lists that pages show, as CSV and NDJSON: their rows, their order, and who gets them."""

import asyncio
import csv
import io
from collections.abc import Iterator
from typing import Final

import msgspec
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from fairlead_common.domain.ids import JobId, array_id
from fairlead_common.domain.records import configuration, events
from fairlead_lookout.domain import saved_views
from fairlead_lookout.http.list_exports import ROWS, split_rows
from fairlead_lookout.http.responses.fairness_responses import UsageResponse
from tests.e2e.pages.reported_state import NODES, fill
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_groups import announced, group_id
from tests.integration.lookout.test_permissions import SHUT, prepare_tokens
from tests.integration.lookout.test_preemptions import preempted
from tests.integration.lookout.test_reports import share
from tests.unit.lookout.builders import job_id, submitted
from tests.waiting import until_read

SCAN: Final = array_id(job_id("scan"))
TASKS: Final = ROWS + 3
FORMULA: Final = "=1+2"


async def _get(harness: LookoutHarness, path: str, **query: str) -> str:
    answer = await harness.client.get(f"/export{path}", params=query)
    assert answer.status_code == 200, (path, answer.text)
    assert answer.headers["content-type"].startswith("text/csv")
    return answer.text


async def _rows(harness: LookoutHarness, path: str, **query: str) -> list[dict[str, str]]:
    """The lines of a CSV, which has the same rows as the NDJSON of the same list."""
    rows = list(csv.DictReader(io.StringIO(await _get(harness, path, **query))))
    headers = {"Accept": "application/x-ndjson"}
    answer = await harness.client.get(f"/export{path}", params=query, headers=headers)
    lines = [msgspec.json.decode(line) for line in answer.text.splitlines()]
    assert len(lines) == len(rows)
    for row, line in zip(rows, lines, strict=True):
        assert {name for name, value in row.items() if value} >= {
            name for name, value in line.items() if value not in ("", None)
        }
    return rows


def _column(rows: list[dict[str, str]], name: str) -> list[str]:
    return [row[name] for row in rows]


async def test_pages_of_the_scheduler_are_exported_in_their_order(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await fill(harness)
        queues = await _rows(harness, "/queues")
        assert [(row["queue"], row["share"], row["weight"]) for row in queues] == [
            ("research", "0.7", "3.0"),
            ("q", "0.2", ""),
        ]
        assert queues[1]["reason"] == "queue-limit"
        assert _column(await _rows(harness, "/queues", sort="queue"), "queue") == ["q", "research"]
        (cluster,) = await _rows(harness, "/clusters")
        assert (cluster["executor"], cluster["nodes"]) == ("e", str(NODES))
        assert msgspec.json.decode(cluster["pools"]) == {"default": 108, "gpu": 12}
        nodes = await _rows(harness, "/clusters/e", sort="-use")
        assert (len(nodes), nodes[0]["node"], nodes[0]["runs"]) == (NODES, "n0", "1")
        assert msgspec.json.decode(nodes[0]["jobs"]) == [job_id("a")]
        assert [row["unschedulable"] for row in nodes if row["node"] == "n5"] == ["true"]
        found = await _rows(harness, "/clusters/e", q="n11", sort="-node")
        assert _column(found, "node") == [f"n{number}" for number in (*range(119, 109, -1), 11)]
        pools = await _rows(harness, "/pools", sort="-waiting")
        assert [(row["pool"], row["waiting"]) for row in pools] == [("default", "7"), ("gpu", "")]
        rounds = await _rows(harness, "/pools/default", table="rounds")
        assert _column(rounds, "scheduled") == [str(number) for number in range(7, -1, -1)]
        shares = await _rows(harness, "/pools/default", sort="queue")
        assert _column(shares, "queue") == ["q", "research"]
        fairness = await _rows(harness, "/fairness", period="1h", sort="difference")
        assert [(row["queue"], row["difference"]) for row in fairness] == [
            ("q", "-0.3"),
            ("research", "0.2"),
        ]
        assert _column(await _rows(harness, "/fairness", q="rese"), "queue") == ["research"]
        points = await _rows(harness, "/queues/q")
        assert {(row["pool"], row["fairShare"]) for row in points} == {("default", "0.5")}


async def test_groups_arrays_and_their_jobs_are_exported(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        template = submitted("scan", job_id=JobId(SCAN))
        array = events.ArraySubmitted(
            array=SCAN, template=template, count=TASKS, indexes=f"0-{TASKS - 1}"
        )
        after = await harness.append_events(*announced("g"), array)
        await harness.read(f"/arrays/{SCAN}", after)
        (group,) = await _rows(harness, "/jobsets/q/s")
        assert group["clientId"] == "g"
        assert [role["name"] for role in msgspec.json.decode(group["roles"])] == ["ps", "worker"]
        (found,) = await _rows(harness, "/jobsets/q/s", table="arrays")
        assert (found["id"], found["tasks"]) == (SCAN, str(TASKS))
        members = await _rows(harness, f"/groups/{group_id('g')}")
        assert [(row["role"], row["index"]) for row in members] == [
            ("ps", "0"),
            ("worker", "0"),
            ("worker", "1"),
        ]
        (event,) = await _rows(harness, f"/groups/{group_id('g')}", table="events")
        assert event["type"] == "groupSubmitted"
        tasks = await _rows(harness, f"/arrays/{SCAN}")
        assert _column(tasks, "index") == [str(number) for number in range(TASKS)]
        assert await _rows(harness, f"/arrays/{SCAN}", state="FAILED") == []


async def test_groups_of_jobs_are_exported_with_a_column_for_each_dimension(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(
            submitted("a", labels={"team": FORMULA}),
            submitted("b", labels={"team": FORMULA}),
            submitted("c"),
        )
        await harness.read("/jobs", after)
        rows = await _rows(harness, "/jobs", groupBy="label.team,state")
        assert rows == [
            {"label.team": f"'{FORMULA}", "state": "QUEUED", "jobs": "2"},
            {"label.team": "", "state": "QUEUED", "jobs": "1"},
        ]
        assert await _rows(harness, "/jobs", groupBy="queue", state="FAILED") == []


async def test_nothing_of_a_hidden_queue_is_exported(fresh_database: str, valkey_url: str) -> None:
    tokens = await prepare_tokens(fresh_database)
    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        await harness.append([configuration.record(SHUT), share("q", 0.5), share("open", 0.25)])
        array = events.ArraySubmitted(
            array=SCAN, template=submitted("scan", job_id=JobId(SCAN)), count=2, indexes="0-1"
        )
        await harness.append_events(*preempted("a", None), *announced("g"), array)
        after = await harness.append_events(submitted("b", "t"), queue="open", job_set="t")
        headers = {who: {"Authorization": f"Bearer {token}"} for who, token in tokens.items()}
        query = {"after": after, "wait": "30s"}
        await harness.client.get("/api/v1/jobs", params=query, headers=headers["bob"])

        async def export(who: str, path: str) -> tuple[int, str]:
            answer = await harness.client.get(f"/export{path}", headers=headers[who])
            return answer.status_code, answer.text

        async def has_both() -> bool:
            return (await export("bob", "/fairness"))[1].count("\n") == 3

        await until_read(has_both)
        for path in (
            *("/queues", "/pools/default", "/fairness", "/preemptions"),
            "/jobs?groupBy=queue",
        ):
            assert "q," in (await export("bob", path))[1], path
            assert "q," not in (await export("anna", path))[1], path
        for path in (
            "/queues/q",
            "/jobsets/q/s",
            "/jobsets/q/s?table=arrays",
            f"/groups/{group_id('g')}",
            f"/arrays/{SCAN}",
        ):
            assert (await export("bob", path))[0] == 200, path
            assert (await export("anna", path))[0] == 404, path
        for path in ("/webhooks", "/webhooks/none"):
            assert (await export("bob", path))[0] in (403, 404), path
        assert (await harness.client.get("/export/queues")).status_code == 401


async def test_webhooks_and_deliveries_are_exported(fresh_database: str, valkey_url: str) -> None:
    async with running(
        fresh_database, valkey_url, webhook_delivery=False, secrets_key="a key of tests"
    ) as harness:
        made = await harness.client.post(
            "/api/v1/webhooks",
            json={"name": "hook", "url": "https://hooks.example.org/x", "enabled": False},
        )
        assert made.status_code == 201, made.text
        (webhook,) = await _rows(harness, "/webhooks")
        assert (webhook["name"], "secret" in webhook and webhook["secret"]) == ("hook", "")
        store = harness.service.deps.webhooks.deliveries
        await asyncio.gather(
            *(
                store.add_test(1, f"m{number}", b"{}", "application/json", number)
                for number in range(ROWS + 2)
            )
        )
        found = [int(number) for number in _column(await _rows(harness, "/webhooks/hook"), "id")]
        assert found == sorted(set(found), reverse=True)
        assert len(found) == ROWS + 2
        assert await _rows(harness, "/webhooks/hook", state="FAILED") == []


async def test_a_wrong_table_order_or_page_is_an_error(
    fresh_database: str, valkey_url: str
) -> None:
    async with running(fresh_database, valkey_url) as harness:
        await fill(harness)
        for path, status in (
            ("/pools/default?table=colours", 422),
            ("/queues?sort=colour", 422),
            ("/queues?format=xml", 422),
            ("/pools/nowhere", 404),
            ("/clusters/nowhere", 404),
            ("/jobs", 422),
            ("/jobs?groupBy=colour", 422),
            ("/tokens", 404),
        ):
            assert (await harness.client.get(f"/export{path}")).status_code == status, path
        page = await harness.client.get("/queues?sort=colour")
        assert page.status_code == 422
        assert "is not a sort order" in page.text


async def test_a_list_that_is_read_at_once_is_sent_in_pages() -> None:
    rows = [
        UsageResponse(time=str(number), pool="p", used={}, lost={}) for number in range(ROWS + 1)
    ]

    async def read() -> list[UsageResponse]:
        return rows

    read_page = split_rows(read)
    first, following = await read_page(None)
    assert following is not None
    last, end = await read_page(following)
    assert ([*first, *last], len(last), end) == (rows, 1, None)


def _list_parameters(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for other in dependant.dependencies:
        yield from _list_parameters(other)


async def test_saved_views_have_the_parameters_of_their_pages(
    database: str, valkey_url: str
) -> None:
    async with running(database, valkey_url) as harness:
        routes = [route for router in harness.service.routers() for route in router.routes]
        for page in saved_views.PAGES:
            (route,) = [
                route
                for route in routes
                if isinstance(route, APIRoute)
                and route.path_regex.match(page.path.replace("*", "x"))
            ]
            parameters = set(_list_parameters(route.dependant))
            assert parameters - {"cursor", "offset"} == page.parameters, page.path
            if page.within is None:
                continue
            answer = await harness.client.get(f"{page.path}/filter?{page.within}=24h")
            assert answer.status_code == 303
            assert answer.headers["location"].startswith(f"{page.path}?{page.after}=20")
            wrong = await harness.client.get(f"{page.path}/filter?{page.within}=soon")
            assert wrong.status_code == 422
