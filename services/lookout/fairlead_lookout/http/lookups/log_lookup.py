"""The log of a run that a request names."""

from typing import Any

from fairlead_common.domain.lifecycle import JOB_ENDED
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_lookout.http import executor_logs
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.executor_logs import ExecutorLog
from fairlead_lookout.http.lookups import job_lookup
from fairlead_lookout.store.queries.list_filters import invalid_parameter


async def open_log(
    deps: Deps,
    visible_queues: QueueScope,
    job: str,
    run: int | None,
    parameters: dict[str, str],
) -> ExecutorLog:
    """The log of a run, by default the newest. Raises `Problem`."""
    found = await job_lookup.find_job(deps, visible_queues, job)
    container = parameters.get("container")
    names = executor_logs.list_containers(found.submitted.spec)
    if container is not None and container not in names:
        known = (
            f"Its containers are {', '.join(names)}." if names else "Its containers have no names."
        )
        raise invalid_parameter("container", f"The job has no container {container!r}. {known}")
    wanted = [row for row in found.runs if run is None or row["number"] == run]
    if not wanted:
        never = "never ran" if found.row["state"] in JOB_ENDED else "has not run yet"
        which = never if run is None else f"has no run {run}"
        raise Problem("not-found", f"Job {job} {which}, so it has no log.")
    newest: Any = wanted[0]
    return await deps.logs.open(newest, found.row["id"], parameters)
