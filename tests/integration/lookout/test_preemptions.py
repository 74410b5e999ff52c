"""The page of preemptions: who lost what to whom, its filters, its pages and its export."""

import csv
import io
import re
from typing import Any

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.records import events
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
                address = older[1].replace("&amp;", "&") if older else None
            assert len(seen) == JOBS
            assert set(seen) == {job_id(f"j{n}") for n in range(JOBS)}
        wrong = await harness.client.get("/preemptions?cursor=nothing")
        assert wrong.status_code == 400


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
        assert "forJob" not in row
        assert "reason" not in row
        assert await _export(harness, headers=headers["anna"], queue="q") == []
