"""The tables agree with a fold in plain dictionaries, whatever is in memory and however cut."""

import random
from typing import Any

import asyncpg
import msgspec
import pytest

from fairlead_common.domain.records import events
from fairlead_lookout.domain.model import Job, Message, Run
from fairlead_lookout.store import table_rows
from fairlead_lookout.store.table_rows import JOB_COLUMNS
from tests.integration.lookout.lookout_harness import running
from tests.unit.lookout.builders import JOB_SET, QUEUE, PlainView
from tests.unit.lookout.histories import history

SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(6, 12))]
CHANGING = [
    name for name in JOB_COLUMNS if name in Job.__struct_fields__ and name not in ("after", "week")
]


@pytest.mark.parametrize("seed", SEEDS)
async def test_tables_agree_with_a_plain_fold(
    fresh_database: str, valkey_url: str, seed: int
) -> None:
    chance = random.Random(seed)
    messages = history(seed)
    async with running(fresh_database, valkey_url, jobs_known_max=3, fold_events_max=7) as harness:
        after = ""
        while messages:
            size = chance.randint(1, min(9, len(messages)))
            records = [
                record
                for message in messages[:size]
                for record in events.records(QUEUE, JOB_SET, "anna", message)
            ]
            del messages[:size]
            after = await harness.append(records)
            if chance.random() < 0.5:
                await harness.get("/jobsets", after)
        public_events = await harness.lines(f"/jobsets/{QUEUE}/{JOB_SET}/events", after)
        plain = PlainView()
        plain.fold(*_log(harness.log.core))
    assert public_events == plain.published[QUEUE, JOB_SET]
    connection = await asyncpg.connect(fresh_database)
    try:
        await _compare(connection, plain)
    finally:
        await connection.close()


def _log(core: Any) -> list[Message]:
    """All messages of the log."""
    batch = core.read("fairlead.jobs", core.start_positions("fairlead.jobs"))
    return [
        Message(entry.partition, entry.position, entry.time_ms, events.decode(entry.value))
        for entry in batch.entries
    ]


async def _compare(connection: Any, plain: PlainView) -> None:
    rows = {row["id"]: row for row in await connection.fetch("SELECT * FROM fairlead_lookout.jobs")}
    assert rows.keys() == plain.cache.jobs.keys()
    for job_id, job in plain.cache.jobs.items():
        row = dict(rows[job_id])
        row["user_requests"] = table_rows.decode_requests(row["user_requests"])
        assert {name: row[name] for name in CHANGING} == _plain(job, CHANGING)
    runs = await connection.fetch("SELECT * FROM fairlead_lookout.runs_of_jobs")
    found = {(row["job_id"], row["number"]): dict(row) for row in runs}
    assert found.keys() == plain.runs.keys()
    for key, run in plain.runs.items():
        wanted = [name for name in Run.__struct_fields__ if name != "new"]
        assert {name: found[key][name] for name in wanted} == _plain(run, wanted)
    counters = await connection.fetch(
        "SELECT class, state, jobs FROM fairlead_lookout.counters WHERE jobs > 0"
    )
    job_set = plain.cache.job_sets[QUEUE, JOB_SET]
    assert {(row["class"], row["state"]): row["jobs"] for row in counters} == {
        key: jobs for key, jobs in job_set.counts.items() if jobs
    }
    queue_counts = await connection.fetch(
        "SELECT * FROM fairlead_lookout.queue_counts WHERE jobs <> 0"
    )
    assert {(row["queue"], row["class"], row["state"]): row["jobs"] for row in queue_counts} == {
        key: jobs for key, jobs in plain.counted.items() if jobs
    }
    usage = await connection.fetch("SELECT * FROM fairlead_lookout.usage")
    for row in usage:
        place = (row["queue"], row["pool"], row["hour_ms"], row["resource"])
        assert (row["used"], row["lost"]) == (plain.used[place], plain.lost[place])
    assert len(usage) == len(plain.used)
    usage = await connection.fetch("SELECT * FROM fairlead_lookout.user_usage")
    for row in usage:
        place = (row["queue"], row["hour_ms"], row["resource"], row["submitted_by"])
        assert (row["used"], row["lost"]) == (plain.used_by_user[place], plain.lost_by_user[place])
    assert len(usage) == len(plain.used_by_user)
    row = await connection.fetchrow("SELECT * FROM fairlead_lookout.job_sets")
    retained = table_rows.decode_job_set(row)
    assert (retained.failures, retained.held, retained.used, retained.metered_ms) == (
        job_set.failures,
        job_set.held,
        job_set.used,
        job_set.metered_ms,
    )
    assert (row["jobs"], row["live"], row["active"]) == (
        job_set.jobs,
        job_set.live,
        job_set.live > 0,
    )
    assert (row["last_position"], row["last_item"]) == job_set.last


def _plain(record: Job | Run, names: list[str]) -> dict[str, object]:
    values = msgspec.structs.asdict(record)
    return {name: values[name] for name in names}
