"""The gateway of the compose file sends every route to the service that has it."""

import re
from collections.abc import AsyncIterator
from fnmatch import fnmatchcase
from typing import Final

import msgspec
import pytest
from fastapi import FastAPI

from fairlead_common.service.settings import Settings
from fairlead_common.web import server
from fairlead_lookout.service.service import Service as Lookout
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_submit.http import api
from fairlead_submit.service.service import Service as Submit
from fairlead_submit.service.settings import SubmitSettings
from tests.conftest import ROOT

CADDYFILE: Final = ROOT / "deploy" / "Caddyfile"
EXAMPLES: Final = {"queue": "physics", "job_set": "a/b"}


class Matcher(msgspec.Struct):
    """A named matcher: all methods when it says none."""

    methods: list[str]
    paths: list[str]

    def takes(self, method: str, path: str) -> bool:
        return (not self.methods or method in self.methods) and any(
            fnmatchcase(path, pattern) for pattern in self.paths
        )


class Gateway:
    """As much of a Caddyfile as ours uses: matchers, then `handle` blocks, the first of which
    that matches gets the request."""

    def __init__(self, text: str) -> None:
        self.matchers: dict[str, Matcher] = {}
        self.targets: list[tuple[str, str]] = []
        name = ""
        for line in (line.strip() for line in text.splitlines()):
            if found := re.match(r"@(\w+) path (.+)", line):
                self.matchers[found[1]] = Matcher([], found[2].split())
            elif found := re.match(r"@(\w+) \{", line):
                name = found[1]
                self.matchers[name] = Matcher([], [])
            elif found := re.match(r"(method|path) (.+)", line):
                matcher = self.matchers[name]
                (matcher.methods if found[1] == "method" else matcher.paths).extend(
                    found[2].split()
                )
            elif found := re.match(r"handle(?: @(\w+))? \{", line):
                name = found[1] or ""
            elif found := re.match(r"(?:import to|respond) (\S+)", line):
                self.targets.append((name, found[1]))

    def target(self, method: str, path: str) -> str:
        for name, target in self.targets:
            if not name or self.matchers[name].takes(method, path):
                return target
        raise AssertionError("the last block takes everything")


def routes(app: FastAPI) -> set[tuple[str, str]]:
    """(method, path) of all routes that the app describes."""
    return {
        (method.upper(), re.sub(r"\{(\w+)\}", lambda name: EXAMPLES.get(name[1], "x"), path))
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }


@pytest.fixture
async def services(
    fresh_database: str, valkey_url: str
) -> AsyncIterator[dict[str, set[tuple[str, str]]]]:
    """The routes of the two services that people reach."""
    urls = {"log_url": fresh_database, "database_url": fresh_database, "redis_url": valkey_url}
    of_submit = msgspec.structs.replace(SubmitSettings(), **urls)
    of_lookout = msgspec.structs.replace(LookoutSettings(), **urls)
    async with Submit.open(of_submit) as submit, await Lookout.open(of_lookout) as lookout:
        yield {
            "submit": routes(server.build_app("s", api.routers(submit), {}, Settings())),
            "lookout": routes(server.build_app("l", lookout.routers(), {}, Settings())),
        }


async def test_every_route_reaches_its_service(services: dict[str, set[tuple[str, str]]]) -> None:
    gateway = Gateway(CADDYFILE.read_text())
    assert ("POST", "/api/v1/jobs") in services["submit"]
    assert ("GET", "/api/v1/jobs") in services["lookout"]
    services["lookout"].add(("GET", "/"))  # pages are not described
    alike = services["submit"] & services["lookout"]  # health and the like: either may answer
    wrong = {
        (method, path, service, gateway.target(method, path))
        for service, its in services.items()
        for method, path in its - alike
        if gateway.target(method, path) != service
    }
    assert not wrong


def test_the_gateway_does_not_expose_metrics() -> None:
    assert Gateway(CADDYFILE.read_text()).target("GET", "/metrics") == "404"
