"""What ended long ago is forgotten, and the counters say what they would if it had never been."""

import asyncio
from typing import Any

import asyncpg
import msgspec

from fairlead_common.domain import shapes
from fairlead_common.domain.records import events
from fairlead_common.log.memory_log import MemoryCore
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import cancel, job_id, submitted

TABLES = ("jobs", "job_specs", "runs", "counters", "job_sets")


async def test_old_jobs_are_deleted_and_live_jobs_stay(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    async with running(fresh_database, valkey_url, core) as harness:
        jobs = [submitted(f"j{number}") for number in range(50)]
        ended = [cancel(f"j{number}") for number in range(40)]
        await harness.read("/jobsets", await harness.append_events(*jobs, *ended))
        gone = [submitted("a", "t"), cancel_in("a", "t")]
        await harness.read("/jobsets", await harness.append_events(*gone, job_set="t"))
    async with running(fresh_database, valkey_url, core, jobs_days=0) as harness:
        async with asyncio.timeout(120):
            while len((await harness.read("/jobs", limit=1_000))["jobs"]) > 10:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        found = await harness.read("/jobs", groupBy="queue,state")
        assert found["groups"] == [{"group": {"queue": "q", "state": "QUEUED"}, "jobs": 10}]
        (only,) = (await harness.read("/jobsets"))["jobSets"]
        assert (only["jobSet"], only["jobs"], only["states"]) == ("s", 10, {"QUEUED": 10})
        assert (await harness.get(f"/jobs/{job_id('j0')}")).status_code == 404
        # The name of a job set that is gone begins anew, and so does a job's.
        again = await harness.read(
            "/jobsets/q/t", await harness.append_events(submitted("a", "t"), job_set="t")
        )
        assert again["jobs"] == 1
        after = await harness.append_events(submitted("j0"), cancel("j49"))
        assert (await harness.read("/jobsets/q/s", after))["jobs"] == 11
    connection = await asyncpg.connect(fresh_database)
    try:
        for table in ("jobs", "job_specs"):
            assert await connection.fetchval(f"SELECT count(*) FROM fairlead_lookout.{table}") <= 12
        wrong = await connection.fetch(
            "SELECT * FROM fairlead_lookout.queue_counts q FULL JOIN (SELECT queue, class, state,"
            " count(*) AS jobs FROM fairlead_lookout.jobs GROUP BY 1, 2, 3) j"
            " USING (queue, class, state) WHERE coalesce(q.jobs, 0) <> coalesce(j.jobs, 0)"
        )
        assert not wrong
    finally:
        await connection.close()


async def test_a_shape_is_deleted_with_its_last_job_and_recreated(
    fresh_database: str, valkey_url: str
) -> None:
    core = MemoryCore()
    small, large, other = ({"cpu": amount} for amount in (1, 2, 3))
    async with running(fresh_database, valkey_url, core) as harness:
        history = [shaped("live", small), shaped("gone", large), shaped("back", other)]
        ended = [cancel("gone"), cancel("back")]
        await harness.read("/jobsets", await harness.append_events(*history, *ended))
    connection = await asyncpg.connect(fresh_database)
    try:
        await connection.execute("UPDATE fairlead_lookout.shapes SET used = used - 3")
        # As if it had been submitted then, and nothing had happened to it since.
        await connection.execute("UPDATE fairlead_lookout.jobs SET number = 1")
        async with running(fresh_database, valkey_url, core, jobs_days=0) as harness:
            async with asyncio.timeout(120):
                while await known_shapes(connection) != [small]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await harness.read("/jobsets", await harness.append_events(shaped("again", other)))
            assert await known_shapes(connection) == [small, other]
    finally:
        await connection.close()


def shaped(name: str, requests: dict[str, int]) -> events.JobSubmitted:
    """A job that asks for this."""
    return submitted(name, shape=shapes.encode(shapes.Shape(requests)))


async def known_shapes(connection: Any) -> list[dict[str, int]]:
    """What the shapes of the view ask for."""
    rows = await connection.fetch("SELECT requests FROM fairlead_lookout.shapes ORDER BY requests")
    return [msgspec.json.decode(row["requests"]) for row in rows]


def cancel_in(name: str, job_set: str) -> events.AnyEvent:
    """Somebody wants a job of another set gone."""
    return events.JobCancelRequested(job_id=job_id(name, job_set), reason="enough")
