"""Keeps child processes running: starts them in order, restarts those that die, ends them in order.

    async with Supervisor(logs, say) as children:
        await children.start(postgres, valkey)       # returns when both are ready
        await children.start(web, scheduler)
        await children.wait()                        # until cancelled, or a child cannot run
    # now they have ended, those started last first

A child that dies is started again after a pause that doubles from `PAUSE_S` to `PAUSE_S_MAX`. If a
child was never ready, `FIRST_STARTS_MAX` starts end the supervisor with the last lines of the
child's log, and one start does whose exit code says that its settings are not valid. A child that
runs but does not answer is killed and started again (`liveness`).
"""

import asyncio
import subprocess
from pathlib import Path
from typing import Final, NamedTuple, Self

from fairlead_common.service import clock
from fairlead_common.service.process import EXIT_SETTINGS
from fairlead_standalone.processes.child_process import (
    ServerFailed,
    SupervisedProgram,
    read_tail,
    spawn,
    wait_until_ended,
)
from fairlead_standalone.processes.liveness import Liveness, ProbeFailures
from fairlead_standalone.processes.process_output import Output, RotatingLog, Say

PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 10.0
SETTLED_S: Final = 30.0
FIRST_STARTS_MAX: Final = 3
"""A first start can fail because the machine is slow: as when an answer of Postgres takes longer
than a lock may stay unconfirmed."""
DEATHS_COUNTED_MAX: Final = 10
PROBE_S: Final = 0.02
PROBE_S_MAX: Final = 0.2
AGAIN_S: Final = 1_000.0
"""How long a child that was ready before can take to be ready again: services wait up to
`CONNECT_S_MAX` for an unavailable database or log before they listen."""
PIECE_BYTES: Final = 64 * 1024
LAST_OUTPUT_S_MAX: Final = 1.0


