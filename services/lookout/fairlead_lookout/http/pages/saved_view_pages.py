"""The page of saved views. It creates and deletes them through the API."""

from fastapi import APIRouter, Request, Response

from fairlead_common.domain.permissions import Caller, QueueScope
from fairlead_lookout.http.api.saved_view_routes import read_saved_views
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values

PATH = "/saved-views"


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page. It has no stream."""

    async def read(_: QueueScope) -> Values:
        return {}

    async def read_own(caller: Caller) -> Values:
        return {"views": await read_saved_views(sender.deps, caller)}

    @router.get(PATH)
    async def saved_views(request: Request) -> Response:
        fragment = Fragment("saved_views.html", (), read, read_own=read_own)
        return await sender.send_page(request, "saved_views.html", "saved-views", fragment)
