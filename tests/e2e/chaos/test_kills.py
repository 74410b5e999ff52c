"""Every part is killed in turn while many jobs run: none is lost, none runs to success twice."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import msgspec

from fairlead import Client
from fairlead_standalone.folder import Holder
from fairlead_standalone.testing import Whole
from tests.e2e.chaos import replay

JOBS = 2_000
SETS = 4
VICTIMS = ("web", "scheduler", "executor", "postgres", "valkey")


def jobs(folder: Path, number: int) -> list[dict[str, object]]:
    """Jobs of one set; each appends its id to a file as its last act."""
    command = ["/bin/sh", "-c", f'echo "$FAIRLEAD_JOB_ID" >> {folder}/lines']
    return [
        {
            "clientId": f"job-{number}-{index}",
            "command": command,
            "cpu": "50m",
            "memory": "16Mi",
        }
        for index in range(JOBS // SETS)
    ]


def lines(folder: Path) -> list[str]:
    """What the jobs wrote until now."""
    file = folder / "lines"
    return file.read_text().split() if file.exists() else []


def database_of(whole: Whole) -> str:
    """The URL of the embedded Postgres, as the lock of the data folder says it."""
    return msgspec.json.decode((whole.data / "lock").read_bytes(), type=Holder).database_url


def kill_in_turn(whole: Whole, folder: Path) -> None:
    """`kill -9` each part, each after a further part of the jobs has ended."""
    for turn, victim in enumerate(VICTIMS, 1):
        enough = turn * JOBS // (len(VICTIMS) + 2)
        whole.wait_for(lambda enough=enough: len(lines(folder)) >= enough)  # type: ignore[misc]
        os.kill(whole.child(victim).pid, signal.SIGKILL)


def test_whatever_is_killed_each_job_runs_to_success_exactly_once(tmp_path: Path) -> None:
    with Whole(tmp_path) as whole:
        whole.start()
        with Client(whole.address, token=whole.token) as client:
            for number in range(SETS):
                client.submit("default", f"set-{number}", jobs(tmp_path, number))
            kill_in_turn(whole, tmp_path)
            whole.wait_ready()
            for number in range(SETS):
                done = client.wait("default", f"set-{number}")
                assert done.states == {"SUCCEEDED": JOBS // SETS}
        ran = Counter(lines(tmp_path))
        assert len(ran) == JOBS
        assert set(ran.values()) == {1}
        url = database_of(whole)
        told = asyncio.run(replay.replayed(url))
        assert set(told.values()) == {"SUCCEEDED"}
        assert asyncio.run(replay.shown_by_lookout(url)) == told
        whole.wait_for(lambda: asyncio.run(replay.saved_by_scheduler(url)) == told)
