"""Every part is killed in turn while many jobs run: none is lost, none runs to success twice."""

import asyncio
import functools
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from fairlead import Client
from fairlead_standalone.data.data_folder import Holder
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation
from tests.conftest import Server
from tests.e2e.chaos import replay

JOBS = 300
"""Enough that jobs run while each part is killed; `test_long_kills` has 100,000."""
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


def database_of(standalone: StandaloneInstallation) -> str:
    """The URL of the embedded Postgres, as the lock of the data folder says it."""
    return msgspec.json.decode((standalone.data / "lock").read_bytes(), type=Holder).database_url


def kill_in_turn(
    standalone: StandaloneInstallation, folder: Path, kills: Sequence[Callable[[], None]]
) -> None:
    """Kill one part after the other, each after a further part of the jobs has ended."""
    for turn, kill in enumerate(kills, 1):
        enough = turn * JOBS // (len(kills) + 2)
        standalone.wait_for(functools.partial(has_lines, folder, enough))
        kill()


def has_lines(folder: Path, enough: int) -> bool:
    """Whether as many jobs as this have written their line."""
    return len(lines(folder)) >= enough


def kill_child(standalone: StandaloneInstallation, name: str) -> None:
    """`kill -9`; the supervisor starts it again."""
    os.kill(standalone.child(name).pid, signal.SIGKILL)


def stop_child(standalone: StandaloneInstallation, name: str) -> None:
    """SIGSTOP: it lives and does nothing; returns when the supervisor has replaced it."""
    stopped = standalone.child(name)
    stopped.suspend()
    standalone.wait_for(lambda: not stopped.is_running() and has_child(standalone, name))


def has_child(standalone: StandaloneInstallation, name: str) -> bool:
    """Whether there is a process of this name just now."""
    try:
        standalone.child(name)
    except AssertionError:
        return False
    return True


def run_all(
    standalone: StandaloneInstallation, folder: Path, kills: Sequence[Callable[[], None]]
) -> None:
    """Submit everything, kill in turn, and wait until all have succeeded."""
    with Client(standalone.address, token=standalone.token) as client:
        for number in range(SETS):
            client.submit("default", f"set-{number}", jobs(folder, number))
        kill_in_turn(standalone, folder, kills)
        standalone.wait_ready()
        for number in range(SETS):
            done = client.wait("default", f"set-{number}")
            assert done.states == {"SUCCEEDED": JOBS // SETS}
    ran = Counter(lines(folder))
    assert len(ran) == JOBS
    assert set(ran.values()) == {1}


def check_views(standalone: StandaloneInstallation, log_url: str) -> None:
    """Lookout and the scheduler know what a replay of the log says."""
    url = database_of(standalone)
    replayed_events = asyncio.run(replay.replayed(log_url))
    assert set(replayed_events.values()) == {"SUCCEEDED"}
    assert asyncio.run(replay.shown_by_lookout(url)) == replayed_events
    standalone.wait_for(lambda: asyncio.run(replay.saved_by_scheduler(url)) == replayed_events)


def test_each_job_succeeds_once_despite_kills(tmp_path: Path) -> None:
    with StandaloneInstallation(tmp_path) as standalone:
        standalone.start()
        run_all(
            standalone,
            tmp_path,
            [functools.partial(kill_child, standalone, name) for name in VICTIMS],
        )
        check_views(standalone, database_of(standalone))


def stop_in_turn(folder: Path, victims: Sequence[str]) -> None:
    environment = {**PYTHON_ENGINE, "FAIRLEAD_PROBE_S": "0.25"}
    with StandaloneInstallation(folder, environment=environment) as standalone:
        standalone.start()
        run_all(
            standalone,
            folder,
            [functools.partial(stop_child, standalone, name) for name in victims],
        )
        check_views(standalone, database_of(standalone))
        for name in victims:
            assert f"{name} did not answer 12 probes in a row and was killed" in standalone.printed


def test_a_stopped_scheduler_and_postgres_are_replaced_and_each_job_runs_once(
    tmp_path: Path,
) -> None:
    stop_in_turn(tmp_path, ("scheduler", "postgres"))


@pytest.mark.nightly
def test_each_stopped_process_is_replaced_and_each_job_runs_once(tmp_path: Path) -> None:
    stop_in_turn(tmp_path, VICTIMS)


@pytest.mark.kafka
def test_a_killed_broker_loses_and_duplicates_nothing(
    tmp_path: Path, fresh_kafka_broker: Server
) -> None:
    def kill_broker() -> None:
        fresh_kafka_broker.kill()
        fresh_kafka_broker.restart()

    with StandaloneInstallation(
        tmp_path, "--kafka", fresh_kafka_broker.url(), environment=PYTHON_ENGINE
    ) as standalone:
        standalone.start()
        kill_scheduler = functools.partial(kill_child, standalone, "scheduler")
        run_all(standalone, tmp_path, [kill_broker, kill_scheduler, kill_broker])
        check_views(standalone, fresh_kafka_broker.url())
