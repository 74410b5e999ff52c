"""Routes that export lists as CSV or NDJSON."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.web.requests.query_validation import After, Wait
from fairlead_lookout.http.api.jobs.job_routes import BY_NAME, NEWEST, Sort
from fairlead_lookout.http.deps import Deps, ExportDeps
from fairlead_lookout.http.list_exports import (
    CSV,
    ROWS,
    Accept,
    Format,
    ListExport,
    Rows,
    stream_list,
)
from fairlead_lookout.http.long_polls import wait_for_position
from fairlead_lookout.http.request_parameters import JobFilterQuery, Text
from fairlead_lookout.http.responses import job_responses, job_set_responses
from fairlead_lookout.http.responses.export_responses import JobWithSubmission, add_submission
from fairlead_lookout.http.responses.json_answers import NDJSON, document_responses
from fairlead_lookout.store.queries.list_filters import JobSetFilter

Include = Annotated[
    Literal["submission"] | None,
    Query(
        description="`submission`: the fields that decide where and when each job runs, as JSON."
    ),
]


def add_routes(router: APIRouter, deps: Deps) -> None:
    """`export.csv` of jobs and of job sets."""
    VisibleQueues = Annotated[QueueScope, Depends(deps.visibility)]

    @router.get(
        "/jobs/export.csv",
        summary="All jobs of a filter, as CSV or NDJSON",
        openapi_extra=BY_NAME,
        responses=document_responses(
            str, "One line per job, after a line with the column names.", 400, media=(CSV, NDJSON)
        ),
    )
    async def export_jobs(
        visible_queues: VisibleQueues,
        selected: JobFilterQuery,
        sort: Sort = NEWEST,
        format: Format = None,
        accept: Accept = CSV,
        include: Include = None,
        after: After = None,
        wait: Wait = None,
    ) -> StreamingResponse:
        wanted = msgspec.structs.replace(selected, visible_queues=visible_queues)
        await wait_for_position(deps, after, wait)

        async def read_page(cursor: str | None) -> tuple[Rows, str | None]:
            page = await deps.exports.lists.read_page(wanted, ROWS, cursor, sort)
            jobs = job_responses.describe_jobs(page.jobs, deps.clusters)
            if include is not None:
                return await _add_submissions(deps.exports, jobs), page.next
            return await _add_labels_and_requests(deps.exports, jobs), page.next

        kind = job_responses.ExportedJob if include is None else JobWithSubmission
        export = ListExport("jobs", kind, read_page)
        return await stream_list(deps, export, format, accept)

    @router.get(
        "/jobsets/export.csv",
        summary="All job sets of a filter, as CSV or NDJSON",
        responses=document_responses(
            str,
            "One line per job set, after a line with the column names.",
            400,
            media=(CSV, NDJSON),
        ),
    )
    async def export_job_sets(
        visible_queues: VisibleQueues,
        queue: Text = None,
        active: bool | None = None,
        q: Text = None,
        format: Format = None,
        accept: Accept = CSV,
        after: After = None,
        wait: Wait = None,
    ) -> StreamingResponse:
        wanted = JobSetFilter(
            visible_queues=visible_queues, queue=queue, active=active, q=q or None
        )
        await wait_for_position(deps, after, wait)

        async def read_page(cursor: str | None) -> tuple[Rows, str | None]:
            page = await deps.exports.view.read_job_sets(wanted, ROWS, cursor)
            return job_set_responses.describe_job_sets(page).job_sets, page.next

        export = ListExport("jobsets", job_set_responses.JobSetResponse, read_page)
        return await stream_list(deps, export, format, accept)


async def _add_labels_and_requests(
    exports: ExportDeps, jobs: Sequence[job_responses.JobResponse]
) -> Rows:
    known = await exports.view.read_labels_and_requests([job.id for job in jobs])
    return [job_responses.describe_exported_job(job, known.get(job.id)) for job in jobs]


async def _add_submissions(exports: ExportDeps, jobs: Sequence[job_responses.JobResponse]) -> Rows:
    known = await exports.view.read_submissions([job.id for job in jobs])
    return [add_submission(job, *known[job.id]) for job in jobs if job.id in known]
