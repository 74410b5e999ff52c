"""Routes that export lists as CSV or NDJSON, streamed page by page."""

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.web.fair_semaphore import FairSemaphore
from fairlead_common.web.query_validation import After, Wait
from fairlead_lookout.http import job_responses, responses
from fairlead_lookout.http.api.job_routes import BY_NAME, NEWEST, JobFilterQuery, Sort
from fairlead_lookout.http.deps import Deps, ExportDeps, Slot
from fairlead_lookout.http.export_responses import JobWithSubmission, add_submission
from fairlead_lookout.http.json_answers import NDJSON, document_responses
from fairlead_lookout.http.long_polls import wait_for_position
from fairlead_lookout.http.request_parameters import Text
from fairlead_lookout.store.queries.list_filters import JobSetFilter

ROWS: Final = 500
"""Rows of a page: the event loop is blocked while they are encoded."""
CSV: Final = "text/csv"
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets take a cell that starts with one of these for a formula: it gets an apostrophe."""

Format = Annotated[
    Literal["csv", "ndjson"] | None,
    Query(description="The default is the format in `Accept`, or CSV."),
]
Accept = Annotated[str, Header(max_length=500)]
Include = Annotated[
    Literal["submission"] | None,
    Query(
        description="`submission`: the fields that decide where and when each job runs, as JSON."
    ),
]
Rows = Sequence[responses.ResponseBody]
NextPage = Callable[[str | None], Awaitable[tuple[Rows, str | None]]]


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

        async with deps.exports.shares.place():
            first = await read_page(None)
        kind = responses.ExportedJob if include is None else JobWithSubmission
        return stream_list(deps, "jobs", kind, first, read_page, _choose_format(format, accept))

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
            return responses.describe_job_sets(page).job_sets, page.next

        async with deps.exports.shares.place():
            first = await read_page(None)
        return stream_list(
            deps,
            "jobsets",
            responses.JobSetResponse,
            first,
            read_page,
            _choose_format(format, accept),
        )


async def _add_labels_and_requests(
    exports: ExportDeps, jobs: Sequence[responses.JobResponse]
) -> Rows:
    known = await exports.view.read_labels_and_requests([job.id for job in jobs])
    return [job_responses.describe_exported_job(job, known.get(job.id)) for job in jobs]


async def _add_submissions(exports: ExportDeps, jobs: Sequence[responses.JobResponse]) -> Rows:
    known = await exports.view.read_submissions([job.id for job in jobs])
    return [add_submission(job, *known[job.id]) for job in jobs if job.id in known]


def _choose_format(format_: str | None, accept: str) -> str:
    return format_ or ("ndjson" if NDJSON in accept else "csv")


def stream_list(
    deps: Deps,
    name: str,
    kind: type[responses.ResponseBody],
    first: tuple[Rows, str | None],
    read_page: NextPage,
    format_: str,
) -> StreamingResponse:
    """The rows of all pages, streamed in this format."""
    slot = Slot(deps, "streams")
    slot.check()
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    write = _encode_ndjson if format_ == "ndjson" else _make_csv_writer(names)
    begin = b"" if format_ == "ndjson" else _encode_csv([names])
    return StreamingResponse(
        _write_pages(deps.exports.shares, slot, begin, first, read_page, write),
        media_type=NDJSON if format_ == "ndjson" else f"{CSV}; charset=utf-8",
        headers={
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{name}.{format_}"',
        },
    )


async def _write_pages(
    shares: FairSemaphore,
    slot: Slot,
    begin: bytes,
    first: tuple[Rows, str | None],
    read_page: NextPage,
    write: Callable[[Rows], bytes],
) -> AsyncIterator[bytes]:
    """One page at a time, and only one in memory. The exports of a caller alternate."""
    with slot:
        if begin:
            yield begin
        rows, following = first
        written = write(rows) if rows else b""
        while True:
            if written:
                yield written
            if following is None:
                return
            async with shares.place():
                rows, following = await read_page(following)
                written = write(rows) if rows else b""


def _encode_ndjson(rows: Rows) -> bytes:
    encode = msgspec.json.encode
    return b"".join(encode(row) + b"\n" for row in rows)


def _make_csv_writer(names: Sequence[str]) -> Callable[[Rows], bytes]:
    def write(rows: Rows) -> bytes:
        decoded = (msgspec.to_builtins(row) for row in rows)
        return _encode_csv([_encode_cell(row, name) for name in names] for row in decoded)

    return write


def _encode_cell(row: Mapping[str, Any], name: str) -> object:
    value = row.get(name, "")
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


def _encode_csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
