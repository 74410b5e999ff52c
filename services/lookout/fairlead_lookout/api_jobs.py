"""Routes of jobs: lists, groups, one job with all that is known of it."""

from typing import Annotated, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from fairlead_common import clock, durations, etags, ids
from fairlead_common.openapi_words import PREFIXES
from fairlead_common.parameters import After, Wait, readable
from fairlead_common.permissions import EVERYTHING, Reach
from fairlead_common.problems import Problem
from fairlead_common.secret_values import without_sealed
from fairlead_lookout import filters, lists, shown, standing, why
from fairlead_lookout.asking import (
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
from fairlead_lookout.filters import JobFilter
from fairlead_lookout.openapi import answers
from fairlead_lookout.parts import Parts
from fairlead_lookout.reads import JobFound

Name = Annotated[str | None, Query(max_length=256)]
BY_NAME: Final = {PREFIXES: [filters.LABEL, filters.ANNOTATION]}


def asked(
    request: Request,
    queue: Text = None,
    job_set: Annotated[str | None, Query(alias="jobSet", max_length=256)] = None,
    state: Annotated[
        Annotated[str, readable(filters.check_states)] | None, Query(max_length=300)
    ] = None,
    class_: Annotated[str | None, Query(alias="class", max_length=300)] = None,
    cluster: Name = None,
    node: Name = None,
    category: Annotated[str | None, Query(max_length=100)] = None,
    submitted_after: Annotated[
        filters.Time | None,
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
        states=filters.states(state, category),
        classes=filters.words(class_),
        cluster=cluster,
        node=node,
        category=category,
        labels=filters.named(parameters, filters.LABEL),
        annotations=filters.named(parameters, filters.ANNOTATION),
        submitted_after_ms=None if submitted_after is None else filters.time_ms(submitted_after),
        q=q or None,
    )


Asked = Annotated[JobFilter, Depends(asked)]
Sort = Annotated[
    str,
    readable(lists.check_sort),
    Query(
        max_length=30,
        description="submitted, changed, started, ended or priority; with a minus: descending.",
    ),
]
NEWEST: Final = "-submitted"


def add_routes(router: APIRouter, parts: Parts) -> None:
    """Lists and single jobs."""
    Seen = Annotated[Reach, Depends(parts.sight)]

    @router.get(
        "/jobs",
        summary="Jobs, newest first, or counts by group",
        openapi_extra=BY_NAME,
        responses=answers(
            (shown.JobsShown, shown.GroupsShown), "Jobs, newest first, or counts by group.", 400
        ),
    )
    async def list_jobs(
        reach: Seen,
        found: Asked,
        group_by: Annotated[
            Annotated[str, readable(filters.dimensions)] | None,
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
        by = None if group_by is None else filters.dimensions(group_by)
        if by is not None and cursor is not None:
            raise filters.refusal("cursor", "Groups come on one page: raise `limit` instead.")
        await come_to(parts, after, wait)
        if by is not None:
            return answer(await parts.lists.groups(wanted, by, limit))
        jobs, following = await parts.lists.page(wanted, limit, cursor, sort)
        count = await parts.lists.count(wanted) if include is not None else None
        return answer(shown.JobsShown(jobs=jobs, next=following, count=count))

    @router.get(
        "/jobs/{job:path}",
        summary="Everything about a job; with `If-None-Match` and `wait`, once it has changed",
        responses=answers(shown.JobDetailShown, "The job.", 304, 400, 404),
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

        async def read() -> shown.JobDetailShown:
            return await describe(parts, job_id, reach, spec=spec)

        def is_wanted(described: shown.JobDetailShown) -> bool:
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


def tag(described: shown.JobDetailShown) -> str:
    """Changes with the job and with why it waits, not with every move of the queue before it."""
    known = described.why
    reason = None if known is None else shown.WhyShown(code=known.code, sentence="")
    return etag(msgspec.structs.replace(described, why=reason, position_in_queue=None))


async def find(parts: Parts, job_id: str, reach: Reach) -> JobFound:
    """What is known of a job. Raises a 404 `Problem`, also for whoever may not view its queue."""
    found = await parts.view.job(job_id)
    if found is None or found.row["queue"] not in reach:
        raise Problem("not-found", f"There is no job {job_id!r}.")
    return found


async def describe(
    parts: Parts, job_id: str, reach: Reach = EVERYTHING, *, spec: bool
) -> shown.JobDetailShown:
    """Everything about a job. Raises a 404 `Problem`."""
    found = await find(parts, job_id, reach)
    said = found.submitted
    now_ms = clock.now_ms()
    row = shown.job(found.row, now_ms, found.waits_for_others, found.client_ids)
    return shown.JobDetailShown(
        **msgspec.structs.asdict(row),
        why=why.explain(found, parts.reports, parts.quarantine.stopped_partitions(), now_ms),
        position_in_queue=await standing.position(parts, found),
        runs=[shown.run(row) for row in found.runs],
        namespace=said.namespace,
        labels=said.labels,
        annotations=said.annotations,
        after=said.after,
        hold=found.row["held"],
        start_after=shown.time(said.start_after_ms),
        max_queue_seconds=said.queue_s_max,
        max_runtime_seconds=said.runtime_s_max,
        gang=said.gang,
        retry=said.retry,
        on_preemption=said.on_preemption,
        spec=without_sealed(said.spec) if spec else None,
    )
