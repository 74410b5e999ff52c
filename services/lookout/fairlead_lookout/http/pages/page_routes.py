"""The routes of the pages and their static files."""

from typing import Final

from fastapi import APIRouter, Response

from fairlead_common.domain.problems import Problem
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages import (
    about_pages,
    find_pages,
    job_list_pages,
    job_pages,
    job_set_pages,
    rendering,
    saved_view_pages,
    token_pages,
    webhook_pages,
)
from fairlead_lookout.http.pages.about_pages import HealthDeps
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

_STATIC_HEADERS: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


def make_router(deps: Deps, health: HealthDeps) -> APIRouter:
    """The routes of the pages, their streams and static files."""
    router = APIRouter(include_in_schema=False)
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
