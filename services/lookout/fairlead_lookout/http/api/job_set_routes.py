"""Routes of job sets."""

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Depends, Response

from fairlead_common.domain import durations
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.web import etags
from fairlead_common.web.query_validation import After, Wait
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.http import responses
from fairlead_lookout.http.deps import Parts
from fairlead_lookout.http.long_polls import (
    Cursor,
    IfNoneMatch,
    JobSetName,
    Limit,
    QueueName,
    Text,
    answer,
    appeared,
    changed,
    come_to,
    find_set,
)
from fairlead_lookout.http.openapi import answers
from fairlead_lookout.store.queries.view_reader import SetFilter


def add_routes(router: APIRouter, parts: Parts) -> None:
    """Lists of job sets and single ones."""
    Seen = Annotated[QueueScope, Depends(parts.sight)]

    @router.get(
        "/jobsets",
        summary="Job sets with their counts, latest activity first",
        responses=answers(responses.JobSetsShown, "Job sets, newest first.", 400),
    )
    async def list_job_sets(
        reach: Seen,
        queue: Text = None,
        active: bool | None = None,
        q: Text = None,
        limit: Limit = 100,
        cursor: Cursor = None,
        include: Literal["count"] | None = None,
        after: After = None,
        wait: Wait = None,
    ) -> Response:
        await come_to(parts, after, wait)
        wanted = SetFilter(reach=reach, queue=queue, active=active, q=q or None)
        page = await parts.view.job_sets(wanted, limit, cursor)
        if include is not None:
            page = msgspec.structs.replace(page, count=await parts.view.count_sets(wanted))
        return answer(page)

    @router.get(
        "/jobsets/{queue}/{job_set:path}",
        summary="One job set; with `wait`, once it has changed or finished",
        responses=answers(responses.JobSetShown, "The job set.", 304, 400, 404),
    )
    async def get_job_set(
        reach: Seen,
        queue: QueueName,
        job_set: JobSetName,
        wait: Wait = None,
        until: Literal["finished"] | None = None,
        after: After = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        await come_to(parts, after, wait)

        async def read() -> JobSet:
            return await find_set(parts, reach, queue, job_set)

        def is_wanted(found: JobSet) -> bool:
            return found.live == 0 if until else not etags.is_known(if_none_match, tag_of(found))

        wait_s = durations.wait_s(wait)
        first = await appeared(parts, wait_s, read)
        known = (
            first
            if is_wanted(first)
            else (await changed(parts, first.partition, wait_s, read, is_wanted))
        )
        tag = {"ETag": tag_of(known)}
        if until is None and etags.is_known(if_none_match, tag["ETag"]):
            return Response(status_code=304, headers=tag)
        return answer(await parts.view.show_set(known), tag)


def tag_of(known: JobSet) -> str:
    """Changes with every message about the job set."""
    return f'"{known.position}"'
