"""The page of a group: its state, the last change, its roles and its members."""

from urllib.parse import quote

from fastapi import APIRouter

from fairlead_common.domain.permissions import QueueScope
from fairlead_lookout.http.api import group_routes
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.pages.page_sender import Fragment, PageSender, Values


def add_routes(router: APIRouter, sender: PageSender) -> None:
    """The page and its stream."""
    sender.add_page(router, "/groups/{group}", "group.html", "jobsets", _group)


async def _group(deps: Deps, group: str) -> Fragment:
    """A group with its roles and members."""

    async def read(visible_queues: QueueScope) -> Values:
        found = await group_routes.find_group(deps, visible_queues, group)
        return {"live": f"/live/groups/{quote(group, safe='')}", "group": found}

    return Fragment("_group.html", (group,), read)
