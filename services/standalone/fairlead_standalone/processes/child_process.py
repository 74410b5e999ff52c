"""Starts child processes that never outlive the process that started them.

On Linux the kernel sends each child a signal when its parent ends, also after `kill -9` of the
parent. This is bound to the *thread* that started the child, so `spawn` is called from a thread
that lives as long as the child: the main one. Children get a session of their own: a Ctrl-C on the
terminal reaches the supervisor only, which ends them in order.
"""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final, Protocol, Self, TypeAlias

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.service import clock

Output: TypeAlias = "int | IO[bytes]"

POLL_S: Final = 0.05
TAIL_BYTES: Final = 8192
_PR_SET_PDEATHSIG: Final = 1


class ServerFailed(WorldError):
    """A server program is not installed or did not start; the message says why and what to do."""


class Identity(msgspec.Struct, frozen=True):
    """The user and group as which a child runs."""

    uid: int
    gid: int


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A program to run. All users can read `argv`: secrets belong into `env` or a file.

    `env` is the whole environment. The kernel sends `orphan_signal` to the child when its parent
    ends; `stop_signal` asks it to end in order within `stop_s`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    identity: Identity | None = None
    inherit: tuple[int, ...] = ()
    orphan_signal: int = signal.SIGKILL
    stop_signal: int = signal.SIGTERM
    stop_s: float = 10.0


class Program(Protocol):
    """A type of child: how to start it and how to check that it answers."""

    @property
    def name(self) -> str:
        """A short name, for its log file and messages."""
        ...

    @property
    def ready_s(self) -> float:
        """The maximum time until it is ready, in seconds."""
        ...

    def prepare(self) -> None:
        """Called before every start: create its files, remove the leftovers of a crash. Blocks."""
        ...

    def command(self) -> Command:
        """The command to run."""
        ...

    def is_ready(self, pid: int) -> bool:
        """Whether the child with this process id is ready. Blocks for at most a second."""
        ...


class SupervisedProgram(Program, Protocol):
    """A program that a supervisor keeps running and replaces when it hangs."""

    @property
    def recovers(self) -> bool:
        """Whether it is allowed to take longer than `ready_s` for as long as it answers."""
        ...

    async def answers(self, answer_s: float) -> bool:
        """Whether the process reacts to a cheap request within `answer_s`."""
        ...


def spawn(command: Command, output: Output) -> "subprocess.Popen[bytes]":
    """Start the command; both its outputs go to `output`."""
    identity = command.identity
    try:
        return subprocess.Popen(  # Popen, not asyncio's: tests start servers without a loop
            command.argv,
            env=dict(command.env),
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=command.inherit,
            start_new_session=True,
            user=identity.uid if identity else None,
            group=identity.gid if identity else None,
            extra_groups=[] if identity else None,
            preexec_fn=die_with_parent(command.orphan_signal),
        )
    except OSError as error:
        raise ServerFailed(f"{command.argv[0]} cannot be started: {error}") from error


def die_with_parent(number: int) -> Callable[[], None] | None:
    """What a child that gets this signal when its parent ends does between fork and exec, where
    only few calls are safe. None: not Linux.

    Programs that a script starts in the background ignore Ctrl-C; children must not inherit that.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def arrange() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
            os._exit(126)
        if os.getppid() != parent:  # it ended between the fork and the line above
            os._exit(126)

    return arrange


async def wait_until_ended(process: "subprocess.Popen[bytes]") -> int:
    """Wait until the process has ended; its exit code, negative for a signal."""
    if sys.platform == "linux":
        await _readable(os.pidfd_open(process.pid))
    else:
        while process.poll() is None:  # noqa: ASYNC110 (nothing else to wait for)
            await asyncio.sleep(POLL_S * 2)
    return process.wait()


async def _readable(descriptor: int) -> None:
    """Wait until there is something to read (for a pidfd: until the process ended); closes it."""
    loop = asyncio.get_running_loop()
    happened = asyncio.Event()
    loop.add_reader(descriptor, happened.set)
    try:
        await happened.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


class RunningProcess:
    """A started program for code without an event loop (tests, benches); `with` stops it."""

    def __init__(self, program: Program, log: Path) -> None:
        self._program = program
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the running child."""
        assert self._process is not None, f"{self._program.name} is not running"
        return self._process.pid

    def start(self) -> None:
        """Start and return when ready. Raises `ServerFailed` with the end of its log."""
        self._program.prepare()
        with self._log.open("ab") as output:
            process = self._process = spawn(self._program.command(), output)
        deadline = clock.monotonic_s() + self._program.ready_s
        while not self._program.is_ready(process.pid):
            if process.poll() is not None or clock.monotonic_s() > deadline:
                self.stop()
                raise ServerFailed(
                    f"{self._program.name} did not start; its log {self._log} ends:\n"
                    + read_tail(self._log)
                )
            time.sleep(POLL_S)

    def kill(self) -> None:
        """Kill it immediately, like a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Ask it to end, wait, and kill it if it does not end. Can be called twice."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        command = self._program.command()
        process.send_signal(command.stop_signal)
        try:
            process.wait(command.stop_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log file, or why they cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(the log cannot be read: {error})"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"
