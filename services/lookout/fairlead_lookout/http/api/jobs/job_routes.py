"""Routes of jobs: lists, groups, and everything about one job."""

from typing import Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from fairlead_common.domain import ids
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.web.openapi import PREFIXES
from fairlead_common.web.requests import etags, query_validation
from fairlead_common.web.requests.query_validation import After, Wait, validated_by
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import read_until, read_when_exists, wait_for_position
from fairlead_lookout.http.lookups import job_lookup
from fairlead_lookout.http.request_parameters import (
    Cursor,
    IfNoneMatch,
    JobFilterQuery,
    JobReference,
    Limit,
    parse_dimensions,
)
from fairlead_lookout.http.responses import job_responses
from fairlead_lookout.http.responses.json_answers import (
    document_responses,
    json_response,
    make_etag,
)
from fairlead_lookout.store.queries.job_lists import check_sort
from fairlead_lookout.store.queries.list_filters import (
    ANNOTATION,
    LABEL,
    invalid_parameter,
)

BY_NAME: Final = {PREFIXES: [LABEL, ANNOTATION]}


Sort = Annotated[
    str,
    validated_by(check_sort),
    Query(
        max_length=30,
        description="submitted, changed, started, ended or priority; with a minus: descending.",
    ),
]
NEWEST: Final = "-submitted"


def add_routes(router: APIRouter, deps: Deps) -> None:
    """Lists and single jobs."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/jobs",
        summary="Jobs, newest first, or counts by group",
        openapi_extra=BY_NAME,
        responses=document_responses(
            (job_responses.JobsResponse, job_responses.JobCountsResponse),
            "Jobs, newest first, or counts by group.",
            400,
        ),
    )
    async def list_jobs(
        visible_queues: VisibleQueues,
        selected: JobFilterQuery,
        group_by: Annotated[
            Annotated[str, validated_by(parse_dimensions)] | None,
            Query(
                alias="groupBy",
                max_length=1_000,
                description="Some of queue, jobSet, state, cluster, node, class, label.K.",
            ),
        ] = None,
        include: Literal["count"] | None = None,
        sort: Sort = NEWEST,
        limit: Limit = 100,
        cursor: Cursor = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        wanted = msgspec.structs.replace(selected, visible_queues=visible_queues)
        by = None if group_by is None else parse_dimensions(group_by)
        if by is not None and cursor is not None:
            raise invalid_parameter(
                "cursor", "Groups have only one page. Increase `limit` instead."
            )
        await wait_for_position(deps, after, wait)
        if by is not None:
            found = await deps.lists.count_groups(wanted, by, limit)
            return json_response(
                job_responses.JobCountsResponse(
                    groups=[
                        job_responses.JobCountResponse(group=g, jobs=jobs)
                        for g, jobs in found.groups
                    ],
                    total=found.total,
                )
            )
        page = await deps.lists.read_page(wanted, limit, cursor, sort)
        count = await deps.lists.count_jobs(wanted) if include is not None else None
        return json_response(
            job_responses.JobsResponse(
                jobs=job_responses.describe_jobs(page.jobs, deps.clusters),
                next=page.next,
                count=count,
            )
        )

    @router.get(
        "/jobs/{job:path}",
        summary=(
            "The details of a job; with `If-None-Match` and `wait`, respond when it has changed"
        ),
        responses=document_responses(job_responses.JobDetailResponse, "The job.", 304, 400, 404),
    )
    async def get_job(
        visible_queues: VisibleQueues,
        job: JobReference,
        spec: bool = False,
        after: After = None,
        wait: Wait = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        await wait_for_position(deps, after, wait)

        async def read() -> job_responses.JobDetailResponse:
            found = await job_lookup.find_job(deps, visible_queues, job)
            return await job_lookup.describe_job(deps, found, spec=spec)

        def is_wanted(found: job_responses.JobDetailResponse) -> bool:
            return not etags.is_known(if_none_match, _make_tag(found))

        wait_s = query_validation.parse_wait_s(wait)
        found = await read_when_exists(deps, wait_s, read)
        if if_none_match is not None and not is_wanted(found):
            partition = ids.partition_of_job(found.id)
            found = await read_until(deps, partition, wait_s, read, is_wanted)
        headers = {"ETag": _make_tag(found)}
        if etags.is_known(if_none_match, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return json_response(found, headers)


def _make_tag(job: job_responses.JobDetailResponse) -> str:
    """A tag that changes with the job and with why it waits, but not with its queue position."""
    code = None if job.why is None else job.why.code
    return make_etag([code, msgspec.structs.replace(job, why=None, position_in_queue=None)])
