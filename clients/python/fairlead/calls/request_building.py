"""Building requests from paths and bodies, and decoding responses into structs. No I/O."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from fairlead import errors
from fairlead.calls import exchange_types
from fairlead.calls.exchange_types import Reply, Request
from fairlead.models.job_models import Answer, Problem

T = TypeVar("T")
A = TypeVar("A", bound=Answer)
Query = Iterable[tuple[str, str]]

API: Final = "/api/v1"
PAGE: Final = 500
LONG_POLL_SLACK_S: Final = 45.0
"""The server can first wait the same time for the given position."""

_JSON: Final = ("content-type", "application/json")


class _Page(Answer, frozen=True, kw_only=True):
    next: str | None = None


def get(
    path: str, query: Query = (), *, read_s: float | None = exchange_types.REQUEST_READ_S
) -> Request:
    """A read below the API's root."""
    return Request(path=API + path, query=tuple(query), read_s=read_s)


def post(
    path: str, body: object, *, query: Query = (), repeatable: bool = True, method: str = "POST"
) -> Request:
    """A change with a JSON body. `repeatable`: sending it twice has the same effect as once."""
    return Request(
        method=method,
        path=API + path,
        query=tuple(query),
        headers=(_JSON,),
        body=msgspec.json.encode(body),
        repeatable=repeatable,
    )


def delete(path: str, *, repeatable: bool = True) -> Request:
    """A removal below the API's root."""
    return Request(method="DELETE", path=API + path, repeatable=repeatable)


def page(path: str, query: Query, cursor: str | None) -> Request:
    """One page of a list: the first, or the one that the cursor names."""
    fixed = (*query, ("limit", str(PAGE)))
    return get(path, fixed if cursor is None else (*fixed, ("cursor", cursor)))


def changed(path: str, etag: str | None, wait_s: float, after: str | None) -> Request:
    """A read that is answered when its resource no longer has that ETag, after `wait_s` at most."""
    return Request(
        path=API + path,
        query=(*seen(after, None), ("wait", duration(wait_s))),
        headers=(("if-none-match", etag),) if etag else (),
        read_s=wait_s + LONG_POLL_SLACK_S,
    )


def finished(path: str, wait_s: float, after: str | None) -> Request:
    """A read of a job set that is answered when all its jobs have ended, after `wait_s` at most."""
    query = (*seen(after, None), ("until", "finished"), ("wait", duration(wait_s)))
    return get(path, query, read_s=wait_s + LONG_POLL_SLACK_S)


def log(
    job_id: str,
    *,
    stream: str,
    follow: bool,
    after: str | None,
    run: int | None,
    container: str | None,
    tail: int | None,
    received: int,
) -> Request:
    """A read of a run's log from the byte `received` on, or of its last `tail` lines."""
    query = [("stream", stream), ("follow", "true" if follow else "false"), *seen(after, None)]
    if run is not None:
        query.append(("run", str(run)))
    if container is not None:
        query.append(("container", container))
    if tail is not None:
        query.append(("tail", str(tail)))
    if received:
        query.append(("sinceBytes", str(received)))
    return get(f"/jobs/{part(job_id)}/logs", query, read_s=None)


def accepted(reply: Reply) -> Reply:
    """The response if it is a success. Raises `Refused`."""
    if reply.status >= 300:
        raise errors.refusal(problem_of(reply))
    return reply


def decoded(reply: Reply, kind: type[A]) -> A:
    """A successful response as this struct. Raises `Refused`."""
    return decode(accepted(reply).body, kind)


def decode(body: bytes, kind: type[T]) -> T:
    """A body as this type. Raises `UnexpectedAnswer` if it cannot be decoded."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise errors.UnexpectedAnswer(
            f"The server's answer cannot be decoded ({error}). Is it another version?"
        ) from error


def items(reply: Reply, key: str, kind: type[A]) -> list[A]:
    """The items under `key` of a successful response. Raises `Refused`."""
    found = decode(accepted(reply).body, dict[str, msgspec.Raw])
    return decode(bytes(found.get(key, b"null")), list[kind])  # type: ignore[valid-type]


def next_cursor(reply: Reply) -> str | None:
    """The cursor of the page after this one, if there is one."""
    return decode(reply.body, _Page).next


def problem_of(reply: Reply) -> Problem:
    """The problem document of an error response; one with its text if it has none."""
    if reply.headers.get("content-type", "").startswith("application/problem+json"):
        problem = decode(reply.body, Problem)
        return msgspec.structs.replace(problem, status=reply.status)
    is_page = "html" in reply.headers.get("content-type", "")
    text = "a page" if is_page else reply.body[:200].decode("utf-8", "replace").strip()
    return Problem(status=reply.status, title=f"HTTP status {reply.status}", detail=text)


def given(values: Mapping[str, str | bool | None]) -> list[tuple[str, str]]:
    """The parameters of a query that have a value."""
    return [
        (name, str(value).lower() if isinstance(value, bool) else value)
        for name, value in values.items()
        if value is not None
    ]


def seen(after: str | None, wait_s: float | None) -> tuple[tuple[str, str], ...]:
    """The parameters of a read that includes a position and waits at most `wait_s` for it."""
    if after is None:
        return ()
    return (("after", after), *((("wait", duration(wait_s)),) if wait_s is not None else ()))


def tried(dry_run: bool) -> tuple[tuple[str, str], ...]:
    """The parameter of a dry run."""
    return (("dryRun", "true"),) if dry_run else ()


def duration(s: float) -> str:
    """A duration in the API's format: `30s`, `1500ms`."""
    ms = round(s * 1000)
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def part(text: str) -> str:
    """One segment of a path, escaped."""
    return quote(text, safe="")


def job_set_path(queue: str, job_set: str) -> str:
    """The path of a job set."""
    return f"/jobsets/{part(queue)}/{part(job_set)}"
