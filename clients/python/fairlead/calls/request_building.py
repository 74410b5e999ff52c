"""Asking, in general: from a path and a body to a request, from an answer to a struct.

Nothing here does I/O: see `steps`. What the client can do is built from these in `submitting`,
`acting`, `looking`, `managing` and `follow`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from fairlead import errors
from fairlead.calls import call_effects
from fairlead.calls.call_effects import Flow, Reply, Request, Unreachable
from fairlead.models.job_models import Answer, Problem

T = TypeVar("T")
A = TypeVar("A", bound=Answer)
Query = Iterable[tuple[str, str]]

API: Final = "/api/v1"
PAGE: Final = 500
_JSON: Final = ("content-type", "application/json")


class _Page(Answer, frozen=True, kw_only=True):
    next: str | None = None


def get(
    path: str, query: Query = (), *, read_s: float | None = call_effects.REQUEST_READ_S
) -> Request:
    """A read below the API's root."""
    return Request(path=API + path, query=tuple(query), read_s=read_s)


def post(
    path: str, body: object, *, query: Query = (), repeatable: bool = True, method: str = "POST"
) -> Request:
    """A change with a JSON body. `repeatable`: asking twice does no more than asking once."""
    return Request(
        method=method,
        path=API + path,
        query=tuple(query),
        headers=(_JSON,),
        body=msgspec.json.encode(body),
        repeatable=repeatable,
    )


def ask(request: Request, kind: type[A]) -> Flow[A]:
    """The answer as this struct. Raises what `errors` describes."""
    return decoded((yield from answered(request)), kind)


def done(request: Request) -> Flow[None]:
    """Ask for something whose answer says nothing. Raises what `errors` describes."""
    accepted((yield from answered(request)))


def answered(request: Request) -> Flow[Reply]:
    """The answer, whatever it is. Raises `ServerUnreachable`."""
    answer = yield from call_effects.send(request)
    if isinstance(answer, Unreachable):
        raise errors.ServerUnreachable(answer.reason)
    return answer


def opened(request: Request) -> Flow[None]:
    """Leave the body of the answer open for `steps.more`. Raises what `errors` describes."""
    reply = yield from call_effects.open_body(request)
    if isinstance(reply, Unreachable):
        raise errors.ServerUnreachable(reply.reason)
    accepted(reply)


def accepted(reply: Reply) -> Reply:
    """The answer if it is a success. Raises `Refused`."""
    if reply.status >= 300:
        raise errors.refusal(problem_of(reply))
    return reply


def decoded(reply: Reply, kind: type[A]) -> A:
    """A successful answer as this struct."""
    return decode(accepted(reply).body, kind)


def decode(body: bytes, kind: type[T]) -> T:
    """Raises `UnexpectedAnswer` for what is not such an answer."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise errors.UnexpectedAnswer(
            f"The server's answer is not understood ({error}); is its version another?"
        ) from error


def problem_of(reply: Reply) -> Problem:
    """The problem document of an answer that is no success, made up if it has none."""
    if reply.headers.get("content-type", "").startswith("application/problem+json"):
        problem = decode(reply.body, Problem)
        return msgspec.structs.replace(problem, status=reply.status)
    is_page = "html" in reply.headers.get("content-type", "")
    text = "a page" if is_page else reply.body[:200].decode("utf-8", "replace").strip()
    return Problem(status=reply.status, title=f"HTTP status {reply.status}", detail=text)


def pages(path: str, query: Query, key: str, kind: type[A]) -> Flow[None]:
    """Emit what stands under `key` of each page, to the last page."""
    cursor: str | None = None
    fixed = (*query, ("limit", str(PAGE)))
    while True:
        whole = fixed if cursor is None else (*fixed, ("cursor", cursor))
        reply = accepted((yield from answered(get(path, whole))))
        page = decode(reply.body, dict[str, msgspec.Raw])
        for item in decode(bytes(page.get(key, b"null")), list[msgspec.Raw]):
            yield from call_effects.emit(decode(bytes(item), kind))
        cursor = decode(reply.body, _Page).next
        if cursor is None:
            return


def given(values: Mapping[str, str | bool | None]) -> list[tuple[str, str]]:
    """The parameters of a query that are there."""
    return [
        (name, str(value).lower() if isinstance(value, bool) else value)
        for name, value in values.items()
        if value is not None
    ]


def seen(after: str | None, wait_s: float | None) -> tuple[tuple[str, str], ...]:
    """The parameters of a read that shall see a position, and wait for it at most so long."""
    if after is None:
        return ()
    return (("after", after), *((("wait", duration(wait_s)),) if wait_s is not None else ()))


def tried(dry_run: bool) -> tuple[tuple[str, str], ...]:
    """The parameter of a change that shall only be tried."""
    return (("dryRun", "true"),) if dry_run else ()


def duration(s: float) -> str:
    """As the API writes seconds: `30s`, `1500ms`."""
    ms = round(s * 1000)
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def part(text: str) -> str:
    """One part of a path."""
    return quote(text, safe="")


def job_set_path(queue: str, job_set: str) -> str:
    """Where a job set is."""
    return f"/jobsets/{part(queue)}/{part(job_set)}"
