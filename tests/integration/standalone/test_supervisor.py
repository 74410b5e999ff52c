"""The supervisor with small programs in the place of services."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from fairlead_common.service.process import EXIT_SETTINGS
from fairlead_standalone.processes.child_process import ServerFailed
from fairlead_standalone.processes.liveness import Liveness
from fairlead_standalone.processes.supervisor import Supervisor
from tests.conftest import ROOT
from tests.integration.standalone.stand_ins import SERVES, StandIn

BOUND_S = 120
QUICK = Liveness(every_s=0.2, answer_s=1.0, failures_max=3)


class Heard:
    """What the supervisor said, to be waited for."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    def __call__(self, text: str) -> None:
        self._lines.put_nowait(text)

    async def until(self, part: str) -> str:
        """The next line that contains this."""
        async with asyncio.timeout(BOUND_S):
            while part not in (line := await self._lines.get()):
                pass
            return line


def notes(folder: Path) -> list[str]:
    return (folder / "notes").read_text().splitlines()


async def test_a_killed_child_is_restarted_and_reported(tmp_path: Path) -> None:
    heard = Heard()
    async with Supervisor(tmp_path, heard) as children:
        program = StandIn("one", tmp_path)
        await children.start(program)
        first = program.pid()
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert "was ended by signal 9" in await heard.until("starting it again")
        await heard.until("one runs again")
        assert program.pid() != first
    assert notes(tmp_path) == ["one started", "one started", "one ended"]


async def test_a_child_that_exits_is_restarted(tmp_path: Path) -> None:
    heard = Heard()
    once = SERVES.replace("ended.wait()", "(folder / 'seen').exists() and ended.wait()")
    once += "(folder / 'seen').touch(); sys.exit(3)\n"
    async with Supervisor(tmp_path, heard) as children:
        await children.start(StandIn("one", tmp_path, once))
        assert "exit code 3" in await heard.until("starting it again")


async def test_a_stopped_child_is_replaced_and_reported_in_one_line(tmp_path: Path) -> None:
    heard = Heard()
    async with Supervisor(tmp_path, heard, QUICK) as children:
        program, other = StandIn("one", tmp_path), StandIn("two", tmp_path)
        await children.start(program, other)
        first, untouched = program.pid(), other.pid()
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        said = await heard.until("starting it again")
        assert "one did not answer 3 probes in a row and was killed" in said
        await heard.until("one runs again")
        assert program.pid() != first
        assert other.pid() == untouched
    assert not psutil.pid_exists(first)


async def test_a_blocked_child_is_replaced(tmp_path: Path) -> None:
    """It lives and has its port, but accepts nothing any more."""
    heard = Heard()
    async with Supervisor(tmp_path, heard, QUICK) as children:
        await children.start(StandIn("one", tmp_path))
        (tmp_path / "one.blocked").touch()
        assert "did not answer" in await heard.until("starting it again")
        await heard.until("one runs again")


async def test_a_recovering_child_is_not_killed_while_it_answers(tmp_path: Path) -> None:
    heard = Heard()
    slow = "\nwhile not (folder / 'recovered').exists(): ended.wait(0.01)\n" + SERVES
    program = StandIn("one", tmp_path, slow, ready_s=0.5, recovers=True)
    async with Supervisor(tmp_path, heard) as children:
        starting = asyncio.create_task(children.start(program))
        await heard.until("one answers but is not ready yet")
        (tmp_path / "recovered").touch()
        await starting
    assert notes(tmp_path) == ["one started", "one ended"]


async def test_children_end_in_reverse_order_of_start(tmp_path: Path) -> None:
    async with Supervisor(tmp_path, Heard()) as children:
        for name in ("server", "service"):
            await children.start(StandIn(name, tmp_path))
    assert notes(tmp_path)[2:] == ["service ended", "server ended"]


async def test_a_child_that_never_starts_ends_the_supervisor_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(
        ServerFailed, match=r"(?s)one cannot .*: it ended with exit code 1.*no such luck"
    ):
        async with Supervisor(tmp_path, Heard()) as children:
            await children.start(StandIn("one", tmp_path, "sys.exit('no such luck')\n"))


async def test_a_slow_first_start_that_fails_is_repeated(tmp_path: Path) -> None:
    """As on a loaded machine, where an answer of Postgres comes too late."""
    heard = Heard()
    once = "seen = folder / 'seen'\nif not seen.exists(): seen.touch(); sys.exit('too slow')\n"
    async with Supervisor(tmp_path, heard, settled_s=0.0) as children:  # any start is a slow one
        await children.start(StandIn("one", tmp_path, once + SERVES))
        assert "ended with exit code 1" in await heard.until("starting it again")
    assert notes(tmp_path) == ["one started", "one started", "one ended"]


async def test_a_child_with_invalid_settings_is_started_once(tmp_path: Path) -> None:
    body = f"print('settings: PORT: is not a number', flush=True); sys.exit({EXIT_SETTINGS})\n"
    with pytest.raises(ServerFailed) as raised:
        async with Supervisor(tmp_path, Heard()) as children:
            await children.start(StandIn("one", tmp_path, body))
    assert str(raised.value) == "one cannot be started: settings: PORT: is not a number"
    assert notes(tmp_path) == ["one started"]


async def test_a_child_that_never_becomes_ready_is_ended(tmp_path: Path) -> None:
    waits = "note(str(os.getpid())); ended.wait()\n"
    with pytest.raises(ServerFailed, match="was not ready within 0 s"):
        async with Supervisor(tmp_path, Heard()) as children:
            await children.start(StandIn("one", tmp_path, waits, ready_s=0.2))
    written = {int(line.split()[1]) for line in notes(tmp_path) if line != "one started"}
    assert not any(psutil.pid_exists(pid) for pid in written)


async def test_a_child_that_does_not_end_is_killed(tmp_path: Path) -> None:
    heard = Heard()
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVES
    async with Supervisor(tmp_path, heard) as children:
        program = StandIn("one", tmp_path, deaf, stop_s=0.2)
        await children.start(program)
    await heard.until("one did not end within")
    assert not psutil.pid_exists(program.pid() or 0)


async def test_hurrying_kills_children_at_once(tmp_path: Path) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVES
    async with asyncio.timeout(BOUND_S), Supervisor(tmp_path, Heard()) as children:
        await children.start(StandIn("one", tmp_path, deaf, stop_s=10 * BOUND_S))
        children.hurry()


async def test_output_is_logged_and_errors_are_printed(tmp_path: Path) -> None:
    heard = Heard()
    talks = (
        """print('{"level": "INFO", "message": "all is well"}', flush=True)
print('{"level": "ERROR", "message": "a fire"}', flush=True)
"""
        + SERVES
    )
    async with Supervisor(tmp_path, heard) as children:
        await children.start(StandIn("one", tmp_path, talks))
        assert await heard.until("") == "one: a fire"
    assert "all is well" in (tmp_path / "one.log").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of a parent's death")
def test_no_child_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.integration.standalone.stand_ins", str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "ready\n"
        children = psutil.Process(supervisor.pid).children()
        assert len(children) == 2
        supervisor.kill()
    _, alive = psutil.wait_procs(children, BOUND_S)
    assert not alive
