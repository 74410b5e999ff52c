"""A job that a request names, and everything about it."""

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import configuration
from fairlead_common.domain.secret_values import without_sealed
from fairlead_common.service import clock
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.responses import job_responses, response_base
from fairlead_lookout.http.responses.waiting_reasons import Circumstances, explain_waiting
from fairlead_lookout.store.queries import array_lists
from fairlead_lookout.store.queries.view_reader import JobRecord


async def find_job(deps: Deps, visible_queues: QueueScope, job: str) -> JobRecord:
    """The job with this id or `queue/jobSet/clientId`. Raises a 404 `Problem`, also if the caller
    may not view its queue.
    """
    job_id = await _choose_id(deps, visible_queues, job)
    found = await deps.view.read_job(job_id)
    if found is None:
        found = await array_lists.read_waiting_task(deps.view, job_id)
    if found is None or found.row["queue"] not in visible_queues:
        raise Problem("not-found", f"Job {job!r} does not exist.")
    return found


async def _choose_id(deps: Deps, visible_queues: QueueScope, job: str) -> str:
    """The id of the job that is named: of several that it can be, one that exists."""
    try:
        named = ids.job_ids_of(job)
    except ValueError:
        return job
    if len(named) == 1:
        return named[0]
    rows = (await deps.view.read_jobs(named)).rows
    visible = (row["id"] for row in rows if row["queue"] in visible_queues)
    return next(visible, named[0])


async def describe_job(
    deps: Deps, found: JobRecord, *, spec: bool
) -> job_responses.JobDetailResponse:
    """Everything about a job that `find_job` has found. `spec`: with its pod spec."""
    submitted = found.submitted
    now_ms = clock.now_ms()
    stopped = deps.quarantine.find_stopped_partitions()
    circumstances = Circumstances(deps.reports, deps.clusters, stopped, now_ms)
    others = found.dependencies
    listed = job_responses.describe_job(
        found.row, now_ms, others.are_open, others.client_ids, deps.clusters
    )
    return job_responses.JobDetailResponse(
        **msgspec.structs.asdict(listed),
        why=explain_waiting(found, circumstances),
        position_in_queue=None if found.waits_in_array else await _read_queue_position(deps, found),
        submitted_by=found.row["submitted_by"] or None,
        user_requests=job_responses.describe_user_requests(found.row["user_requests"]),
        runs=[job_responses.describe_run(row) for row in found.runs],
        namespace=submitted.namespace,
        labels=submitted.labels,
        annotations=submitted.annotations,
        after=submitted.after,
        hold=found.row["held"],
        start_after=response_base.format_time(submitted.start_after_ms),
        max_queue_seconds=submitted.queue_s_max,
        max_runtime_seconds=submitted.runtime_s_max,
        gang=submitted.gang,
        array=submitted.array,
        retry=submitted.retry,
        on_preemption=submitted.on_preemption,
        spec=without_sealed(submitted.spec) if spec else None,
    )


async def _read_queue_position(deps: Deps, found: JobRecord) -> str | None:
    """The job's position; None in a queue with `order: fair`, whose order only the scheduler knows:
    the reason why the job waits says how many are ahead."""
    queue = deps.configuration.find_queue(found.row["queue"])
    if queue is not None and queue.order == configuration.FAIR:
        return None
    return await deps.view.read_queue_position(found.row, deps.class_values)
