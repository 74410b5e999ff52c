"""The executor's side of the fork server that starts runners: a pipe for requests.

Runners continue when the fork server ends. The executor then prevents the start of runs that it had
requested and that no runner has claimed.
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

CHUNK_BYTES: Final = 64 * 1024

_logger = logging.getLogger("fairlead.executor")
_encoder: Final = msgspec.json.Encoder()


class Request(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A run to start. `cwd` "": a scratch folder of the run. `cgroup` "": no control group.

    `memory_bytes`: the limit that the executor enforces, 0 for no limit. The last fields
    describe how the command is confined: see `Plan` in `confinement/child.py`. `readable`: folders
    of the run that it only reads.
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
    readable: Sequence[str] = ()


class Failure(msgspec.Struct, frozen=True):
    """A run that no runner could claim."""

    run: RunId
    error: str


_failures: Final = msgspec.json.Decoder(Failure)


class ForkServer:
    """Starts the server process with the first request; calls `on_end` when the process ends."""

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
        """The process id of the server; None while it does not run."""
        return None if self._process is None else self._process.pid

    def start(self, requests: list[Request]) -> None:
        """Send these requests; those that do not fit into the pipe are buffered."""
        process = self._process or self._spawn()
        assert process.stdin is not None
        idle = not self._unsent
        self._unsent += b"".join([_encoder.encode(request) + b"\n" for request in requests])
        if idle and self._unsent:
            self._send()

    def close(self) -> None:
        """End the server; runners continue."""
        process, self._process = self._process, None
        if process is not None:
            self._close_pipes(process)
            process.wait()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        lifeline = -1 if self._lifeline is None else self._lifeline
        command = [sys.executable, "-I", "-S", runner.__file__, str(lifeline), str(self._notices)]
        command.append(self._confinement)
        # Not asyncio's: its child watcher waits for every child; this child ends with its pipe.
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
            return  # `_receive` detects the end on the other pipe
        loop.remove_writer(descriptor)

    def _receive(self) -> None:
        process = self._process
        if process is None or process.stdout is None:
            return
        try:
            data = os.read(process.stdout.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._handle_end(process)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._on_failure(_failures.decode(line))

    def _handle_end(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = None
        self._unsent.clear()
        self._close_pipes(process)
        code = process.wait()
        _logger.error("the fork server ended with %s; the next run starts a new one", code)
        self._on_end()

    def _close_pipes(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(process.stdout.fileno())
        loop.remove_writer(process.stdin.fileno())
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