class Supervisor:
    """A set of children; leaving the context ends all of them.

    A child that ran for `settled_s` is restarted after the shortest pause.
    """

    def __init__(
        self,
        logs: Path,
        say: Say,
        liveness: Liveness | None = None,
        settled_s: float = SETTLED_S,
    ) -> None:
        self._logs = logs
        self._say = say
        self._liveness = liveness or Liveness()
        self._settled_s = settled_s
        self._groups: list[list[asyncio.Task[None]]] = []
        self._hurry = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the children, those started last first, and wait for each."""
        for group in reversed(self._groups):
            for task in group:
                task.cancel()
            await asyncio.gather(*group, return_exceptions=True)  # they reported by `wait` already

    def hurry(self) -> None:
        """Kill everything from now on: the second Ctrl-C."""
        self._hurry.set()

    async def start(self, *programs: SupervisedProgram) -> None:
        """Start these concurrently. Raises `ServerFailed` if one does not become ready."""
        children = [
            _Child(program, self._logs, self._say, self._hurry, self._liveness, self._settled_s)
            for program in programs
        ]
        group = [asyncio.create_task(child.keep(), name=child.name) for child in children]
        self._groups.append(group)
        for child, task in zip(children, group, strict=True):
            ready = asyncio.create_task(child.ready.wait())
            try:
                await asyncio.wait((ready, task), return_when=asyncio.FIRST_COMPLETED)
            finally:
                ready.cancel()
            if task.done():
                task.result()

    async def wait(self) -> None:
        """Never returns; raises the error of the first child that cannot be kept running."""
        tasks = [task for group in self._groups for task in group]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


class _Child:
    """One program and its current process."""

    def __init__(
        self,
        program: SupervisedProgram,
        logs: Path,
        say: Say,
        hurry: asyncio.Event,
        liveness: Liveness,
        settled_s: float,
    ) -> None:
        self.name = program.name
        self.ready = asyncio.Event()
        self._program = program
        self._say = say
        self._hurry = hurry
        self._liveness = liveness
        self._settled_s = settled_s
        self._log = RotatingLog(logs / f"{program.name}.log")
        self._deaths = 0

    async def keep(self) -> None:
        """Run the program until cancelled. Raises `ServerFailed` if it cannot be started."""
        tries = 0
        try:
            while True:
                started_s = clock.monotonic_s()
                end = await self._run_once()
                settled = clock.monotonic_s() - started_s > self._settled_s
                tries += 1
                if not self.ready.is_set():
                    self._check_first_start(end, tries)
                self._deaths = 0 if settled else min(self._deaths + 1, DEATHS_COUNTED_MAX)
                self._say(f"{self.name} {end.text}; starting it again (log: {self._log.path})")
                await asyncio.sleep(min(PAUSE_S_MAX, PAUSE_S * 2**self._deaths))
        finally:
            self._log.close()

    def _check_first_start(self, end: "_End", tries: int) -> None:
        """Raises `ServerFailed` if another start after this one would not help."""
        log = self._log.path
        if end.code == EXIT_SETTINGS:
            raise ServerFailed(f"{self.name} cannot be started: {read_tail(log, lines=1)}")
        if tries == FIRST_STARTS_MAX:
            raise ServerFailed(
                f"{self.name} cannot be started: it {end.text}. Its log {log} ends:\n"
                + read_tail(log)
            )

    async def _run_once(self) -> "_End":
        """Run one process from its preparation to its end."""
        await asyncio.to_thread(self._program.prepare)
        process = spawn(self._program.command(), subprocess.PIPE)
        pump = asyncio.create_task(self._pump(process))
        try:
            end = asyncio.create_task(wait_until_ended(process))
            try:
                if not await self._until_ready(process, end):
                    return _End(f"was not ready within {self._program.ready_s:.0f} s")
                if not end.done():
                    self._note_ready()
                if await self._is_hung(end):
                    process.kill()  # the only signal that a stopped process obeys
                    await end
                    failures = self._liveness.failures_max
                    return _End(f"did not answer {failures} probes in a row and was killed")
                return _describe_end(await end)
            finally:
                end.cancel()
        finally:
            await self._end(process)
            await asyncio.wait((pump,), timeout=LAST_OUTPUT_S_MAX)
            pump.cancel()  # a grandchild may hold the pipe open

    def _note_ready(self) -> None:
        if self.ready.is_set():
            self._say(f"{self.name} runs again")
        self.ready.set()

    async def _until_ready(
        self, process: "subprocess.Popen[bytes]", end: asyncio.Task[int]
    ) -> bool:
        """True if it is ready or has ended, False if it takes too long.

        A restart does not help a child that answers and was ready before, or that recovers: a
        server that it needs is unavailable. The supervisor waits for it.
        """
        first_s = self._program.ready_s
        patience_s = max(first_s, AGAIN_S) if self.ready.is_set() else first_s
        deadline_s = clock.monotonic_s() + patience_s
        pause_s = PROBE_S
        while not end.done():
            if await asyncio.to_thread(self._program.is_ready, process.pid):
                return True
            if clock.monotonic_s() > deadline_s:
                is_patient = self._program.recovers or self.ready.is_set()
                if not is_patient or not await self._program.answers(self._liveness.answer_s):
                    return False
                self._say(f"{self.name} answers but is not ready yet (log: {self._log.path})")
                deadline_s = clock.monotonic_s() + self._program.ready_s
            await asyncio.wait((end,), timeout=pause_s)
            pause_s = min(PROBE_S_MAX, pause_s * 1.2)
        return True

    async def _is_hung(self, end: asyncio.Task[int]) -> bool:
        """Probe it for as long as it answers; returns False when it has ended."""
        failures = ProbeFailures(self._liveness)
        while True:
            await asyncio.wait((end,), timeout=self._liveness.every_s)
            if end.done():
                return False
            began_s = clock.monotonic_s()
            answered = await self._program.answers(self._liveness.answer_s)
            if failures.note(answered, clock.monotonic_s() - began_s) and not end.done():
                return True

    async def _pump(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        output = Output(self.name, self._log, self._say)
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), process.stdout
        )
        try:
            while data := await reader.read(PIECE_BYTES):
                output.feed(data, clock.monotonic_s())
        finally:
            transport.close()

    async def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Request its end; kill it if that takes too long, or after the second Ctrl-C."""
        if process.poll() is not None:
            return
        command = self._program.command()
        process.send_signal(command.stop_signal)
        end = asyncio.create_task(wait_until_ended(process))
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait(
            (end, hurry), timeout=command.stop_s, return_when=asyncio.FIRST_COMPLETED
        )
        hurry.cancel()
        if not end.done():
            if not self._hurry.is_set():
                self._say(f"{self.name} did not end within {command.stop_s:.0f} s; killing it")
            process.kill()
        await end


class _End(NamedTuple):
    """How a process ended. `code`: its exit code, negative for a signal; None if it was killed."""

    text: str
    code: int | None = None


def _describe_end(code: int) -> _End:
    text = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return _End(text, code)
