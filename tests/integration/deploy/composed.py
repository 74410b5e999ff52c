"""The containers of docker-compose.yml as processes of this machine, without a container engine.

Each service is started with the command and variables of its image, and those of the compose file
over them; Postgres, Kafka and Caddy get what the compose file says to theirs. Only addresses and
folders differ: names of hosts become loopback addresses of a network of their own (`127.x.y.*`).
"""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import SETTINGS_OF_TESTS, Postgres
from fairlead_standalone.servers.embedded_valkey import Valkey
from tests.conftest import ROOT, blocking, create_database
from tests.integration.deploy import files
from tests.integration.deploy.containers import Caddy, Container, Installation, caddy_program
from tests.kafka_broker import KafkaBroker

SCALED: Final = "submit"
OF_THE_NETWORK: Final = ("LISTENER", "QUORUM", "NODE_ID", "PROCESS_ROLES", "LOG_DIRS")
"""Parts of Kafka's variables that the broker of tests says for itself."""


class Composed(Installation):
    """All that `docker compose up --scale submit=2` starts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, [f"{SCALED}-1", f"{SCALED}-2", "scheduler", "executor", "lookout"])
        self._compose = files.compose()
        self.gateway_address = f"{self._network}.10"
        self._variables = {
            name: secrets.token_hex(24) for name in files.variables(files.EXAMPLE_ENV)
        }

    def _start(self) -> None:
        servers = self._start_servers()
        for name in self._hosts:
            self.containers[name] = self._container(name, servers)
            self._run(self.containers[name], name)
        upstreams: dict[str, list[str]] = {}
        for name, host in self._hosts.items():
            upstreams.setdefault(name.partition("-")[0], []).append(host)
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        configuration = self._adapted_caddyfile(port, upstreams)
        self._run(Caddy(self._folder / "gateway", port, configuration), "gateway")

    def _adapted_caddyfile(self, port: int, upstreams: Mapping[str, list[str]]) -> dict[str, Any]:
        """The configuration that Caddy makes of the Caddyfile, with our addresses."""
        words = [caddy_program(), "adapt", "--config", str(ROOT / "deploy" / "Caddyfile")]
        done = subprocess.run(words, capture_output=True, check=True, timeout=60)

        def placed(part: Any) -> Any:
            """The same with our addresses. `Any`: JSON at every depth."""
            match part:
                case {"handler": "reverse_proxy", "upstreams": [{"dial": str(dial)}]}:
                    service, _, its_port = dial.partition(":")
                    at = [{"dial": f"{address}:{its_port}"} for address in upstreams[service]]
                    transport = {"protocol": "http", "local_address": self.gateway_address}
                    return {**part, "upstreams": at, "transport": transport}
                case {"listen": [":8080"]}:
                    rest = {name: placed(item) for name, item in part.items()}
                    return {**rest, "listen": [f"127.0.0.1:{port}"]}
                case {"root": "/srv"} | {"handler": "vars", "root": "/srv"}:
                    return {**part, "root": str(ROOT / "docs")}
                case dict():
                    return {name: placed(item) for name, item in part.items()}
                case list():
                    return [placed(item) for item in part]
                case _:
                    return part

        adapted: dict[str, Any] = placed(json.loads(done.stdout))
        return adapted

    def _start_servers(self) -> dict[str, str]:
        """Kafka, Postgres and Valkey; `host:port` as the compose file has them, and ours."""
        kafka = KafkaBroker(self._folder / "kafka", settings=self._kafka_settings())
        postgres = Postgres(
            self._folder / "postgres",
            password=self._variables["FAIRLEAD_POSTGRES_PASSWORD"],
            port=free_port(),
            settings={**SETTINGS_OF_TESTS, **self._postgres_settings()},
        )
        valkey = Valkey(
            self._folder,
            password=self._variables["FAIRLEAD_REDIS_PASSWORD"],
            port=free_port(),
        )
        self._run(kafka, "kafka")
        self._run(postgres, "postgres")
        self._run(valkey, "valkey")
        database = str(self._compose.services["postgres"].environment["POSTGRES_DB"])
        blocking(create_database(postgres.url(), database))
        return {
            "kafka:9092": f"127.0.0.1:{kafka.port}",
            "postgres:5432": f"127.0.0.1:{postgres.port}",
            "valkey:6379": f"127.0.0.1:{valkey.port}",
        }

    def _kafka_settings(self) -> dict[str, str]:
        """`KAFKA_A_B` is `a.b`, as the image has it."""
        return {
            name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
            for name, value in self._compose.services["kafka"].environment.items()
            if name.startswith("KAFKA_") and not any(part in name for part in OF_THE_NETWORK)
        }

    def _postgres_settings(self) -> dict[str, str]:
        program, *words = self._compose.services["postgres"].command
        assert program == "postgres"
        assert set(words[::2]) == {"-c"}
        return dict(setting.split("=", 1) for setting in words[1::2])

    def _container(self, name: str, servers: Mapping[str, str]) -> Container:
        """A container with what its image and the compose file say."""
        service = name.partition("-")[0]
        given = {**files.image_environment(service)}
        given |= {
            variable: self._filled(str(value))
            for variable, value in self._compose.services[service].environment.items()
        }
        places = {
            **servers,
            "http://executor:8080": f"http://{self._hosts['executor']}:8080",
            '"executor"': f'"{self._hosts["executor"]}"',
            files.gateway_address(): self.gateway_address,
            "0.0.0.0": self._hosts[name],
            "/var/lib/fairlead": str(self._folder / "runs"),
            "/app/.venv/bin": str(Path(sys.executable).parent),
            "/var/cache/fairlead": os.environ["NUMBA_CACHE_DIR"],
        }
        for variable, value in given.items():
            for from_, to in places.items():
                value = value.replace(from_, to)
            given[variable] = value
        program, *words = files.command(service)
        # What the engine sets besides: the container's name, and a home.
        given |= {"HOSTNAME": name, "HOME": str(self._folder)}
        assert program == "python"
        return Container(name, self._hosts[name], (sys.executable, *words), given)

    def _filled(self, text: str) -> str:
        for name, value in self._variables.items():
            text = text.replace(f"${{{name}:?write it into .env}}", value)
        assert "${" not in text
        return text
