"""Lists as CSV or NDJSON, streamed page by page: of the API, and of what pages show."""

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import Header, Query
from fastapi.responses import StreamingResponse

from fairlead_common.web.fair_semaphore import FairSemaphore
from fairlead_lookout.http.deps import Deps, Slot
from fairlead_lookout.http.responses.json_answers import NDJSON

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
Rows = Sequence[msgspec.Struct]
NextPage = Callable[[str | None], Awaitable[tuple[Rows, str | None]]]


class ListExport(msgspec.Struct, frozen=True):
    """A list: its name, the type of its rows, and how to read the page after a cursor."""

    name: str
    kind: type[msgspec.Struct]
    read_page: NextPage


def split_rows(read: Callable[[], Awaitable[Rows]]) -> NextPage:
    """The pages of a list that is read at once; it is read again only for another export."""
    rows: Rows = ()

    async def read_page(cursor: str | None) -> tuple[Rows, str | None]:
        nonlocal rows
        if cursor is None:
            rows = await read()
        begin = int(cursor or 0)
        end = begin + ROWS
        return rows[begin:end], str(end) if end < len(rows) else None

    return read_page


async def stream_list(
    deps: Deps, export: ListExport, format_: str | None, accept: str
) -> StreamingResponse:
    """The rows of all pages, streamed in this format, or else as the header `Accept` says. Raises
    what reading the first page raises."""
    format_ = format_ or ("ndjson" if NDJSON in accept else "csv")
    async with deps.exports.shares.place():
        first = await export.read_page(None)
    slot = Slot(deps, "streams")
    slot.check()
    names = [field.encode_name for field in msgspec.structs.fields(export.kind)]
    write = _encode_ndjson if format_ == "ndjson" else _make_csv_writer(names)
    begin = b"" if format_ == "ndjson" else _encode_csv([names])
    return StreamingResponse(
        _write_pages(deps.exports.shares, slot, begin, first, export.read_page, write),
        media_type=NDJSON if format_ == "ndjson" else f"{CSV}; charset=utf-8",
        headers={
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{export.name}.{format_}"',
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
    if isinstance(value, (dict, list, tuple, bool)):
        return msgspec.json.encode(value).decode()
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


def _encode_csv(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
