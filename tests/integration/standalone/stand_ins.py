"""Small programs that stand in for services, and a supervisor of them as a process of its own.

    python -m tests.integration.standalone.stand_ins FOLDER

starts two of them below a supervisor until it is told to end.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from fairlead_standalone.processes import liveness
from fairlead_standalone.processes.child_process import Command
from fairlead_standalone.processes.supervisor import Supervisor
from fairlead_standalone.servers.addresses import free_port

READY = """
import os, pathlib, signal, socket, sys, threading
name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
def note(text):
    with (folder / "notes").open("a") as notes:
        notes.write(f"{name} {text}\\n")
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
def listen():
    listener = socket.create_server(("127.0.0.1", int(sys.argv[3])))
    while True:
        connection = listener.accept()[0]
        blocked = folder / f"{name}.blocked"
        if blocked.exists():
            blocked.unlink()
            threading.Event().wait()
        connection.close()
threading.Thread(target=listen, daemon=True).start()
"""
SERVES = "(folder / f'{name}.ready').write_text(str(os.getpid())); ended.wait(); note('ended')\n"


class StandIn:
    """A `children.Watched` of some Python text; ready when it wrote its pid into a file."""

    def __init__(
        self,
        name: str,
        folder: Path,
        body: str = SERVES,
        ready_s: float = 30,
        stop_s: float = 30,
        recovers: bool = False,
    ) -> None:
        self.recovers = recovers
        self.port = free_port()
        self.name = name
        self.ready_s = ready_s
        self.mark = folder / f"{name}.ready"
        self._folder = folder
        self._body = body
        self._stop_s = stop_s

    def prepare(self) -> None:
        with (self._folder / "notes").open("a") as notes:
            notes.write(f"{self.name} started\n")

    def command(self) -> Command:
        return Command(
            argv=(
                sys.executable,
                "-c",
                READY + self._body,
                self.name,
                str(self._folder),
                str(self.port),
            ),
            env=dict(os.environ),
            stop_s=self._stop_s,
        )

    def is_ready(self, pid: int) -> bool:
        return self.pid() == pid

    async def answers(self, answer_s: float) -> bool:
        return await liveness.answers(self.port, b"", answer_s)

    def pid(self) -> int | None:
        """The pid that it wrote last."""
        text = self.mark.read_text() if self.mark.exists() else ""
        return int(text) if text else None


async def supervise(folder: Path) -> None:
    loop = asyncio.get_running_loop()
    notified = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, notified.set)
    async with Supervisor(folder, lambda text: print(text, flush=True)) as children:  # noqa: T201
        await children.start(StandIn("one", folder), StandIn("two", folder))
        print("ready", flush=True)  # noqa: T201
        await notified.wait()


if __name__ == "__main__":
    asyncio.run(supervise(Path(sys.argv[1])))
