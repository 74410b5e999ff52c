"""A whole installation as child processes, for tests and benches: what `fairlead up` does.

with StandaloneInstallation(folder) as standalone:
    standalone.start()               # returns when it answers
    ask(standalone.address, standalone.token)
    os.kill(standalone.child("scheduler").pid, signal.SIGKILL)
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import psutil

from fairlead_common.service import clock
from fairlead_standalone.processes.child_process import ServerFailed, die_with_parent
from fairlead_standalone.servers import fairlead_services
from fairlead_standalone.servers.addresses import free_port

START_S_MAX: Final = 120.0
STOP_S_MAX: Final = 60.0
POLL_S: Final = 0.05
TAIL: Final = 20
"""Last lines of each log that a failure shows."""
GREETING_END: Final = "Data and logs:"

KERNELS: Final = {"NUMBA_CACHE_DIR": str(Path.home() / ".cache" / "fairlead" / "numba")}
"""Kernels of the engine are compiled once for all tests: some seconds of two cores."""

PYTHON_ENGINE: Final = {"FAIRLEAD_KERNELS": "python"}
"""For tests that are not about scheduling: a start without numba and the compiled kernels takes a
quarter less processor time. It decides the same."""


class StandaloneInstallation:
    """`fairlead up --data FOLDER/data --port PORT ...`, ended when the `with` block is left.

    On Linux it also ends when the thread that started it ends, if this process is killed too.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        shared_unconfined: bool = True,
    ) -> None:
        if shared_unconfined:  # tests make tokens for others, also where jobs cannot be confined
            options = (*options, "--shared-unconfined")
        self.data = folder / "data"
        self.port = port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._options = options
        self._environment = {**KERNELS, **os.environ, **(environment or {})}
        self._printed = folder / "up.txt"
        self._printed_before = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is not None:
            sys.stderr.write(self.report)  # a test runner shows it below the failure
        if self._process is not None and self._process.poll() is None:
            self.interrupt()

    @property
    def words(self) -> Sequence[str]:
        """The command line."""
        own = str(Path(sys.executable).with_name("fairlead"))
        return [own, "up", "--data", str(self.data), "--port", str(self.port), *self._options]

    @property
    def token(self) -> str:
        """The first token."""
        return (self.data / "token").read_text().strip()

    @property
    def printed(self) -> str:
        """What was printed until now, in all starts."""
        return self._printed.read_text()

    @property
    def report(self) -> str:
        """What was printed, and the last lines of each log, for a failed test."""
        logs = sorted((self.data / "logs").glob("*.log"))
        tails = {log.stem: log.read_text(errors="replace").splitlines()[-TAIL:] for log in logs}
        parts = [f"{name}:\n" + "\n".join(lines) for name, lines in tails.items()]
        return "\n\n".join([self.printed, *parts])

    @property
    def supervisor(self) -> psutil.Process:
        """The process that was started."""
        assert self._process is not None, "not started"
        return psutil.Process(self._process.pid)

    def child(self, name: str) -> psutil.Process:
        """`postgres`, `valkey`, `web`, `scheduler` or `executor`, as it runs now."""
        wanted = {"web": "fairlead_standalone.service.web"}.get(name, name)
        for process in self.supervisor.children():
            try:
                words = process.cmdline()
            except psutil.NoSuchProcess:
                continue  # it has just ended
            if any(word in (wanted, f"fairlead_{wanted}") for word in words) or (
                words and Path(words[0]).name.startswith(wanted)
            ):
                return process
        raise AssertionError(f"no child {name} among {self.supervisor.children()}")

    def start(self) -> None:
        """Start, and return when it answers. Raises `ServerFailed` with what it printed."""
        self._printed_before = len(self.printed) if self._printed.exists() else 0
        with self._printed.open("ab") as output:
            self._process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),
            )
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until every service is ready and the whole greeting is printed."""
        assert self._process is not None, "not started"
        deadline_s = clock.monotonic_s() + START_S_MAX
        while not (self._is_greeted() and fairlead_services.is_ready(self.port)):
            if self._process.poll() is not None or clock.monotonic_s() > deadline_s:
                raise ServerFailed(f"`fairlead up` is not ready:\n{self.report}")
            time.sleep(POLL_S)

    def _is_greeted(self) -> bool:
        return GREETING_END in self.printed[self._printed_before :]

    def wait_for(self, happened: Callable[[], bool]) -> None:
        """Wait for the condition. Raises `ServerFailed` with the output if it does not become
        true."""
        try:
            wait_for(happened)
        except TimeoutError:
            raise ServerFailed(f"it never happened:\n{self.report}") from None

    def interrupt(self) -> int:
        """Ctrl-C; returns the exit code. Kills it when that takes too long, and says so."""
        assert self._process is not None, "not started"
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ServerFailed(f"`fairlead up` did not end:\n{self.report}") from None

    def kill(self) -> None:
        """`kill -9` of the supervisor."""
        assert self._process is not None, "not started"
        self._process.kill()
        self._process.wait()


def wait_for(
    happened: Callable[[], bool], seconds: float = START_S_MAX, poll_s: float = POLL_S
) -> None:
    """Wait for the condition. Raises TimeoutError if it does not become true."""
    deadline_s = clock.monotonic_s() + seconds
    while not happened():
        if clock.monotonic_s() > deadline_s:
            raise TimeoutError(f"it did not happen within {seconds:.0f} s")
        time.sleep(poll_s)


def memory_bytes(process: psutil.Process) -> int:
    """The process's share of memory (PSS): pages used by several count in parts."""
    return int(process.memory_full_info().pss)
