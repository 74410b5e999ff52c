"""The HTTP calls by which operators cordon executors and nodes."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Path, Request, Response
from msgspec import UNSET, UnsetType

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import require_role
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records.configuration import Cordon
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.decoding import Decoder, validation_problem
from fairlead_common.web.requests import request_body
from fairlead_common.web.routing import DeferredRoute
from fairlead_submit.domain import name_rules, request_types
from fairlead_submit.http import deps, openapi_schemas, query_string
from fairlead_submit.service import metrics
from fairlead_submit.service.cluster_view import ClusterView
from fairlead_submit.service.service import Service

_decoder: Final = Decoder(request_types.ExecutorCordon)

ExecutorName = Annotated[str, Path(max_length=253)]


class CordonView(msgspec.Struct, frozen=True):
    """The cordon of an executor, or of one of its nodes, as the API returns it.

    Reads with `after` set to `position` include it. `pending`: it is stored, but the log does not
    have it yet, so jobs that are submitted now can be scheduled without it. Absent otherwise.
    """

    executor: str
    node: str | None
    cordoned: bool
    reason: str
    version: int
    position: str
    pending: bool | UnsetType = UNSET


def executor_routes(service: Service) -> APIRouter:
    """The routes that cordon executors and nodes."""
    router = APIRouter(prefix="/api/v1", tags=["executors"], route_class=DeferredRoute)
    documented: dict[str, Any] = {
        "methods": ["PUT"],
        "responses": {
            200: openapi_schemas.describe_response(CordonView, "The cordon."),
            **openapi_schemas.describe_problems(400, 404, 413, 415),
        },
        "openapi_extra": openapi_schemas.describe_body(request_types.ExecutorCordon),
    }
    set_cordon = _cordon_endpoint(service)

    async def cordon_executor(request: Request, executor: ExecutorName) -> Response:
        return await set_cordon(request, executor, None)

    async def cordon_node(request: Request, executor: ExecutorName, node: ExecutorName) -> Response:
        return await set_cordon(request, executor, node)

    router.add_api_route(
        "/executors/{executor}",
        cordon_executor,
        summary="Cordon an executor, so that no new runs start on it, or uncordon it",
        **documented,
    )
    router.add_api_route(
        "/executors/{executor}/nodes/{node}",
        cordon_node,
        summary="Cordon a node, so that no new runs start on it, or uncordon it",
        **documented,
    )
    return router


def _cordon_endpoint(
    service: Service,
) -> Callable[[Request, str, str | None], Awaitable[Response]]:
    async def set_cordon(request: Request, executor: str, node: str | None) -> Response:
        caller = deps.request_context(request).caller
        require_role(caller, "operator")
        query_string.read_query(request)
        given, found = _decoder(await request_body.read_body(request))
        metrics.REQUESTS.labels("cordon").inc()
        found = [*found, *validation.without_implied(_check_names(executor, node), found)]
        if given.cordoned is None:
            found += validation.without_implied([FieldError("/cordoned", "is missing")], found)
        if found:
            raise validation_problem(found)
        if given.cordoned:
            await _require_known(service.cluster_view, executor, node)
        made = await service.cordons.set_cordon(
            Cordon(
                executor=executor,
                node=node,
                cordoned=bool(given.cordoned),
                reason=given.reason or "",
                by=caller.name,
            )
        )
        view = CordonView(
            executor=made.executor,
            node=made.node,
            cordoned=made.cordoned,
            reason=made.reason,
            version=made.version,
            position=configuration.position(made),
            pending=UNSET if await service.wait_until_relayed(made) else True,
        )
        return Response(msgspec.json.encode(view), media_type="application/json")

    return set_cordon


def _check_names(executor: str, node: str | None) -> list[FieldError]:
    given = (("executor", executor), ("node", node))
    return [
        FieldError(f"/path/{place}", detail)
        for place, name in given
        if name is not None and (detail := name_rules.check_executor_name(name))
    ]


async def _require_known(cluster_view: ClusterView, executor: str, node: str | None) -> None:
    """Raises a 404 `Problem` for an unknown executor or node: a typing error must not succeed."""
    seen = await cluster_view.read()
    if executor not in seen.executors:
        raise Problem("not-found", f"Executor {executor!r} does not exist.")
    if node is not None and (executor, node) not in seen.nodes:
        raise Problem("not-found", f"Executor {executor!r} has no node {node!r}.")
