"""The gateway of the compose file sends every route to the service that has it."""

import re
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from tests.conftest import ROOT
from tests.integration.deploy.conftest import Routes

CADDYFILE: Final = ROOT / "deploy" / "Caddyfile"


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


async def test_every_route_reaches_its_service(services: Routes) -> None:
    gateway = Gateway(CADDYFILE.read_text())
    wrong = {
        (method, path, service, gateway.target(method, path))
        for service, its in services.items()
        for method, path in its
        if gateway.target(method, path) != service
    }
    assert not wrong


def test_the_gateway_does_not_expose_metrics() -> None:
    assert Gateway(CADDYFILE.read_text()).target("GET", "/metrics") == "404"
