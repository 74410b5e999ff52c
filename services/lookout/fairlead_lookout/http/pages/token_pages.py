"""The page of the caller's own tokens. It lists, creates and revokes them through submit's API:
lookout has no access to them."""

from fastapi import APIRouter, Request, Response

from fairlead_common.domain.permissions import QueueScope, Role
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values

PATH = "/tokens"


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page. It has no stream."""

    @router.get(PATH)
    async def tokens(request: Request) -> Response:
        fragment = Fragment("tokens.html", (), _read)
        return await sender.send_page(request, "tokens.html", "tokens", fragment)


async def _read(_: QueueScope) -> Values:
    return {"roles": [role.value for role in Role]}
