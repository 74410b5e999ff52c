"""Whether a queue that a request names exists."""

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_lookout.http.deps import Deps, Slot
from fairlead_lookout.http.long_polls import APPEAR_S_MAX
from fairlead_lookout.store.queries.list_filters import JobSetFilter


async def require_queue(deps: Deps, visible_queues: QueueScope, queue: str) -> None:
    """Raises a 404 `Problem` for a queue that does not exist or is not visible to the caller.

    A deleted queue exists as long as it has jobs.
    """
    if queue in visible_queues:
        if deps.configuration.find_queue(queue) is not None:
            return
        if (await deps.view.read_job_sets(JobSetFilter(queue=queue), 1, None)).job_sets:
            return
        if await is_created(deps, queue):
            return
    raise Problem("not-found", f"Queue {queue!r} does not exist.")


async def is_created(deps: Deps, queue: str) -> bool:
    """Whether the queue exists, also if it was created a moment ago: the log has a queue before its
    creation is answered."""
    if deps.configuration.find_queue(queue) is None:
        with Slot(deps, "waits"):
            await deps.configuration.wait_until_current(APPEAR_S_MAX)
    return deps.configuration.find_queue(queue) is not None
