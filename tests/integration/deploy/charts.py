"""Renders the Helm chart, and reads what it makes, without a cluster."""

import functools
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from tests.conftest import ROOT
from tests.go_programs import HELM, ProgramsUnavailable

CHART: Final = ROOT / "deploy" / "chart"
RELEASE: Final = "fl"
NAMESPACE: Final = "fairlead"
VALUES: Final = {"gateway": {"className": "example"}, "hosts": ["fairlead.example.com"]}

Object = dict[str, Any]
"""A Kubernetes object. `Any`: JSON."""


class PathMatch(msgspec.Struct, frozen=True):
    """The `path` of a match."""

    type: str
    value: str


class Match(msgspec.Struct, frozen=True):
    """One match of a rule of an HTTPRoute: all methods when it names none."""

    path: PathMatch
    method: str = ""

    def takes(self, method: str, path: str) -> bool:
        if self.method not in ("", method):
            return False
        match self.path.type:
            case "Exact":
                return path == self.path.value
            case "RegularExpression":
                return re.fullmatch(self.path.value, path) is not None
            case _:
                prefix = self.path.value.rstrip("/")
                return path == prefix or path.startswith(f"{prefix}/")

    @property
    def rank(self) -> tuple[int, int, bool]:
        """The match with the greatest rank gets a request, as the Gateway API says; where it
        leaves it to the gateway, a regular expression comes before a prefix."""
        kinds = ("PathPrefix", "RegularExpression", "Exact")
        return kinds.index(self.path.type), len(self.path.value), self.method != ""


class Rule(msgspec.Struct, frozen=True):
    """A match with what follows from it. `rewrite`: the path that the service sees instead."""

    match: Match
    service: str
    rewrite: str | None


def helm() -> Path:
    """Helm. Skips the test with the reason where it has not been built."""
    try:
        return HELM.find() / "helm"
    except ProgramsUnavailable as error:
        pytest.skip(f"no Helm: {error}")


def run_helm(*words: str, values: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(helm()), *words, "--values", "-"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def render(**values: object) -> list[Object]:
    """The objects of the chart with these values over `VALUES`."""
    return list(_render(json.dumps({**VALUES, **values})))


@functools.cache
def _render(values: str) -> Sequence[Object]:
    words = ("template", RELEASE, str(CHART), "--namespace", NAMESPACE)
    done = run_helm(*words, values=json.loads(values))
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def named(objects: Sequence[Object], kind: str, name: str) -> Object:
    """The object with this name in the release."""
    (found,) = [
        item
        for item in objects
        if item["kind"] == kind and item["metadata"]["name"] == f"{RELEASE}-{name}"
    ]
    return found


def of_kind(objects: Sequence[Object], kind: str) -> dict[str, Object]:
    """Name without the release -> object."""
    return {
        item["metadata"]["name"].removeprefix(f"{RELEASE}-"): item
        for item in objects
        if item["kind"] == kind
    }


def container(deployment: Object) -> Object:
    """The one container of a Deployment."""
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def rules(objects: Sequence[Object]) -> list[Rule]:
    """The rules of the route, the one that gets a request before others first."""
    (route,) = of_kind(objects, "HTTPRoute").values()
    found = []
    for rule in route["spec"]["rules"]:
        (backend,) = rule["backendRefs"]
        rewrites = [item["urlRewrite"]["path"] for item in rule.get("filters", [])]
        rewrite = rewrites[0]["replaceFullPath"] if rewrites else None
        service = backend["name"].removeprefix(f"{RELEASE}-")
        found += [Rule(msgspec.convert(m, Match), service, rewrite) for m in rule["matches"]]
    return sorted(found, key=lambda rule: rule.match.rank, reverse=True)


def target(objects: Sequence[Object], method: str, path: str) -> Rule:
    """The rule that gets a request."""
    return next(rule for rule in rules(objects) if rule.match.takes(method, path))
