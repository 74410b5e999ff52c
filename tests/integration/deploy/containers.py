"""Containers as processes of this machine: a service of its image, and Caddy as a gateway."""

import http.client
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

from fairlead_standalone.processes.child_process import Command

READY_S: Final = 120.0
STOP_S: Final = 30.0
PROBE_S: Final = 3.0


class Container:
    """A `child_process.Program`: one service in one container, at port 8080 of `address`."""

    ready_s = READY_S

    def __init__(
        self, name: str, address: str, argv: tuple[str, ...], environment: dict[str, str]
    ) -> None:
        self.name = name
        self.address = address
        self.environment = environment
        self._argv = argv

    def prepare(self) -> None:
        """Nothing: the image is built."""

    def command(self) -> Command:
        """The image's command."""
        return Command(argv=self._argv, env=self.environment, stop_s=STOP_S)

    def is_ready(self, pid: int) -> bool:
        """What the image's HEALTHCHECK asks."""
        connection = http.client.HTTPConnection(self.address, 8080, timeout=PROBE_S)
        try:
            connection.request("GET", "/readyz", headers={"Host": "127.0.0.1:8080"})
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


class Caddy:
    """A `child_process.Program`: Caddy at `port` of 127.0.0.1, its files below `folder`.

    `configuration` is Caddy's own, which listens there. `Any`: JSON at every depth.
    """

    name = "gateway"
    ready_s = 30.0

    def __init__(self, folder: Path, port: int, configuration: dict[str, Any]) -> None:
        self.port = port
        self._folder = folder
        self._configuration = configuration

    def prepare(self) -> None:
        """Write its configuration."""
        self._folder.mkdir(exist_ok=True)
        (self._folder / "caddy.json").write_text(json.dumps(self._configuration))

    def command(self) -> Command:
        """As an image of Caddy runs it."""
        return Command(
            argv=(caddy_program(), "run", "--config", str(self._folder / "caddy.json")),
            env={"HOME": str(self._folder), "PATH": os.defpath},
        )

    def is_ready(self, pid: int) -> bool:
        """Whether it accepts connections."""
        try:
            socket.create_connection(("127.0.0.1", self.port), PROBE_S).close()
        except OSError:
            return False
        return True


def caddy_program() -> str:
    """The path of Caddy, which is a dependency of the tests."""
    return str(Path(sys.executable).with_name("caddy"))
