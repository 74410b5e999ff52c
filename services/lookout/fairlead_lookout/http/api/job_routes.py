"""Routes of jobs: lists, groups, one job with all that is known of it."""

from typing import Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from fairlead_common.domain import durations, ids
from fairlead_common.domain.permissions import ALL_QUEUES, QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.secret_values import without_sealed
from fairlead_common.service import clock
from fairlead_common.web import etags
from fairlead_common.web.openapi_texts import PREFIXES
from fairlead_common.web.query_validation import After, Wait, validated_by
from fairlead_lookout.http import list_filters, queue_position, responses, waiting_reasons
from fairlead_lookout.http.deps import Parts
from fairlead_lookout.http.list_filters import JobFilter
from fairlead_lookout.http.long_polls import (
    Cursor,
    IfNoneMatch,
    JobIdOf,
    Limit,
    Text,
    answer,
    appeared,
    changed,
    come_to,
    etag,
)
from fairlead_lookout.http.openapi import answers
from fairlead_lookout.store.queries import job_lists
from fairlead_lookout.store.queries.view_reader import JobFound

Name = Annotated[str | None, Query(max_length=256)]
BY_NAME: Final = {PREFIXES: [list_filters.LABEL, list_filters.ANNOTATION]}


def asked(
    request: Request,
    queue: Text = None,
    job_set: Annotated[str | None, Query(alias="jobSet", max_length=256)] = None,
    state: Annotated[
        Annotated[str, validated_by(list_filters.check_states)] | None, Query(max_length=300)
    ] = None,
    class_: Annotated[str | None, Query(alias="class", max_length=300)] = None,
    cluster: Name = None,
    node: Name = None,
    category: Annotated[str | None, Query(max_length=100)] = None,
    submitted_after: Annotated[
        list_filters.Time | None,
        Query(alias="submittedAfter", max_length=40, description="RFC 3339."),
    ] = None,
    q: Annotated[
        str | None,
        Query(max_length=300, description="Part of a client id or job set, or an id's beginning."),
    ] = None,
) -> JobFilter:
    """The filter that a query describes, `label.K=V` and `annotation.K=V` included."""
    parameters = request.query_params.multi_items()
    return JobFilter(
        queue=queue,
        job_set=job_set,
        states=list_filters.states(state, category),
        classes=list_filters.words(class_),
        cluster=cluster,
        node=node,
        category=category,
        labels=list_filters.named(parameters, list_filters.LABEL),
        annotations=list_filters.named(parameters, list_filters.ANNOTATION),
        submitted_after_ms=None
        if submitted_after is None
        else list_filters.time_ms(submitted_after),
        q=q or None,
    )


Asked = Annotated[JobFilter, Depends(asked)]
Sort = Annotated[
    str,
    validated_by(job_lists.check_sort),
    Query(
        max_length=30,
        description="submitted, changed, started, ended or priority; with a minus: descending.",
    ),
]
NEWEST: Final = "-submitted"


def add_routes(router: APIRouter, parts: Parts) -> None:
    """Lists and single jobs."""
    Seen = Annotated[QueueScope, Depends(parts.sight)]

    @router.get(
        "/jobs",
        summary="Jobs, newest first, or counts by group",
        openapi_extra=BY_NAME,
        responses=answers(
            (responses.JobsShown, responses.GroupsShown),
            "Jobs, newest first, or counts by group.",
            400,
        ),
    )
    async def list_jobs(
        reach: Seen,
        found: Asked,
        group_by: Annotated[
            Annotated[str, validated_by(list_filters.dimensions)] | None,
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
        wanted = msgspec.structs.replace(found, reach=reach)
        by = None if group_by is None else list_filters.dimensions(group_by)
        if by is not None and cursor is not None:
            raise list_filters.refusal("cursor", "Groups come on one page: raise `limit` instead.")
        await come_to(parts, after, wait)
        if by is not None:
            return answer(await parts.lists.groups(wanted, by, limit))
        jobs, following = await parts.lists.page(wanted, limit, cursor, sort)
        count = await parts.lists.count(wanted) if include is not None else None
        return answer(responses.JobsShown(jobs=jobs, next=following, count=count))

    @router.get(
        "/jobs/{job:path}",
        summary="Everything about a job; with `If-None-Match` and `wait`, once it has changed",
        responses=answers(responses.JobDetailShown, "The job.", 304, 400, 404),
    )
    async def get_job(
        reach: Seen,
        job_id: JobIdOf,
        spec: bool = False,
        after: After = None,
        wait: Wait = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        await come_to(parts, after, wait)

        async def read() -> responses.JobDetailShown:
            return await describe(parts, job_id, reach, spec=spec)

        def is_wanted(described: responses.JobDetailShown) -> bool:
            return not etags.is_known(if_none_match, tag(described))

        wait_s = durations.wait_s(wait)
        known = await appeared(parts, wait_s, read)
        if if_none_match is not None and not is_wanted(known):
            partition = ids.partition_of_job(job_id)
            known = await changed(parts, partition, wait_s, read, is_wanted)
        headers = {"ETag": tag(known)}
        if etags.is_known(if_none_match, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        return answer(known, headers)


def tag(described: responses.JobDetailShown) -> str:
    """Changes with the job and with why it waits, not with every move of the queue before it."""
    known = described.why
    reason = None if known is None else responses.WhyShown(code=known.code, sentence="")
    return etag(msgspec.structs.replace(described, why=reason, position_in_queue=None))


async def find(parts: Parts, job_id: str, reach: QueueScope) -> JobFound:
    """What is known of a job. Raises a 404 `Problem`, also for whoever may not view its queue."""
    found = await parts.view.job(job_id)
    if found is None or found.row["queue"] not in reach:
        raise Problem("not-found", f"There is no job {job_id!r}.")
    return found


async def describe(
    parts: Parts, job_id: str, reach: QueueScope = ALL_QUEUES, *, spec: bool
) -> responses.JobDetailShown:
    """Everything about a job. Raises a 404 `Problem`."""
    found = await find(parts, job_id, reach)
    said = found.submitted
    now_ms = clock.now_ms()
    row = responses.job(found.row, now_ms, found.waits_for_others, found.client_ids)
    return responses.JobDetailShown(
        **msgspec.structs.asdict(row),
        why=waiting_reasons.explain(
            found, parts.reports, parts.quarantine.stopped_partitions(), now_ms
        ),
        position_in_queue=await queue_position.position(parts, found),
        runs=[responses.run(row) for row in found.runs],
        namespace=said.namespace,
        labels=said.labels,
        annotations=said.annotations,
        after=said.after,
        hold=found.row["held"],
        start_after=responses.time(said.start_after_ms),
        max_queue_seconds=said.queue_s_max,
        max_runtime_seconds=said.runtime_s_max,
        gang=said.gang,
        retry=said.retry,
        on_preemption=said.on_preemption,
        spec=without_sealed(said.spec) if spec else None,
    )
