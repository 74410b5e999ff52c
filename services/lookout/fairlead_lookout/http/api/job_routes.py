"""Routes of jobs: lists, groups, and everything about one job."""

from typing import Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from fairlead_common.domain import ids
from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import configuration
from fairlead_common.domain.secret_values import without_sealed
from fairlead_common.service import clock
from fairlead_common.web import etags, query_validation
from fairlead_common.web.openapi import PREFIXES
from fairlead_common.web.query_validation import After, Wait, validated_by
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.long_polls import read_until, read_when_exists, wait_for_position
from fairlead_lookout.http.request_parameters import (
    Cursor,
    IfNoneMatch,
    JobReference,
    Limit,
    Text,
    Time,
    check_states,
    parse_dimensions,
    parse_prefixed,
    parse_states,
    parse_time_ms,
    parse_words,
)
from fairlead_lookout.http.responses import job_responses, response_base
from fairlead_lookout.http.responses.json_answers import (
    document_responses,
    json_response,
    make_etag,
)
from fairlead_lookout.http.waiting_reasons import explain_waiting
from fairlead_lookout.store.queries import array_lists
from fairlead_lookout.store.queries.job_lists import check_sort
from fairlead_lookout.store.queries.list_filters import (
    ANNOTATION,
    LABEL,
    JobFilter,
    invalid_parameter,
)
from fairlead_lookout.store.queries.view_reader import JobRecord

Name = Annotated[str | None, Query(max_length=256)]
BY_NAME: Final = {PREFIXES: [LABEL, ANNOTATION]}


def parse_job_filter(
    request: Request,
    queue: Text = None,
    job_set: Annotated[str | None, Query(alias="jobSet", max_length=256)] = None,
    state: Annotated[
        Annotated[str, validated_by(check_states)] | None, Query(max_length=300)
    ] = None,
    class_: Annotated[str | None, Query(alias="class", max_length=300)] = None,
    cluster: Name = None,
    node: Name = None,
    category: Annotated[str | None, Query(max_length=100)] = None,
    submitted_after: Annotated[
        Time | None,
        Query(alias="submittedAfter", max_length=40, description="RFC 3339."),
    ] = None,
    q: Annotated[
        str | None,
        Query(max_length=300, description="Part of a client id or job set, or an id's beginning."),
    ] = None,
) -> JobFilter:
    """The filter of a query, `label.K=V` and `annotation.K=V` included. A parameter without a value
    does not restrict, as forms of pages send all their fields."""
    parameters = request.query_params.multi_items()
    return JobFilter(
        queue=queue or None,
        job_set=job_set or None,
        states=parse_states(state, category or None),
        classes=parse_words(class_),
        cluster=cluster or None,
        node=node or None,
        category=category or None,
        labels=parse_prefixed(parameters, LABEL),
        annotations=parse_prefixed(parameters, ANNOTATION),
        submitted_after_ms=None if submitted_after is None else parse_time_ms(submitted_after),
        q=q or None,
    )


JobFilterQuery = Annotated[JobFilter, Depends(parse_job_filter)]
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
            (job_responses.JobsResponse, job_responses.GroupsResponse),
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
                job_responses.GroupsResponse(
                    groups=[
                        job_responses.GroupResponse(group=g, jobs=jobs) for g, jobs in found.groups
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
            return await describe_job(deps, job, visible_queues, spec=spec)

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


async def find_job(deps: Deps, job: str, visible_queues: QueueScope) -> JobRecord:
    """The job with this id or `queue/jobSet/clientId`. Raises a 404 `Problem`, also if the caller
    may not view its queue.
    """
    job_id = await _choose_id(deps, job, visible_queues)
    found = await deps.view.read_job(job_id)
    if found is None:
        found = await array_lists.read_waiting_task(deps.view, job_id)
    if found is None or found.row["queue"] not in visible_queues:
        raise Problem("not-found", f"Job {job!r} does not exist.")
    return found


async def _choose_id(deps: Deps, job: str, visible_queues: QueueScope) -> str:
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
    deps: Deps, job: str, visible_queues: QueueScope = ALL_QUEUES, *, spec: bool
) -> job_responses.JobDetailResponse:
    """Everything about a job. Raises a 404 `Problem`."""
    return await describe_record(deps, await find_job(deps, job, visible_queues), spec=spec)


async def _read_queue_position(deps: Deps, found: JobRecord) -> str | None:
    """The job's position; None in a queue with `order: fair`, whose order only the scheduler knows:
    the reason why the job waits says how many are ahead."""
    queue = deps.configuration.find_queue(found.row["queue"])
    if queue is not None and queue.order == configuration.FAIR:
        return None
    return await deps.view.read_queue_position(found.row, deps.class_values)


async def describe_record(
    deps: Deps, found: JobRecord, *, spec: bool
) -> job_responses.JobDetailResponse:
    """The same for a job that has been read."""
    submitted = found.submitted
    now_ms = clock.now_ms()
    others = found.dependencies
    listed = job_responses.describe_job(
        found.row, now_ms, others.are_open, others.client_ids, deps.clusters
    )
    return job_responses.JobDetailResponse(
        **msgspec.structs.asdict(listed),
        why=explain_waiting(
            found,
            deps.reports,
            deps.clusters,
            deps.quarantine.find_stopped_partitions(),
            now_ms,
        ),
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
