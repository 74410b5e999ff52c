"""No route is open by accident: all routes of the whole app, found in the app itself."""

import re
from collections.abc import Iterator

import httpx2
from starlette.routing import Route

from tests.conftest import NO_TLS
from tests.integration.middleware.web_app import WebApp, bearer

OPEN = {
    "/healthz": "whether the process lives: asked by whatever starts it",
    "/readyz": "whether it can be used, for the same",
    "/metrics": "counts for Prometheus; no names of jobs, and a proxy need not pass it on",
    "/openapi.json": "how to talk to it, the same for everybody",
    "/problems": "what an error means, for whoever got one",
    "/problems/{slug}": "the same",
    "/sign-in": "its code, or the token in its form, is what lets one in",
    "/sign-in/oidc": "leads to a provider, where one signs in",
    "/sign-in/callback": "the provider's code is what lets one in",
    "/static/{name}": "style and scripts of the pages, the same for everybody",
}
"""Every route that needs no caller, and why."""

FOR_ANYBODY = {
    ("GET", "/api/v1/tokens"): "one's own tokens",
    ("DELETE", "/api/v1/tokens/{token_id}"): "one's own tokens",
    ("POST", "/api/v1/sign-in-links"): "a link for oneself",
    ("POST", "/sign-out"): "one's own session",
    ("POST", "/api/v1/saved-views"): "one's own views; those of all users need an operator",
    ("PUT", "/api/v1/saved-views/{view}"): "the same",
    ("DELETE", "/api/v1/saved-views/{view}"): "the same",
    ("GET", "/jobs/filter"): "leads to the page of jobs with the filters of the form",
    ("GET", "/preemptions/filter"): "leads to the page of preemptions with a time for hours",
    ("GET", "/api/v1/priority-classes"): "the same for everybody who is known",
    ("GET", "/api/v1/queues"): "a list leaves out what one may not view",
}
"""Routes that every known caller may use, whatever his roles, and why."""


def routes(app: WebApp) -> Iterator[tuple[str, str]]:
    """Method and path of every route."""
    for route in app.app.routes:
        assert isinstance(route, Route)
        yield from ((method, route.path) for method in sorted(route.methods or ()))


def paths_of(app: WebApp) -> list[tuple[str, str]]:
    """The same, with at least what is known to be there."""
    found = sorted(set(routes(app)))
    assert ("POST", "/api/v1/jobs") in found
    assert ("GET", "/") in found
    assert len(found) > 40
    return found


def filled(path: str) -> str:
    """The path with something for each parameter."""
    return re.sub(r"\{[^}]*\}", "x", path)


async def ask(app: WebApp, method: str, path: str, headers: dict[str, str]) -> httpx2.Response:
    """The answer to a request without the client's own token."""
    async with httpx2.AsyncClient(base_url=app.client.base_url, timeout=30, verify=NO_TLS) as http:
        return await http.request(method, filled(path), headers=headers)


async def test_every_route_except_public_ones_needs_credentials(app: WebApp) -> None:
    expired = await app.token_of("eve", "admin", ttl_s=-1)
    wrong = [
        {},
        {"Authorization": "Bearer"},
        bearer("fl_nobody"),
        bearer("a.b.c"),
        expired,
        {"Authorization": f"Basic {app.token}"},
        {"Authorization": app.token},
        {"Cookie": "fairlead_session=fl_nobody"},
    ]
    seen = set()
    for method, path in paths_of(app):
        if path in OPEN:
            seen.add(path)
            continue
        for headers in wrong:
            answer = await ask(app, method, path, headers)
            assert answer.status_code in (401, 429), (method, path, headers)
            assert "www-authenticate" in answer.headers or answer.status_code == 429
            if method != "HEAD":
                assert answer.json()["type"].startswith("/problems/")
    assert seen == set(OPEN), "a route is listed that is not there"


async def test_public_routes_reveal_no_secrets(app: WebApp) -> None:
    for method, path in paths_of(app):
        if path in OPEN and not path.startswith("/sign-in"):
            answer = await ask(app, method, path, {})
            assert answer.status_code in (200, 404) or path == "/readyz", (method, path)
            assert app.token not in answer.text
    assert (await ask(app, "GET", "/sign-in", {})).status_code == 401
    assert (await ask(app, "POST", "/sign-in", {})).status_code == 403
    assert (await ask(app, "GET", "/sign-in/oidc", {})).status_code == 404
    assert (await ask(app, "GET", "/sign-in/callback", {})).status_code == 401


async def test_a_caller_without_roles_is_refused_everywhere(app: WebApp) -> None:
    """403, or for one thing that he may not view 404; nothing of what there is is told."""
    nobody = await app.token_of("nobody")
    for method, path in paths_of(app):
        if path in OPEN:
            continue
        answer = await ask(app, method, path, nobody)
        if (method, path) not in FOR_ANYBODY:
            assert answer.status_code in (403, 404), (method, path, answer.text[:300])
        assert app.queue not in answer.text
        assert app.token not in answer.text


async def test_a_viewer_cannot_change_anything(app: WebApp) -> None:
    viewer = await app.token_of("vic", "viewer")
    for method, path in paths_of(app):
        if method in ("GET", "HEAD") or path in OPEN or (method, path) in FOR_ANYBODY:
            continue
        answer = await ask(app, method, path, viewer)
        assert answer.status_code in (403, 404), (method, path, answer.text[:300])


async def test_a_submitter_cannot_use_operator_calls(app: WebApp) -> None:
    """Queues, clusters and nodes are changed by operators."""
    submitter = await app.token_of("sue", "submitter")
    operated = [
        (method, path)
        for method, path in paths_of(app)
        if method not in ("GET", "HEAD")
        and path.startswith(("/api/v1/queues", "/api/v1/executors"))
    ]
    assert len(operated) >= 5
    for method, path in operated:
        answer = await ask(app, method, path, submitter)
        assert answer.status_code in (403, 404), (method, path, answer.text[:300])


async def test_the_document_names_every_route_of_the_api(app: WebApp) -> None:
    document = (await app.client.get("/openapi.json")).json()
    answers = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
    }
    there = {
        (method, re.sub(r":\w+}", "}", path))
        for method, path in paths_of(app)
        if path.startswith("/api/") and method != "HEAD"
    }
    assert there - answers == set()
    closed = {
        p for p, ops in document["paths"].items() if "security" not in next(iter(ops.values()))
    }
    assert closed.isdisjoint(OPEN)
