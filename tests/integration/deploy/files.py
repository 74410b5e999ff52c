"""Reads docker-compose.yml, Dockerfiles and the gateway's routes, for tests without an engine."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import yaml

from tests.conftest import ROOT

COMPOSE: Final = ROOT / "docker-compose.yml"
EXAMPLE_ENV: Final = ROOT / "deploy" / "example.env"
SERVICES: Final = ("submit", "scheduler", "executor", "lookout")


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    context: str
    dockerfile: str


class Container(msgspec.Struct, frozen=True):
    """What the tests look at of one service of the compose file."""

    image: str | None = None
    build: Build | None = None
    command: list[str] = []
    container_name: str | None = None
    stop_grace_period: str | None = None
    networks: dict[str, dict[str, str]] = {}
    environment: dict[str, str | int] = {}
    ports: list[str] = []
    volumes: list[str] = []
    healthcheck: dict[str, object] | None = None
    depends_on: dict[str, object] | list[str] = []


class Subnet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subnet: str
    gateway: str
    ip_range: str


class Ipam(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    config: list[Subnet]


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ipam: Ipam


class Compose(msgspec.Struct, frozen=True):
    name: str
    services: dict[str, Container]
    volumes: dict[str, None]
    networks: dict[str, Network]


class Instruction(msgspec.Struct, frozen=True):
    """One line of a Dockerfile (continued lines are joined), with the stage that it belongs to."""

    stage: int
    word: str
    rest: str


def compose() -> Compose:
    return msgspec.convert(yaml.safe_load(COMPOSE.read_text()), Compose)


def gateway_address() -> str:
    """The address of the gateway in the network of the compose file."""
    return compose().services["gateway"].networks["default"]["ipv4_address"]


def dockerfile(service: str) -> list[Instruction]:
    text = (ROOT / "services" / service / "Dockerfile").read_text().replace("\\\n", " ")
    stage = -1
    instructions = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        stage += word == "FROM"
        instructions.append(Instruction(stage, word, rest.strip()))
    return instructions


def copied(service: str) -> list[tuple[str, str]]:
    """(source, target) of what an image takes from the repository."""
    pairs = []
    for line in dockerfile(service):
        if line.word == "COPY" and not line.rest.startswith("--from"):
            *sources, target = line.rest.split()
            pairs += [(source, target) for source in sources]
    return pairs


def image_environment(service: str) -> dict[str, str]:
    lines = [line.rest for line in dockerfile(service) if line.word == "ENV"]
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def command(service: str) -> list[str]:
    (line,) = [line.rest for line in dockerfile(service) if line.word == "CMD"]
    words: list[str] = json.loads(line)
    return words


def placeholders(text: str) -> set[str]:
    """The variables that a person must set for the compose file."""
    return set(re.findall(r"(?<!\$)\$\{(\w+)", text))


def variables(file: Path) -> Mapping[str, str]:
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
