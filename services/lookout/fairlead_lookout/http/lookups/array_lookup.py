"""An array that a request names."""

from fairlead_common.domain import ids
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.store.queries import array_lists
from fairlead_lookout.store.queries.array_lists import ArrayRecord


async def find_array(deps: Deps, visible_queues: QueueScope, text: str) -> ArrayRecord:
    """The array. Raises a 404 `Problem`, also if the caller may not view its queue."""
    try:
        named = ids.array_ids_of(text)
    except ValueError:
        named = []
    for found in await array_lists.read_named_arrays(deps.view, named):
        if found.row["queue"] in visible_queues:
            return found
    raise Problem("not-found", f"Array {text[:100]!r} does not exist.")
