"""Routes that are built when they are first used, and a dispatch without the framework's routing.

The framework makes a validator for every parameter of every route, and again for each route that
shares a dependency: for a hundred routes a quarter of a second at each start of a process, which
then serves requests for a few of them.

For every request the framework tests one route after the other, opens stacks of contexts and
resolves dependencies: a third of the cost of a request with a single job. An endpoint whose only
argument is the request, at a path without parameters, needs none of that. It stays an ordinary
route, also in the OpenAPI document; all other requests go to the framework.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, get_type_hints

from fastapi import APIRouter, Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_common.web import problem_documents

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class DeferredRoute(APIRoute):
    """A route that the framework builds when somebody first reads more of it than what finds it
    among others: path, methods, endpoint and dependencies.

    A mistake in its parameters raises then; the OpenAPI document builds every route.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        methods: Iterable[str] | None = None,
        dependencies: Iterable[Depends] | None = None,
        **options: Any,
    ) -> None:  # `Any`: what a route takes and returns is up to it and FastAPI
        self.path = path
        self.endpoint = endpoint
        self.methods = {method.upper() for method in methods or ("GET",)}
        self.dependencies = list(dependencies or ())
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._options: dict[str, Any] | None = options

    def __getattr__(self, name: str) -> Any:  # of any type: Python asks for what is not there
        options = self.__dict__.get("_options")
        if options is None:
            raise AttributeError(name=name, obj=self)
        self._options = None  # an attribute that is missing meanwhile does not exist
        try:
            super().__init__(
                self.path,
                self.endpoint,
                methods=self.methods,
                dependencies=self.dependencies,
                **options,
            )
        except BaseException:
            self._options = options  # the next request fails for the same reason
            raise
        return getattr(self, name)


class DirectDispatch:
    """The innermost middleware: it calls the endpoints that it knows and passes on the rest."""

    def __init__(
        self,
        app: ASGIApp,
        routers: Iterable[APIRouter],
        error_page: problem_documents.ErrorPage | None = None,
    ) -> None:
        self._app = app
        self._error_page = error_page
        self._endpoints = find_endpoints(routers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the endpoint, or pass the request on."""
        endpoint = self._endpoints.get((scope.get("method"), scope.get("path")))
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            answer = await endpoint(request)
        except problem_documents.EXPECTED as error:
            answer = problem_documents.respond_to_error(request, error, self._error_page)
        await answer(scope, receive, send)


def find_endpoints(routers: Iterable[APIRouter]) -> Mapping[tuple[object, object], Endpoint]:
    """The endpoints that need no routing, by method and path; the first of each counts."""
    found: dict[tuple[object, object], Endpoint] = {}
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and _takes_request_only(route):
                for method in route.methods or ():
                    found.setdefault((method, route.path), route.endpoint)
    return found


def _takes_request_only(route: APIRoute) -> bool:
    """Whether the endpoint's only argument is the request, and its result a response."""
    if "{" in route.path or len(route.endpoint.__annotations__) != 2:
        return False
    hints = get_type_hints(route.endpoint)
    answer = hints.pop("return", None)
    return (
        list(hints.values()) == [Request]
        and isinstance(answer, type)
        and issubclass(answer, Response)
        and iscoroutinefunction(route.endpoint)
        and not route.dependencies
    )
