"""`fairlead repair` on a data folder: damage, a start that says so, the repair, and no ghosts."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from fairlead_standalone.data import data_folder
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
from tests.conftest import NO_TLS
from tests.e2e.commands import run_fairlead


def states(standalone: StandaloneInstallation) -> dict[str, str]:
    """Of all jobs of the job set, by id. To ask often by a command takes a process each time."""
    answer = ask(standalone, "/api/v1/jobs?jobSet=s")
    assert answer.status_code == 200, answer.text
    return {job["id"]: job["state"] for job in answer.json()["jobs"]}


def checks(standalone: StandaloneInstallation) -> dict[str, str]:
    """What `/readyz` says of each part, also when it says that not all are ready."""
    found: dict[str, str] = ask(standalone, "/readyz").json()["checks"]
    return found


def ask(standalone: StandaloneInstallation, path: str) -> httpx2.Response:
    """The answer to the first token."""
    headers = {"Authorization": f"Bearer {standalone.token}"}
    return httpx2.get(f"{standalone.address}{path}", headers=headers, verify=NO_TLS, timeout=30)


def submit(standalone: StandaloneInstallation, *words: str) -> str:
    """Start a job and return its id."""
    done = run_fairlead(standalone, "run", "--detach", "--jobset", "s", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


async def lose_checkpoint_and_history(url: str) -> None:
    """The retention passes, then the scheduler's schema is dropped."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(
            "UPDATE fairlead_log.parts SET first = next WHERE topic = 'fairlead.jobs';"
            " DELETE FROM fairlead_log.batches b USING fairlead_log.parts p"
            " WHERE p.part = b.part AND b.next <= p.first;"
            " DROP SCHEMA fairlead_scheduler CASCADE"
        )
    finally:
        await connection.close()


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[StandaloneInstallation]:
    with StandaloneInstallation(tmp_path, environment=PYTHON_ENGINE) as made:
        made.start()
        yield made


def test_jobs_older_than_the_log_survive_a_lost_checkpoint(
    standalone: StandaloneInstallation,
) -> None:
    first = submit(standalone, "--cpu", "1m", "--", "true")
    standalone.wait_for(lambda: states(standalone).get(first) == "SUCCEEDED")
    runs = submit(standalone, "--cpu", "1m", "--", "sleep", "600")
    standalone.wait_for(lambda: states(standalone).get(runs) == "RUNNING")
    holder = data_folder.read_holder(standalone.data)
    assert holder is not None
    standalone.child("scheduler").kill()
    asyncio.run(lose_checkpoint_and_history(holder.database_url))
    standalone.wait_for(lambda: "fairlead repair" in checks(standalone).get("scheduler view", ""))
    said = run_fairlead(standalone, "doctor")
    assert "BAD  scheduler view" in said.stdout
    assert said.returncode != 0
    assert "fairlead repair" in said.stdout
    dry = run_fairlead(standalone, "repair", "--data", str(standalone.data), "--dry-run")
    assert dry.returncode == 1, dry.stderr
    assert f"{runs} (default/s)" in dry.stdout
    done = run_fairlead(standalone, "repair", "--data", str(standalone.data), "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    again = submit(standalone, "--cpu", "1m", "--", "true")
    standalone.wait_for(lambda: states(standalone).get(again) == "SUCCEEDED")
    assert states(standalone)[runs] == "RUNNING"
    assert run_fairlead(standalone, "cancel", runs).returncode == 0
    standalone.wait_for(lambda: states(standalone)[runs] == "CANCELLED")
    story = run_fairlead(standalone, "story", again, "--data", str(standalone.data))
    assert story.returncode == 0, story.stderr
    first_line, *_, last_line = story.stdout.splitlines()[1:]
    assert "submitted to queue default, job set s" in first_line
    assert "SUCCEEDED  succeeded" in last_line
    deep = run_fairlead(standalone, "doctor", "--deep", "-o", "json")
    assert deep.returncode == 0, deep.stdout + deep.stderr
    assert json.loads(deep.stdout)[-1]["message"].startswith("all invariants hold")
    standalone.interrupt()
    stopped = run_fairlead(standalone, "repair", "--data", str(standalone.data), "--dry-run")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "Nothing to repair" in stopped.stdout
    unknown = run_fairlead(standalone, "story", again[:-1] + "0", "--data", str(standalone.data))
    assert unknown.returncode == 2
    assert "The log has no events of job" in unknown.stderr
    assert "is not a job id" in run_fairlead(standalone, "story", "trial").stderr
