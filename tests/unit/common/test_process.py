"""The frame of every `main`: how a service ends, and what its exit code says."""

import json
import signal
import subprocess
import sys

import pytest

from fairlead_common.service.process import EXIT_SETTINGS

WAITS = """
import asyncio
from fairlead_common.service import process

async def main():
    try:
        print("waits", flush=True)
        await asyncio.Event().wait()
    finally:
        print("tidied up", flush=True)

process.run(main)
print("after", flush=True)
"""
ENDS = """
from fairlead_common.service import process

async def main():
    print("worked", flush=True)

process.run(main)
"""
FAILS = """
import asyncio
from fairlead_common.service import process

async def fail():
    raise RuntimeError("odd")

async def main():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.Event().wait())
        tasks.create_task(fail())

process.run(main)
"""
LOSES_THE_LOG = """
import asyncio
from fairlead_common.domain.errors import AppendUnknown, ProducerFenced
from fairlead_common.service import process

async def heartbeat():
    raise AppendUnknown("no answer within 20 s")

async def cycle():
    try:
        await asyncio.Event().wait()
    finally:
        raise ProducerFenced("a newer producer exists")

async def lead():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cycle())
        tasks.create_task(heartbeat())

async def main():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.Event().wait())
        tasks.create_task(lead())

process.run(main)
"""
FAILS_TWICE = LOSES_THE_LOG.replace("raise ProducerFenced", "raise AssertionError")
UNSET = """
from fairlead_common.service import process
from fairlead_common.service.settings import Settings, load

async def main():
    load(Settings, {"FAIRLEAD_HTTP_PORT": "many"})

process.run(main)
"""
BAD_LOG = """
from fairlead_common.service import process
from fairlead_common.log.opening import open_log

async def main():
    await open_log("http://127.0.0.1:1")

process.run(main)
"""


def started(program: str) -> subprocess.Popen[str]:
    """A process that runs this program."""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_tasks_in_order_and_is_a_success(number: signal.Signals) -> None:
    with started(WAITS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(number)
        rest, log = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "tidied up\nafter\n")
    assert f"ended by {number.name}" in log


def test_a_main_that_returns_is_a_success() -> None:
    with started(ENDS) as process:
        printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed) == (0, "worked\n")


def test_the_first_task_that_fails_ends_the_process_with_its_traceback() -> None:
    with started(FAILS) as process:
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "RuntimeError: odd" in log


def test_an_error_of_the_environment_ends_the_process_with_one_sentence() -> None:
    with started(LOSES_THE_LOG) as process:
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    (line,) = log.splitlines()
    assert json.loads(line)["message"] == "ended: no answer within 20 s"


def test_an_error_of_fairlead_itself_is_never_hidden_by_one_of_the_environment() -> None:
    with started(FAILS_TWICE) as process:
        _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "AssertionError: a newer producer exists" in log


def test_wrong_settings_are_a_sentence_not_a_traceback() -> None:
    with started(UNSET) as process:
        _, log = process.communicate(timeout=60)
    assert process.returncode == EXIT_SETTINGS
    assert log.startswith("settings: FAIRLEAD_HTTP_PORT:")
    assert "Traceback" not in log


def test_an_invalid_log_url_is_reported_without_a_traceback() -> None:
    with started(BAD_LOG) as process:
        _, log = process.communicate(timeout=60)
    assert process.returncode == EXIT_SETTINGS
    assert log.startswith("settings: a log's URL begins with")
    assert "Traceback" not in log
