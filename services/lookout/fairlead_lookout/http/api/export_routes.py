"""Lists as files: what a filter finds as CSV or NDJSON, streamed page by page."""

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
from fairlead_lookout.http import export_responses, responses
from fairlead_lookout.http.api.job_routes import BY_NAME, NEWEST, Asked, Sort
from fairlead_lookout.http.deps import Parts, Place
from fairlead_lookout.http.long_polls import NDJSON, Text, come_to
from fairlead_lookout.http.openapi import answers
from fairlead_lookout.store.queries.view_reader import SetFilter

ROWS: Final = 500
"""Of a page: the event loop is held while they are written."""
CSV: Final = "text/csv"
_RISKY: Final = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins so is taken for a formula by spreadsheets: it gets an apostrophe before it."""

Format = Annotated[
    Literal["csv", "ndjson"] | None,
    Query(description="Else what `Accept` says; CSV if that says nothing."),
]
Accept = Annotated[str, Header(max_length=500)]
Include = Annotated[
    Literal["submission"] | None,
    Query(description="`submission`: what decides where and when each job runs, as JSON."),
]
Rows = Sequence[responses.JobShown] | Sequence[responses.JobSetShown]
NextPage = Callable[[str | None], Awaitable[tuple[Rows, str | None]]]


def add_routes(router: APIRouter, parts: Parts) -> None:
    """`export.csv` of jobs and of job sets."""
    Seen = Annotated[QueueScope, Depends(parts.sight)]

    @router.get(
        "/jobs/export.csv",
        summary="All jobs of a filter, as CSV or NDJSON",
        openapi_extra=BY_NAME,
        responses=answers(str, "A line per job, names in the first.", 400, media=(CSV, NDJSON)),
    )
    async def export_jobs(
        reach: Seen,
        found: Asked,
        sort: Sort = NEWEST,
        format: Format = None,
        accept: Accept = CSV,
        include: Include = None,
        after: After = None,
        wait: Wait = None,
    ) -> StreamingResponse:
        wanted = msgspec.structs.replace(found, reach=reach)
        await come_to(parts, after, wait)

        async def page(cursor: str | None) -> tuple[Rows, str | None]:
            jobs, following = await parts.exports.lists.page(wanted, ROWS, cursor, sort)
            view = parts.exports.view
            if include is not None:
                return await view.with_submissions(jobs), following
            return await view.with_specs(jobs), following

        async with parts.exports.shares.place():
            first = await page(None)
        kind = responses.JobExported if include is None else export_responses.JobWithSubmission
        return _answer(parts, "jobs", kind, first, page, _format(format, accept))

    @router.get(
        "/jobsets/export.csv",
        summary="All job sets of a filter, as CSV or NDJSON",
        responses=answers(str, "A line per job set, names in the first.", 400, media=(CSV, NDJSON)),
    )
    async def export_job_sets(
        reach: Seen,
        queue: Text = None,
        active: bool | None = None,
        q: Text = None,
        format: Format = None,
        accept: Accept = CSV,
        after: After = None,
        wait: Wait = None,
    ) -> StreamingResponse:
        wanted = SetFilter(reach=reach, queue=queue, active=active, q=q or None)
        await come_to(parts, after, wait)

        async def page(cursor: str | None) -> tuple[Rows, str | None]:
            found = await parts.exports.view.job_sets(wanted, ROWS, cursor)
            return found.job_sets, found.next

        async with parts.exports.shares.place():
            first = await page(None)
        return _answer(
            parts, "jobsets", responses.JobSetShown, first, page, _format(format, accept)
        )


def _format(format_: str | None, accept: str) -> str:
    return format_ or ("ndjson" if NDJSON in accept else "csv")


def _answer(
    parts: Parts,
    name: str,
    kind: type[responses.Shown],
    first: tuple[Rows, str | None],
    page: NextPage,
    format_: str,
) -> StreamingResponse:
    place = Place(parts, "streams")
    place.check()
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    write = _ndjson if format_ == "ndjson" else _csv_of(names)
    begin = b"" if format_ == "ndjson" else _csv([names])
    return StreamingResponse(
        _written(parts.exports.shares, place, begin, first, page, write),
        media_type=NDJSON if format_ == "ndjson" else f"{CSV}; charset=utf-8",
        headers={
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{name}.{format_}"',
        },
    )


async def _written(
    shares: FairSemaphore,
    place: Place,
    begin: bytes,
    first: tuple[Rows, str | None],
    page: NextPage,
    write: Callable[[Rows], bytes],
) -> AsyncIterator[bytes]:
    """A page at a time; never more than one is in memory. Exports of a caller take turns."""
    with place:
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
                rows, following = await page(following)
                written = write(rows) if rows else b""


def _ndjson(rows: Rows) -> bytes:
    encode = msgspec.json.encode
    return b"".join(encode(row) + b"\n" for row in rows)


def _csv_of(names: Sequence[str]) -> Callable[[Rows], bytes]:
    def write(rows: Rows) -> bytes:
        decoded = (msgspec.to_builtins(row) for row in rows)
        return _csv([_cell(row, name) for name in names] for row in decoded)

    return write


def _cell(row: Mapping[str, Any], name: str) -> object:
    value = row.get(name, "")
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    if isinstance(value, str) and value.startswith(_RISKY):
        return f"'{value}"
    return value


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
