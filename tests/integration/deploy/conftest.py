"""`services`: the routes of the services that people reach. `api_server`: one that the chart can be
installed on. `charted`: what the chart starts, with the values of docs/operating.md."""

import re
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec
import pytest
import yaml
from fastapi import FastAPI

from fairlead_common.service.settings import Settings
from fairlead_common.web import server
from fairlead_lookout.service.service import Service as Lookout
from fairlead_lookout.service.settings import Settings as LookoutSettings
from fairlead_submit.http import api
from fairlead_submit.service.service import Service as Submit
from fairlead_submit.service.settings import SubmitSettings
from tests.conftest import Server, made_database
from tests.e2e.guide.guides import blocks
from tests.integration.deploy import charts
from tests.integration.deploy.charted import Charted, apply, apply_gateway_api
from tests.kubernetes_control_plane import ControlPlane
from tests.kubernetes_fixtures import control_plane

__all__ = ["control_plane"]

EXAMPLES: Final = {"queue": "physics", "job_set": "a/b"}

Routes = dict[str, set[tuple[str, str]]]
"""Service -> (method, path) of all that only this service has."""


def described_routes(app: FastAPI) -> set[tuple[str, str]]:
    """(method, path) of all routes that the app describes."""
    return {
        (method.upper(), re.sub(r"\{(\w+)\}", lambda name: EXAMPLES.get(name[1], "x"), path))
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }


@pytest.fixture
async def services(fresh_database: str, valkey_url: str) -> AsyncIterator[Routes]:
    """The routes of the two services that people reach, less those that both have (health and the
    like), which either may answer."""
    urls = {"log_url": fresh_database, "database_url": fresh_database, "redis_url": valkey_url}
    of_submit = msgspec.structs.replace(SubmitSettings(), **urls)
    of_lookout = msgspec.structs.replace(LookoutSettings(), **urls)
    async with Submit.open(of_submit) as submit, await Lookout.open(of_lookout) as lookout:
        changes = described_routes(server.build_app("s", api.routers(submit), {}, Settings()))
        views = described_routes(server.build_app("l", lookout.routers(), {}, Settings()))
        assert ("POST", "/api/v1/jobs") in changes
        assert ("GET", "/api/v1/jobs") in views
        pages = {("GET", "/")}  # pages are not described
        yield {"submit": changes - views, "lookout": (views | pages) - changes}


@pytest.fixture(scope="package")
def api_server(control_plane: ControlPlane) -> ControlPlane:
    """An API server that knows the Gateway API, with the namespace of the release."""
    apply_gateway_api(control_plane)
    namespace = {"metadata": {"name": charts.NAMESPACE}}
    apply(control_plane, {"apiVersion": "v1", "kind": "Namespace", **namespace})
    return control_plane


@pytest.fixture(scope="session")
def documented_values() -> dict[str, object]:
    """The values.yaml of docs/operating.md."""
    (found,) = (block for block in blocks("operating.md") if block.name == "values.yaml")
    values: dict[str, object] = yaml.safe_load(found.text)
    return values


@pytest.fixture(scope="package")
def charted(
    tmp_path_factory: pytest.TempPathFactory,
    api_server: ControlPlane,
    postgres_server: Server,
    valkey_server: Server,
    documented_values: dict[str, object],
) -> Iterator[Charted]:
    """A release with the values of docs/operating.md, its log in Postgres."""
    for database in made_database(postgres_server):
        secret = {
            "logUrl": database,
            "databaseUrl": database,
            "redisUrl": valkey_server.url(),
            "signingKey": secrets.token_hex(24),
            "secretsKey": secrets.token_hex(24),
        }
        folder = tmp_path_factory.mktemp("charted")
        with Charted(folder, api_server, charts.render(**documented_values), secret) as made:
            yield made


@pytest.fixture(scope="package")
def admin_token(charted: Charted) -> str:
    """The first token, made as the notes of the chart say."""
    return charted.exec("submit", "python", "-m", "fairlead_submit.make_token", "me", "admin")
