"""The fork server that starts runners, as the executor sees it: a pipe to write requests to.

It is a child that nothing depends on: runners outlive it, and what it had not begun when it died
is found out by ruling it out.
"""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead_common.domain.ids import RunId
from fairlead_executor.backends.process import runner

PIECE_BYTES: Final = 64 * 1024

_logger = logging.getLogger("fairlead.executor")
_encoder: Final = msgspec.json.Encoder()


class Request(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What a runner is told. `cwd` "": a scratch folder of the run. `cgroup` "": none.

    `memory_bytes`: what the run may use, 0 for no limit; the executor watches that. The last four
    say how the command is confined: see `Plan` in `confinement/child.py`.
    """

    run: RunId
    folder: str
    argv: list[str]
    env: dict[str, str]
    grace_s: int
    memory_bytes: int
    cwd: str = ""
    cgroup: str = ""
    confinement: str = "off"
    closed: Sequence[str] = ()
    user: tuple[int, int, Sequence[int]] | None = None
    cpus: Sequence[int] = ()


class Failure(msgspec.Struct, frozen=True):
    """A runner that could not even begin."""

    run: RunId
    error: str


_failures: Final = msgspec.json.Decoder(Failure)


class ForkServer:
    """Starts the server process when there is something to start; `on_end` says that it died."""

    def __init__(
        self,
        notices: Path,
        lifeline: int | None,
        confinement: str,
        on_failure: Callable[[Failure], None],
        on_end: Callable[[], None],
    ) -> None:
        self._notices = notices
        self._lifeline = lifeline
        self._confinement = confinement
        self._on_failure = on_failure
        self._on_end = on_end
        self._process: subprocess.Popen[bytes] | None = None
        self._unsent = bytearray()
        self._rest = b""

    @property
    def pid(self) -> int | None:
        """The process id of the server while there is one."""
        return None if self._process is None else self._process.pid

    def start(self, requests: list[Request]) -> None:
        """Ask for these runners; what does not fit into the pipe waits here."""
        process = self._process or self._spawn()
        assert process.stdin is not None
        idle = not self._unsent
        self._unsent += b"".join([_encoder.encode(request) + b"\n" for request in requests])
        if idle and self._unsent:
            self._send()

    def close(self) -> None:
        """Let the server end; runners go on."""
        process, self._process = self._process, None
        if process is not None:
            self._let_go(process)
            process.wait()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        lifeline = -1 if self._lifeline is None else self._lifeline
        command = [sys.executable, "-I", "-S", runner.__file__, str(lifeline), str(self._notices)]
        command.append(self._confinement)
        # Not asyncio's: its child watcher wants to know of every child; this one ends by its pipe.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={},
            pass_fds=() if self._lifeline is None else (self._lifeline,),
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        os.set_blocking(process.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(process.stdout.fileno(), self._receive)
        self._process, self._rest = process, b""
        return process

    def _send(self) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        descriptor = process.stdin.fileno()
        loop = asyncio.get_running_loop()
        try:
            while self._unsent:
                del self._unsent[: os.write(descriptor, self._unsent)]
        except BlockingIOError:
            loop.add_writer(descriptor, self._send)
            return
        except BrokenPipeError:
            return  # its end shows on the other pipe
        loop.remove_writer(descriptor)

    def _receive(self) -> None:
        process = self._process
        if process is None or process.stdout is None:
            return
        try:
            data = os.read(process.stdout.fileno(), PIECE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._died(process)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_failure(_failures.decode(line))

    def _died(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = None
        self._unsent.clear()
        self._let_go(process)
        code = process.wait()
        _logger.error("the fork server ended with %s; starting another when needed", code)
        self._on_end()

    def _let_go(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(process.stdout.fileno())
        loop.remove_writer(process.stdin.fileno())
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
