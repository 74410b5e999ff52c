"""Saved views as the API returns them."""

from fairlead_common.domain import timestamps
from fairlead_common.web.auth import Caller
from fairlead_lookout.domain.saved_views import SavedView
from fairlead_lookout.http.responses.response_base import ResponseBody
from fairlead_lookout.http.webhook_access import is_operator


class SavedViewResponse(ResponseBody, frozen=True, kw_only=True, omit_defaults=False):
    """A saved view. `address`: of a page with its filters. `deletable`: by the caller."""

    id: int
    name: str
    address: str
    shared: bool
    by: str
    created: str
    deletable: bool


class SavedViewsResponse(ResponseBody, frozen=True, kw_only=True):
    """The personal views of the caller and the views of all users, by name."""

    views: list[SavedViewResponse]


def describe_saved_view(view: SavedView, caller: Caller) -> SavedViewResponse:
    """A saved view, for a caller who can use it."""
    return SavedViewResponse(
        id=view.number,
        name=view.name,
        address=view.address,
        shared=view.owner is None,
        by=view.by,
        created=timestamps.rfc3339(view.created_ms),
        deletable=view.owner is not None or is_operator(caller),
    )
