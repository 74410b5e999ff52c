"""Building requests from paths and bodies, and decoding responses into structs. No I/O.

The modules `submission_calls`, `job_action_calls`, `job_queries`, `administration` and
`event_reading` are built from these functions.
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
    """A change with a JSON body. `repeatable`: sending it twice has the same effect as once."""
    return Request(
        method=method,
        path=API + path,
        query=tuple(query),
        headers=(_JSON,),
        body=msgspec.json.encode(body),
        repeatable=repeatable,
    )


def ask(request: Request, kind: type[A]) -> Flow[A]:
    """Send a request and decode its response as this struct. Raises `FairleadError`."""
    return decoded((yield from answered(request)), kind)


def done(request: Request) -> Flow[None]:
    """Send a request whose response has no content. Raises `FairleadError`."""
    accepted((yield from answered(request)))


def answered(request: Request) -> Flow[Reply]:
    """Send a request; the response with any status. Raises `ServerUnreachable`."""
    answer = yield from call_effects.send(request)
    if isinstance(answer, Unreachable):
        raise errors.ServerUnreachable(answer.reason)
    return answer


def opened(request: Request) -> Flow[None]:
    """Send a request and leave the body open for `call_effects.more`. Raises `FairleadError`."""
    reply = yield from call_effects.open_body(request)
    if isinstance(reply, Unreachable):
        raise errors.ServerUnreachable(reply.reason)
    accepted(reply)


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


def problem_of(reply: Reply) -> Problem:
    """The problem document of an error response; one with its text if it has none."""
    if reply.headers.get("content-type", "").startswith("application/problem+json"):
        problem = decode(reply.body, Problem)
        return msgspec.structs.replace(problem, status=reply.status)
    is_page = "html" in reply.headers.get("content-type", "")
    text = "a page" if is_page else reply.body[:200].decode("utf-8", "replace").strip()
    return Problem(status=reply.status, title=f"HTTP status {reply.status}", detail=text)


def pages(path: str, query: Query, key: str, kind: type[A]) -> Flow[None]:
    """Emit the items under `key` of all pages."""
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
