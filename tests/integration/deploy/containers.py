"""Containers as processes of this machine: a service of its image, and Caddy as a gateway."""

import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from fairlead_standalone.processes.child_process import Command, Program, RunningProcess
from tests.conftest import ROOT

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


class Installation:
    """Containers that run together until the end of the block, on loopback addresses of a network
    of their own (`127.x.y.*`). `address`: the URL of their gateway.
    """

    address: str

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.containers: dict[str, Container] = {}
        self.running: dict[str, RunningProcess] = {}
        self._folder = folder
        self._stack = ExitStack()
        self._network = f"127.{secrets.randbelow(200) + 30}.{secrets.randbelow(200) + 30}"
        self._hosts = {name: f"{self._network}.{at + 11}" for at, name in enumerate(names)}

    def __enter__(self) -> Self:
        with ExitStack() as started:
            started.push(self._stack)
            self._start()
            started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def exec(self, container: str, *words: str) -> str:
        """`docker compose exec` or `kubectl exec`: what the command prints."""
        assert words[0] == "python"
        done = subprocess.run(
            [sys.executable, *words[1:]],
            env=self.containers[container].environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=60,
        )
        return done.stdout.strip()

    def _start(self) -> None:
        """Start the containers and the gateway."""
        raise NotImplementedError

    def _run(self, program: Program, name: str) -> None:
        running = self._stack.enter_context(RunningProcess(program, self._folder / f"{name}.log"))
        running.start()
        self.running[name] = running


def caddy_program() -> str:
    """The path of Caddy, which is a dependency of the tests."""
    return str(Path(sys.executable).with_name("caddy"))
