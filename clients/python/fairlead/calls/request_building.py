"""Building requests from paths and bodies, and decoding responses into structs. No I/O."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from fairlead import errors
from fairlead.calls import exchange_types
from fairlead.calls.exchange_types import Reply, Request
from fairlead.models.job_models import Problem
from fairlead.models.model_bases import ResponseModel

T = TypeVar("T")
A = TypeVar("A", bound=ResponseModel)
Query = Iterable[tuple[str, str]]

API: Final = "/api/v1"
PAGE: Final = 500
LONG_POLL_SLACK_S: Final = 45.0
"""The server can first wait the same time for the given position."""

_JSON: Final = ("content-type", "application/json")


class _Page(ResponseModel, frozen=True, kw_only=True):
    next: str | None = None


def build_get(
    path: str, query: Query = (), *, read_s: float | None = exchange_types.REQUEST_READ_S
) -> Request:
    """A GET request. `path` is relative to the root of the API."""
    return Request(path=API + path, query=tuple(query), read_s=read_s)


def build_post(
    path: str, body: object, *, query: Query = (), repeatable: bool = True, method: str = "POST"
) -> Request:
    """A POST or PUT request with a JSON body. `repeatable`: it is idempotent."""
    return Request(
        method=method,
        path=API + path,
        query=tuple(query),
        headers=(_JSON,),
        body=msgspec.json.encode(body),
        repeatable=repeatable,
    )


def build_delete(path: str, *, repeatable: bool = True) -> Request:
    """A DELETE request. `path` is relative to the root of the API."""
    return Request(method="DELETE", path=API + path, repeatable=repeatable)


def build_page_request(path: str, query: Query, cursor: str | None) -> Request:
    """The request for one page of a list: the first page without a cursor."""
    fixed = (*query, ("limit", str(PAGE)))
    return build_get(path, fixed if cursor is None else (*fixed, ("cursor", cursor)))


def build_change_poll(path: str, etag: str | None, wait_s: float, after: str | None) -> Request:
    """A long poll: the server responds when the resource has another ETag, or after `wait_s`."""
    return Request(
        path=API + path,
        query=(*make_position_query(after, None), ("wait", format_duration(wait_s))),
        headers=(("if-none-match", etag),) if etag else (),
        read_s=wait_s + LONG_POLL_SLACK_S,
    )


def build_finish_poll(path: str, wait_s: float, after: str | None) -> Request:
    """A long poll: the server responds when all jobs of a job set have ended, or after `wait_s`."""
    query = (
        *make_position_query(after, None),
        ("until", "finished"),
        ("wait", format_duration(wait_s)),
    )
    return build_get(path, query, read_s=wait_s + LONG_POLL_SLACK_S)


def build_log_request(
    job_id: str,
    *,
    stream: str,
    follow: bool,
    after: str | None,
    run: int | None,
    container: str | None,
    tail: int | None,
    since: str | None,
    received: int,
) -> Request:
    """The request for a run's log: from the byte `received` on, its last `tail` lines, or the lines
    written since a time.
    """
    query = [
        ("stream", stream),
        ("follow", "true" if follow else "false"),
        *make_position_query(after, None),
    ]
    if run is not None:
        query.append(("run", str(run)))
    if container is not None:
        query.append(("container", container))
    if tail is not None:
        query.append(("tail", str(tail)))
    if since is not None:
        query.append(("sinceTime", since))
    if received:
        query.append(("sinceBytes", str(received)))
    return build_get(f"/jobs/{escape_segment(job_id)}/logs", query, read_s=None)


def check_reply(reply: Reply) -> Reply:
    """The response if it is a success. Raises `RequestRefused`."""
    if reply.status >= 300:
        raise errors.build_refusal(read_problem(reply))
    return reply


def decode_reply(reply: Reply, kind: type[A]) -> A:
    """A successful response as this struct. Raises `RequestRefused`."""
    return decode(check_reply(reply).body, kind)


def decode(body: bytes, kind: type[T]) -> T:
    """A body as this type. Raises `UnexpectedResponse` if it cannot be decoded."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise errors.UnexpectedResponse(
            f"The server's response cannot be decoded: {error}. Check that the server at this"
            " address is Fairlead, and that its version is that of this client."
        ) from error


def decode_items(reply: Reply, key: str, kind: type[A]) -> list[A]:
    """The items under `key` of a successful response. Raises `RequestRefused`."""
    found = decode(check_reply(reply).body, dict[str, msgspec.Raw])
    return decode(bytes(found.get(key, b"null")), list[kind])  # type: ignore[valid-type]


def read_next_cursor(reply: Reply) -> str | None:
    """The cursor of the page after this one, if there is one."""
    return decode(reply.body, _Page).next


def read_problem(reply: Reply) -> Problem:
    """The problem document of an error response. Without one, its text becomes the detail."""
    if reply.headers.get("content-type", "").startswith("application/problem+json"):
        problem = decode(reply.body, Problem)
        return msgspec.structs.replace(problem, status=reply.status)
    is_page = "html" in reply.headers.get("content-type", "")
    text = "a page" if is_page else reply.body[:200].decode("utf-8", "replace").strip()
    return Problem(status=reply.status, title=f"HTTP status {reply.status}", detail=text)


def make_query(values: Mapping[str, str | bool | None]) -> list[tuple[str, str]]:
    """The query parameters whose value is not None."""
    return [
        (name, str(value).lower() if isinstance(value, bool) else value)
        for name, value in values.items()
        if value is not None
    ]


def make_position_query(after: str | None, wait_s: float | None) -> tuple[tuple[str, str], ...]:
    """The parameters of a read that includes the position `after`, for which the server waits at
    most `wait_s`.
    """
    if after is None:
        return ()
    return (("after", after), *((("wait", format_duration(wait_s)),) if wait_s is not None else ()))


def make_dry_run_query(dry_run: bool) -> tuple[tuple[str, str], ...]:
    """The parameter of a dry run."""
    return (("dryRun", "true"),) if dry_run else ()


def format_duration(s: float) -> str:
    """A duration in the API's format: `30s`, `1500ms`."""
    ms = round(s * 1000)
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def escape_segment(text: str) -> str:
    """One segment of a path, escaped."""
    return quote(text, safe="")


def job_set_path(queue: str, job_set: str) -> str:
    """The path of a job set."""
    return f"/jobsets/{escape_segment(queue)}/{escape_segment(job_set)}"
