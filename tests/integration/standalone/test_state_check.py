"""`fairlead doctor --deep`: the invariants of the scheduler's state, read beside a scheduler."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from fairlead_common.domain.records import events as ev
from fairlead_common.log import topics
from tests.integration.scheduler.world import job_id, submitted
from tests.integration.standalone.repair_harness import Installation

NO_SERVER = "http://127.0.0.1:9"
BOUND_S = 120
RUN_WITHOUT_NUMBER = (
    "UPDATE fairlead_scheduler.jobs SET record = overlay(record PLACING int4send(0) FROM 23)"
    f" WHERE job_id = '{job_id('runs')}'"
)
"""The run of `runs` has the number 0 in its record."""
TRUNCATED = "UPDATE fairlead_scheduler.jobs SET record = substring(record FROM 1 FOR 40)"


@pytest.fixture
async def installation(fresh_database: str, valkey_url: str) -> AsyncIterator[Installation]:
    async with Installation.open(fresh_database, fresh_database, valkey_url) as made:
        yield made


def _doctor(environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    own = str(Path(sys.executable).with_name("fairlead"))
    inherited = {name: value for name, value in os.environ.items() if "FAIRLEAD" not in name}
    return subprocess.run(
        [own, "--server", NO_SERVER, "doctor", *words],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


async def run_doctor(url: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command, with the settings of the services."""
    environment = {"FAIRLEAD_DATABASE_URL": url, "FAIRLEAD_LOG_URL": url}
    return await asyncio.to_thread(_doctor, environment, *words)


async def find(installation: Installation) -> list[dict[str, Any]]:
    """What it finds about the scheduler's state."""
    done = await run_doctor(installation.url, "--deep", "-o", "json")
    found = json.loads(done.stdout)
    return [each for each in found if each["name"] == "scheduler state"]


async def read_stored(installation: Installation) -> list[object]:
    """All that the check reads, as it is stored now."""
    connection = await asyncpg.connect(installation.url)
    try:
        return [
            await connection.fetch(f"SELECT * FROM {table} ORDER BY 1")
            for table in (
                "fairlead_scheduler.view",
                "fairlead_scheduler.jobs",
                "fairlead_log.parts",
            )
        ]
    finally:
        await connection.close()


async def fill(installation: Installation) -> None:
    """`runs` runs on the only core, and `waits` waits for it; the checkpoint has both."""
    world = installation.world
    await world.report_nodes(cores=1)
    await world.tell(submitted("runs"), submitted("waits"))
    async with installation.scheduler():
        await world.first(ev.JobRunLeased, "runs")


async def test_a_valid_state_is_reported_beside_a_leading_scheduler(
    installation: Installation,
) -> None:
    await fill(installation)
    async with installation.scheduler():
        await installation.world.tell(submitted("late"), submitted("after", after=("late",)))
        assert await find(installation) == [
            {"name": "scheduler state", "message": "all invariants hold (4 live jobs)"}
        ]


async def test_the_log_is_folded_up_to_its_end_and_nothing_is_changed(
    installation: Installation,
) -> None:
    await fill(installation)
    await installation.world.tell(submitted("late"))  # no scheduler has read it
    before = await read_stored(installation)
    ends = await installation.world.log.end_positions(topics.JOBS)
    done = await run_doctor(installation.url, "--deep")
    assert "ok   scheduler state: all invariants hold (3 live jobs)" in done.stdout
    assert await read_stored(installation) == before
    assert await installation.world.log.end_positions(topics.JOBS) == ends


async def test_each_violated_invariant_of_a_damaged_checkpoint_is_a_problem(
    installation: Installation,
) -> None:
    await fill(installation)
    await installation.execute(RUN_WITHOUT_NUMBER)
    done = await run_doctor(installation.url, "--deep")
    assert done.returncode != 0
    assert "BAD  scheduler state: in the checkpoint: a run without a number" in done.stdout
    assert "hint: this is a defect of Fairlead" in done.stdout
    (found,) = await find(installation)
    assert found["code"] == 1


async def test_a_record_that_cannot_be_read_is_a_problem(installation: Installation) -> None:
    await fill(installation)
    await installation.execute(TRUNCATED)
    (found,) = await find(installation)
    assert "the checkpoint cannot be read: a row of the checkpoint" in found["message"]


async def test_a_checkpoint_that_the_log_cannot_continue_names_the_repair(
    installation: Installation,
) -> None:
    await fill(installation)
    await installation.world.tell(submitted("late"))
    await installation.expire()
    (found,) = await find(installation)
    assert "scheduler's checkpoint is older than the log" in found["message"]
    assert "fairlead repair" in found["message"]


async def test_a_database_without_a_scheduler_is_not_checked(installation: Installation) -> None:
    (found,) = await find(installation)
    assert found["message"].startswith("not checked: ")
    assert found["code"] == 1


def test_without_access_to_the_log_it_says_what_to_do(tmp_path: Path) -> None:
    done = _doctor({"FAIRLEAD_DATA": str(tmp_path / "none")}, "--deep")
    assert done.returncode != 0
    assert "BAD  scheduler state: not checked: " in done.stdout
    assert "FAIRLEAD_DATABASE_URL" in done.stdout
