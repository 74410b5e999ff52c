"""Routes of job sets."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Response

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.service import clock
from fairlead_common.web.requests import etags, query_validation
from fairlead_common.web.requests.query_validation import After, Wait
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import (
    read_until,
    read_when_exists,
    wait_for_position,
)
from fairlead_lookout.http.lookups import job_set_lookup
from fairlead_lookout.http.request_parameters import (
    Cursor,
    IfNoneMatch,
    JobSetName,
    Limit,
    QueueName,
    Text,
)
from fairlead_lookout.http.responses import job_set_responses
from fairlead_lookout.http.responses.json_answers import document_responses, json_response
from fairlead_lookout.store.queries.list_filters import JobSetFilter


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Lists of job sets, and single job sets."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/jobsets",
        summary="Job sets with their counts, newest first",
        responses=document_responses(
            job_set_responses.JobSetsResponse, "Job sets, newest first.", 400
        ),
    )
    async def list_job_sets(
        visible_queues: VisibleQueues,
        queue: Text = None,
        active: bool | None = None,
        q: Text = None,
        limit: Limit = 100,
        cursor: Cursor = None,
        include: Literal["count"] | None = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        await wait_for_position(deps, after, wait)
        wanted = JobSetFilter(
            visible_queues=visible_queues, queue=queue, active=active, q=q or None
        )
        page = await deps.view.read_job_sets(wanted, limit, cursor)
        count = None if include is None else await deps.view.count_job_sets(wanted)
        return json_response(job_set_responses.describe_job_sets(page, count))

    @router.get(
        "/jobsets/{queue}/{job_set:path}",
        summary="One job set; with `wait`, respond when it has changed or finished",
        responses=document_responses(
            job_set_responses.JobSetResponse, "The job set.", 304, 400, 404
        ),
    )
    async def get_job_set(
        visible_queues: VisibleQueues,
        queue: QueueName,
        job_set: JobSetName,
        wait: Wait = None,
        until: Literal["finished"] | None = None,
        after: After = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        await wait_for_position(deps, after, wait)

        async def read() -> JobSet:
            return await job_set_lookup.find_job_set(deps, visible_queues, queue, job_set)

        def is_wanted(found: JobSet) -> bool:
            return found.live == 0 if until else not etags.is_known(if_none_match, _make_tag(found))

        wait_s = query_validation.parse_wait_s(wait)
        first = await read_when_exists(deps, wait_s, read)
        job_set_found = (
            first
            if is_wanted(first)
            else await read_until(deps, first.partition, wait_s, read, is_wanted)
        )
        headers = {"ETag": _make_tag(job_set_found)}
        if until is None and etags.is_known(if_none_match, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        (counted,) = await deps.view.count_states([job_set_found])
        return json_response(job_set_responses.describe_job_set(counted, clock.now_ms()), headers)


def _make_tag(job_set: JobSet) -> str:
    """A tag that changes with every message about the job set."""
    return f'"{job_set.position}"'
