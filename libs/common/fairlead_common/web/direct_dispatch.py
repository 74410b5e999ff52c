"""Calls that are found by one look at their method and path, past the framework's own way.

For every request the framework asks one route after the other, opens stacks of contexts and works
out what the endpoint's arguments depend on: a third of what a request with a single job cost. An
endpoint that takes the request alone, at a path without parameters, needs none of that. It stays a
route like any other, in the document too; whatever is not found here goes on to the framework.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import TypeAlias, get_type_hints

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_common.web import problem_documents

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class DirectDispatch:
    """The layer before the framework's own: calls these routes itself where it can."""

    def __init__(
        self,
        app: ASGIApp,
        routers: Iterable[APIRouter],
        error_page: problem_documents.ErrorPage | None = None,
    ) -> None:
        self._app = app
        self._excuse = error_page
        self._endpoints = find_endpoints(routers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or go on."""
        endpoint = self._endpoints.get((scope.get("method"), scope.get("path")))
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            answer = await endpoint(request)
        except problem_documents.EXPECTED as error:
            answer = problem_documents.respond_to_error(request, error, self._excuse)
        await answer(scope, receive, send)


def find_endpoints(routers: Iterable[APIRouter]) -> Mapping[tuple[object, object], Endpoint]:
    """Those that need nothing of the framework, by method and path; the first of each counts."""
    found: dict[tuple[object, object], Endpoint] = {}
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and _is_straight(route):
                for method in route.methods or ():
                    found.setdefault((method, route.path), route.endpoint)
    return found


def _is_straight(route: APIRoute) -> bool:
    """Whether its endpoint is called with a request, which gives a response, and that is all."""
    hints = get_type_hints(route.endpoint)
    answer = hints.pop("return", None)
    return (
        list(hints.values()) == [Request]
        and isinstance(answer, type)
        and issubclass(answer, Response)
        and iscoroutinefunction(route.endpoint)
        and not route.dependencies
        and "{" not in route.path
    )
