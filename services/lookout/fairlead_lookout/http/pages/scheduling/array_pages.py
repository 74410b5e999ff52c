"""The page of an array: its tasks by state, and why tasks wait."""

from urllib.parse import quote

from fastapi import APIRouter

from fairlead_common.domain.permissions import QueueScope
from fairlead_lookout.http import array_responses
from fairlead_lookout.http.api import array_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page and its stream."""
    sender.add_page(router, "/arrays/{array}", "array.html", "jobsets", _array)


async def _array(deps: Deps, array: str) -> Fragment:
    """An array with its tasks by state."""

    async def read(visible_queues: QueueScope) -> Values:
        found = await array_routes.find_array(deps, visible_queues, array)
        described = array_responses.describe_array(found)
        return {"live": f"/live/arrays/{quote(array, safe='')}", "array": described}

    return Fragment("_array.html", (array,), read)
