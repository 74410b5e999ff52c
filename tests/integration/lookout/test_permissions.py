"""Who may not view a queue finds nothing of it, whatever he asks."""

from typing import Any

import httpx2
import msgspec

from fairlead_common.db import open_pool
from fairlead_common.domain.records import clusters, configuration
from fairlead_common.domain.records.configuration import Permission
from fairlead_submit.store import schema, token_store
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_reports import share
from tests.unit.lookout.builders import job_id, leased, submitted
from tests.waiting import until_read

SHUT = configuration.Queue(name="q", permissions=(Permission(("bob",), ("view",)),))
HIDDEN = (
    "/jobsets/q/s",
    "/jobsets/q/s/events",
    "/events?queue=q",
    "/queues/q/report",
    "/fairness?queue=q",
    f"/jobs/{job_id('a')}",
    f"/jobs/{job_id('a')}/logs",
)


async def prepare_tokens(database: str) -> dict[str, str]:
    """A viewer each; the queue q is for bob alone."""
    pool = await open_pool(database)
    await schema.migrate(pool)
    await pool.execute(
        "INSERT INTO fairlead_submit.queues (name, version, value) VALUES ('q', 1, $1)",
        configuration.record(SHUT).value,
    )
    made = {name: await token_store.make_token(pool, name, ["viewer"]) for name in ("anna", "bob")}
    await pool.close()
    return made


async def _get(harness: LookoutHarness, token: str, path: str) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return await harness.client.get(f"/api/v1{path}", headers=headers)


async def _read(harness: LookoutHarness, token: str, path: str) -> Any:
    answer = await _get(harness, token, path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_queue_without_view_permission_is_hidden(
    fresh_database: str, valkey_url: str
) -> None:
    tokens = await prepare_tokens(fresh_database)
    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        await harness.append_events(submitted("a"), leased("a"))
        after = await harness.append_events(submitted("b", "t"), queue="open", job_set="t")
        anna, bob = tokens["anna"], tokens["bob"]
        await _read(harness, bob, f"/jobs?after={after}&wait=30s")
        for token, want in ((anna, {"b"}), (bob, {"a", "b"})):
            jobs = (await _read(harness, token, "/jobs"))["jobs"]
            assert {job["clientId"] for job in jobs} == want
            groups = (await _read(harness, token, "/jobs?groupBy=queue"))["groups"]
            assert sum(group["jobs"] for group in groups) == len(want)
            by_node = (await _read(harness, token, "/jobs?groupBy=node"))["groups"]
            assert sum(group["jobs"] for group in by_node) == len(want)
            count = (await _read(harness, token, "/jobs?include=count"))["count"]
            assert count == str(len(want))
            sets = (await _read(harness, token, "/jobsets"))["jobSets"]
            assert len(sets) == len(want)
            text = (await _get(harness, token, "/jobs/export.csv?format=ndjson")).text
            found = [msgspec.json.decode(line) for line in text.splitlines()]
            assert {job["clientId"] for job in found} == want
        for path in HIDDEN:
            assert (await _get(harness, anna, path)).status_code == 404, path
        assert (await _read(harness, anna, "/jobs?queue=q"))["jobs"] == []
        assert (await _read(harness, bob, "/jobsets/q/s"))["jobs"] == 1
        pages = {path: await _get_page(harness, anna, path) for path in ("/", "/jobsets/q/s")}
        assert "/jobsets/open/t" in pages["/"].text
        assert "/jobsets/q/s" not in pages["/"].text
        assert pages["/jobsets/q/s"].status_code == 404


async def _get_page(harness: LookoutHarness, token: str, path: str) -> httpx2.Response:
    return await harness.client.get(path, headers={"Authorization": f"Bearer {token}"})


async def test_the_picture_of_a_pool_adds_up_hidden_queues(
    fresh_database: str, valkey_url: str
) -> None:
    tokens = await prepare_tokens(fresh_database)

    async def read_legend(token: str) -> str:
        text = (await _get_page(harness, token, "/pools/default")).text
        return text.partition("Use of the pool over time")[2].partition("</figure>")[0]

    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        await harness.append([share("q", 0.25), share("open", 0.5)])
        own = ("q 25.0 %</span>", "open 50.0 %</span>")
        await until_read(
            lambda: read_legend(tokens["bob"]), lambda text: all(each in text for each in own)
        )
        totals = ("other queues 25.0 %</span>", "open 50.0 %</span>", "75.0 % in use")
        hidden = await until_read(
            lambda: read_legend(tokens["anna"]), lambda text: all(each in text for each in totals)
        )
        assert ">q 25.0 %" not in hidden


PAGES = (
    "/",
    "/jobs",
    "/jobs?groupBy=queue",
    "/queues",
    "/pools/default",
    "/fairness",
    "/clusters/e",
    "/clusters/e/nodes/n0",
    "/find/results?q=q",
)
"""Pages that name the queue q or its job to those who may view it."""


async def test_no_page_names_a_hidden_queue_or_its_jobs(
    fresh_database: str, valkey_url: str
) -> None:
    tokens = await prepare_tokens(fresh_database)
    names = ('/queues/q"', 'queue=q"', "/jobsets/q/", job_id("a"))

    async def find_pages(token: str) -> set[str]:
        texts = {path: (await _get_page(harness, token, path)).text for path in PAGES}
        return {path for path, text in texts.items() if any(name in text for name in names)}

    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        node = clusters.Node(name="n0", executor="e", pool="default", allocatable={"cpu": 8_000})
        beat = clusters.Heartbeat(executor="e", backend="simulated")
        await harness.append(
            [
                clusters.heartbeat_record(beat),
                clusters.node_record(node),
                configuration.record(SHUT),
                share("q", 0.25),
                share("open", 0.5),
            ]
        )
        await harness.append_events(submitted("a"), leased("a", node="n0"))
        await harness.append_events(submitted("b", "t"), queue="open", job_set="t")
        found = await until_read(lambda: find_pages(tokens["bob"]), lambda found: len(found) == 9)
        assert found == set(PAGES)
        assert await find_pages(tokens["anna"]) == set()
        for path, status in (
            ("/queues/q", 404),
            ("/live/queues/q", 404),
            ("/queues/open", 200),
            ("/queues/nosuch", 404),
        ):
            assert (await _get_page(harness, tokens["anna"], path)).status_code == status
