"""The routes of the pages and their static files."""

from typing import Final

from fastapi import APIRouter, Depends, Request, Response

from fairlead_common.domain.problems import Problem
from fairlead_common.web.routing import DeferredRoute
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages import (
    about_pages,
    find_pages,
    rendering,
    saved_view_pages,
    token_pages,
    webhook_pages,
)
from fairlead_lookout.http.pages.about_pages import HealthDeps
from fairlead_lookout.http.pages.jobs import job_list_pages, job_pages, job_set_pages
from fairlead_lookout.http.pages.logs import log_pages
from fairlead_lookout.http.pages.page_sender import PageSender
from fairlead_lookout.http.pages.scheduling import (
    array_pages,
    cluster_pages,
    fairness_pages,
    group_pages,
    node_pages,
    pool_pages,
    preemption_pages,
    queue_pages,
)
from fairlead_lookout.store.queries.list_filters import invalid_parameter

_STATIC_HEADERS: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


async def refuse_nul(request: Request) -> None:
    """Raise a 422 `Problem` for a parameter with a NUL character, which no table can hold."""
    for name, text in request.query_params.multi_items():
        if "\0" in name + text:
            raise invalid_parameter(
                name, "This parameter contains a NUL character, which is not allowed."
            )


def make_router(deps: Deps, health: HealthDeps) -> APIRouter:
    """The routes of the pages, their streams and static files."""
    router = APIRouter(
        include_in_schema=False, dependencies=[Depends(refuse_nul)], route_class=DeferredRoute
    )
    files = rendering.load_assets()
    sender = PageSender(deps, rendering.load_templates())

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        asset = files.get(name)
        if asset is None:
            raise Problem("not-found", f"File {name!r} does not exist.")
        return Response(asset.content, media_type=asset.media_type, headers=_STATIC_HEADERS)

    for pages in (
        job_set_pages,
        job_list_pages,
        job_pages,
        log_pages,
        queue_pages,
        cluster_pages,
        pool_pages,
        group_pages,
        array_pages,
        preemption_pages,
        fairness_pages,
        node_pages,
        token_pages,
        saved_view_pages,
        find_pages,
        webhook_pages,
    ):
        pages.add_routes(router, sender)
    about_pages.add_routes(router, sender, health)
    return router
