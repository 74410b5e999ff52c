"""A job set that a request names."""

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.http.deps import Deps


async def find_job_set(deps: Deps, visible_queues: QueueScope, queue: str, job_set: str) -> JobSet:
    """The job set. Raises a 404 `Problem`, also if its queue is not visible to the caller."""
    found = await deps.view.read_job_set(queue, job_set) if queue in visible_queues else None
    if found is None:
        raise Problem("not-found", f"Queue {queue!r} has no job set {job_set!r} with jobs.")
    return found
