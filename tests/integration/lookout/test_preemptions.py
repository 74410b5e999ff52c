"""The page of preemptions: who lost what to whom, its filters, its pages and its export."""

import csv
import io
import itertools
import re
from random import Random
from typing import Any

import msgspec

from fairlead_common.db import open_pool
from fairlead_common.domain import ids
from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.records import events
from fairlead_lookout.store.queries.preemption_lists import PreemptionFilter, read_preemptions
from fairlead_lookout.store.queries.view_reader import ViewReader
from fairlead_lookout.store.view_schema import migrate_schema
from tests.integration.lookout.lookout_harness import LookoutHarness, running
from tests.integration.lookout.test_permissions import prepare_tokens
from tests.unit.lookout.builders import job_id, leased, submitted

JOBS = 60


def preempted(name: str, for_job: ids.JobId | None, job_set: str = "s") -> list[events.AnyEvent]:
    """A run that starts, and is stopped for another job."""
    this = job_id(name, job_set)
    cause = events.PreemptionCause.FAIR_SHARE
    return [
        submitted(name, job_set),
        leased(name, job_set=job_set),
        events.JobRunRunning(job_id=this, run=1),
        events.JobRunPreempting(
            job_id=this, run=1, cause=cause, reason="a queue is below its share", for_job=for_job
        ),
        events.JobRunStopped(job_id=this, run=1, reason="stopped"),
        events.JobRequeued(job_id=this, reason="preempted"),
    ]


async def _export(harness: LookoutHarness, **query: Any) -> list[dict[str, Any]]:
    headers = query.pop("headers", {})
    answer = await harness.client.get(
        "/export/preemptions", params={"format": "ndjson", **query}, headers=headers
    )
    assert answer.status_code == 200, answer.text
    return [msgspec.json.decode(line) for line in answer.text.splitlines()]


async def test_rows_say_who_lost_what_to_whom(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        winner = job_id("w", "t")
        await harness.append_events(submitted("w", "t"), queue="research", job_set="t")
        after = await harness.append_events(*preempted("a", winner), *preempted("b", None))
        await harness.read("/jobs", after)
        found = {each["clientId"]: each for each in await _export(harness)}
        assert found["a"]["forJob"] == winner
        assert found["a"]["forQueue"] == "research"
        assert found["a"]["cause"] == "fair-share"
        assert found["a"]["reason"] == "a queue is below its share"
        assert found["a"]["node"] == "n0"
        assert found["a"]["lost"].keys() <= {"cpu", "memory"}
        assert found["a"]["heldMs"] >= 0
        assert "forJob" not in found["b"]
        assert await _export(harness, queue="research") == []
        assert len(await _export(harness, queue="q", **{"from": "2026-01-01T00:00"})) == 2
        assert await _export(harness, to="2026-01-01T00:00:00Z") == []
        wrong = await harness.client.get("/export/preemptions", params={"from": "yesterday"})
        assert wrong.status_code == 422
        text = (await harness.client.get("/export/preemptions")).text
        assert len(list(csv.reader(io.StringIO(text)))) == 3


async def test_pages_continue_where_the_last_ended(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        history = [event for n in range(JOBS) for event in preempted(f"j{n}", None)]
        await harness.read("/jobs", await harness.append_events(*history))
        for query in ("", "?queue=q"):
            seen: list[str] = []
            address: str | None = f"/preemptions{query}"
            while address is not None:
                text = (await harness.client.get(address)).text
                seen += [part.partition('"')[0] for part in text.split('data-job="')[1:]]
                assert len(seen) <= JOBS
                older = re.search(r'href="([^"]*)">Older</a>', text)
                is_first = address == f"/preemptions{query}"
                assert (f'href="/preemptions{query}">Newest</a>' in text) is not is_first
                live = re.search(r'hx-sse:connect="/live([^"]*)"', text)
                assert live is not None
                assert live[1].replace("&amp;", "&") == address
                address = older[1].replace("&amp;", "&") if older else None
                if address is not None:
                    other = address.replace("/preemptions?", "/preemptions?to=2030-01-01T00:00&")
                    assert (await harness.client.get(other)).status_code == 400
            assert len(seen) == JOBS
            assert set(seen) == {job_id(f"j{n}") for n in range(JOBS)}
        wrong = await harness.client.get("/preemptions?cursor=nothing")
        assert wrong.status_code == 400
        none = (await harness.client.get("/preemptions?queue=other")).text
        assert "No preemption matches." in none


async def test_the_pages_of_every_filter_are_the_rows_that_match_newest_first(
    fresh_database: str,
) -> None:
    chance = Random(6)
    rows = {
        (chance.randrange(12), f"job-{chance.randrange(4)}".replace("-", ""), chance.randrange(9))
        for _ in range(120)
    }
    stored = [(*row, chance.choice("abc")) for row in sorted(rows)]
    scopes = (ALL_QUEUES, QueueScope(frozenset("ab")), QueueScope(but=frozenset("c")))
    pool = await open_pool(fresh_database, size_max=1)
    try:
        await migrate_schema(pool)
        await pool.executemany(
            "INSERT INTO fairlead_lookout.preemptions (time_ms, job_id, run, queue, cause)"
            " VALUES ($1, $2, $3, $4, 'urgency')",
            stored,
        )
        for scope, queue, span in itertools.product(
            scopes, (None, "a", "c"), ((0, 99), (3, 9), (4, 4))
        ):
            wanted = PreemptionFilter(
                visible_queues=scope, queue=queue, from_ms=span[0], to_ms=span[1]
            )
            found: list[tuple[int, str, int]] = []
            cursor: str | None = None
            while True:
                page = await read_preemptions(ViewReader(pool), wanted, 7, cursor)
                found += [(row["time_ms"], row["job_id"], row["run"]) for row in page.rows]
                if (cursor := page.next) is None:
                    break
                assert len(page.rows) == 7
            whole = await read_preemptions(ViewReader(pool), wanted, max(len(found), 1), None)
            assert whole.next is None
            assert found == sorted(
                (
                    row[:3]
                    for row in stored
                    if row[3] in scope and queue in (None, row[3]) and span[0] <= row[0] < span[1]
                ),
                reverse=True,
            )
    finally:
        await pool.close()


async def test_jobs_of_hidden_queues_are_left_out(fresh_database: str, valkey_url: str) -> None:
    tokens = await prepare_tokens(fresh_database)
    async with running(fresh_database, valkey_url, anonymous=False) as harness:
        await harness.append_events(*preempted("a", None))
        after = await harness.append_events(
            *preempted("o", job_id("a"), "t"), queue="open", job_set="t"
        )
        headers = {who: {"Authorization": f"Bearer {token}"} for who, token in tokens.items()}
        await harness.client.get(
            "/api/v1/jobs", params={"after": after, "wait": "30s"}, headers=headers["bob"]
        )
        assert len(await _export(harness, headers=headers["bob"])) == 2
        (row,) = await _export(harness, headers=headers["anna"])
        assert row["queue"] == "open"
        assert row.keys().isdisjoint({"forJob", "forQueue", "forClientId", "reason"})
        assert await _export(harness, headers=headers["anna"], queue="q") == []
