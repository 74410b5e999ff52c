"""The saved views that a caller can use."""

from fairlead_common.web.auth import Caller
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.responses.saved_view_responses import (
    SavedViewResponse,
    describe_saved_view,
)


async def read_saved_views(deps: Deps, caller: Caller) -> list[SavedViewResponse]:
    """The saved views that a caller sees, by name."""
    found = await deps.saved_views.list_visible(caller.name)
    return [describe_saved_view(each, caller) for each in found]
