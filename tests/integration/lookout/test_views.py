"""What the schema offers to submit: known, live, counted and found jobs."""

from typing import Any

import asyncpg

from fairlead_common.domain.records import line_chunks
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import cancel, job_id, leased, submitted


async def test_submit_can_read_the_jobs_of_the_view(fresh_database: str, valkey_url: str) -> None:
    async with running(fresh_database, valkey_url) as harness:
        after = await harness.append_events(
            submitted("a", labels={"team": "x"}), submitted("b"), cancel("b"), leased("a")
        )
        await harness.read("/jobsets", after)
        known = await _rows(fresh_database, "known_jobs", "job_id")
        assert {row["job_id"]: row["state"] for row in known} == {
            job_id("a"): "LEASED",
            job_id("b"): "CANCELLED",
        }
        assert {(row["queue"], row["job_set"], row["digest"]) for row in known} == {("q", "s", "d")}
        assert await _rows(fresh_database, "live_jobs", "queue") == [{"queue": "q", "jobs": 1}]
        counted = await _rows(fresh_database, "counted_jobs", "state")
        assert [(row["state"], row["jobs"]) for row in counted] == [("CANCELLED", 1), ("LEASED", 1)]
        found = {row["job_id"]: row for row in await _rows(fresh_database, "found_jobs", "number")}
        first = found[job_id("a")]
        assert (first["executor"], first["node"], first["labels"]) == ("e", "n0", '{"team": "x"}')
        (chunk,) = await _rows(fresh_database, "known_submissions", "chunk")
        assert (first["chunk"], first["week"]) == (chunk["chunk"], chunk["week"])
        line = line_chunks.read_line(chunk["lines"], first["chunk_line"])
        assert b'"clientId":"a"' in line
        assert first["submitted_bytes"] == len(line)
        await harness.read("/jobsets", await harness.append_events(cancel("a")))


async def _rows(database: str, view: str, order: str) -> list[dict[str, Any]]:
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch(f"SELECT * FROM fairlead_lookout.{view} ORDER BY {order}")
    finally:
        await connection.close()
    return [dict(row) for row in rows]
