"""Fairlead's own services as children: `python -m MODULE`, settings by environment variables."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fairlead_standalone.processes import liveness
from fairlead_standalone.processes.child_process import Command

PROBE_S_MAX: Final = 3.0
READY_S: Final = 3_600.0
"""A start can wait for a database, or migrate tables of an earlier version: about a minute for a
million jobs."""
STOP_S: Final = 10.0


class Service:
    """A `child_process.Program`: ready when `/readyz` returns 200."""

    ready_s = READY_S
    recovers = False

    def __init__(
        self,
        name: str,
        module: str,
        *,
        port: int,
        settings: Mapping[str, str],
        folder: Path,
        inherit: Sequence[int] = (),
        stop_s: float = STOP_S,
    ) -> None:
        self.name = name
        self.port = port
        self._module = module
        self._settings = settings
        self._folder = folder
        self._inherit = tuple(inherit)
        self._stop_s = stop_s

    def prepare(self) -> None:
        """Does nothing: each service creates its tables and topics itself."""

    def command(self) -> Command:
        """The module as a program. `-P`: without modules of the current folder."""
        own = {
            **self._settings,
            "FAIRLEAD_HTTP_HOST": "127.0.0.1",
            "FAIRLEAD_HTTP_PORT": str(self.port),
            "PYTHONUNBUFFERED": "1",
        }
        return Command(
            argv=(sys.executable, "-P", "-m", self._module),
            env={**os.environ, **own},
            cwd=self._folder,
            inherit=self._inherit,
            stop_s=self._stop_s,
        )

    def is_ready(self, pid: int) -> bool:
        """Whether the service on its port is ready."""
        return is_ready(self.port)

    async def answers(self, answer_s: float) -> bool:
        """Whether its event loop reacts."""
        return await liveness.answers(self.port, _request("/healthz", self.port), answer_s)


def is_ready(port: int) -> bool:
    """Whether `GET /readyz` on this port of 127.0.0.1 is answered with 200."""
    try:
        with socket.create_connection(("127.0.0.1", port), PROBE_S_MAX) as connection:
            connection.sendall(_request("/readyz", port))
            return connection.recv(64).split()[1:2] == [b"200"]
    except OSError:
        return False


def _request(path: str, port: int) -> bytes:
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    return head.encode()
