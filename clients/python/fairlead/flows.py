"""What the client can do, as flows: which requests, in which order, and what answers mean.

Nothing here does I/O: see `steps`. `Client` and `AsyncClient` both offer exactly these functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from fairlead import batches, errors, steps
from fairlead.batches import AnyJob
from fairlead.models import (
    Answer,
    Cancelled,
    Fault,
    JobDetail,
    JobSet,
    JobView,
    Problem,
    Queue,
    Submitted,
    SubmittedJob,
)
from fairlead.steps import Flow, Reply, Request, Unreachable

T = TypeVar("T")
A = TypeVar("A", bound=Answer)

API: Final = "/api/v1"
IDS_MAX: Final = 1_000
"""Ids in one cancellation."""

PAGE: Final = 500
LONG_POLL_S: Final = 30.0
LONG_POLL_SLACK_S: Final = 45.0
"""The server may first wait as long again for the position given."""

POLL_S: Final = 0.5


class _Page(Answer, frozen=True, kw_only=True):
    next: str | None = None


# Queues.


def create_queue(
    name: str, *, weight: float = 1.0, labels: Mapping[str, str] | None = None
) -> Flow[Queue]:
    """Make a queue. Raises `Conflict` if there is one of that name."""
    body: dict[str, object] = {"name": name, "weight": weight}
    if labels:
        body["labels"] = dict(labels)
    return (yield from ask(_post("/queues", body, repeatable=False), Queue))


def queue(name: str) -> Flow[Queue]:
    """One queue."""
    return (yield from ask(_get(f"/queues/{_part(name)}"), Queue))


def queues() -> Flow[None]:
    """Iterates over all queues."""
    yield from _pages("/queues", (), "queues", Queue)


# Submitting and cancelling.


def submit(
    queue: str,
    job_set: str,
    jobs: Iterable[AnyJob],
    *,
    defaults: AnyJob | None = None,
) -> Flow[Submitted]:
    """Submit jobs, however many; `defaults` holds what all of them share.

    Long lists go in several requests. Jobs without a client id get one, so that nothing is
    created twice when a request has to be repeated. `Refused.accepted` names the jobs that
    earlier requests created when a later one is refused.
    """
    name = f"c{(yield from steps.draw()):016x}"
    accepted: list[SubmittedJob] = []
    position = ""
    for batch in batches.cut(jobs, name):
        request = _submission(queue, job_set, defaults, batch, ())
        try:
            answer = yield from ask(request, Submitted)
        except errors.Refused as error:
            raise errors.refusal(_shifted(error.problem, batch.first), accepted) from None
        accepted += answer.jobs
        position = answer.position
    return Submitted(position=position, jobs=tuple(accepted))


def check(
    queue: str, job_set: str, jobs: Iterable[AnyJob], *, defaults: AnyJob | None = None
) -> Flow[int]:
    """Have the server validate jobs without creating them: how many there are.

    Raises `Invalid` with every fault of the first request that has one.
    """
    count = 0
    for batch in batches.cut(jobs, "dry-run"):
        request = _submission(queue, job_set, defaults, batch, (("dryRun", "true"),))
        answer = yield from _answered(request)
        if answer.status >= 300:
            raise errors.refusal(_shifted(problem_of(answer), batch.first))
        count += len(batch.jobs)
    return count


def cancel(ids: Sequence[str], *, reason: str = "") -> Flow[Cancelled]:
    """Cancel jobs by id. Raises `NotFound` for ids that no job has."""
    matched: int | None = 0
    position = ""
    for start in range(0, len(ids), IDS_MAX):
        body = {"ids": list(ids[start : start + IDS_MAX]), "reason": reason}
        answer = yield from ask(_post("/jobs/cancel", body), Cancelled)
        position = answer.position
        matched = None if matched is None or answer.matched is None else matched + answer.matched
    return Cancelled(position=position, matched=matched)


def cancel_where(
    queue: str, job_set: str | None = None, *, states: Sequence[str] = (), reason: str = ""
) -> Flow[Cancelled]:
    """Cancel the jobs of a queue, or of one of its job sets, or those of them in some states."""
    chosen: dict[str, object] = {"queue": queue}
    if job_set is not None:
        chosen["jobSet"] = job_set
    if states:
        chosen["states"] = list(states)
    body = {"filter": chosen, "reason": reason}
    return (yield from ask(_post("/jobs/cancel", body), Cancelled))


# Looking.


def job_set(
    queue: str, name: str, *, after: str | None = None, wait_s: float = 10.0
) -> Flow[JobSet]:
    """One job set; `after` is a position to be seen, for which at most `wait_s` are waited."""
    query = _seen(after, wait_s)
    return (yield from ask(_get(_job_set_path(queue, name), query), JobSet))


def job_sets(
    *, queue: str | None = None, active: bool | None = None, q: str | None = None
) -> Flow[None]:
    """Iterates over job sets, latest activity first."""
    query = _filters({"queue": queue, "active": active, "q": q})
    yield from _pages("/jobsets", query, "jobSets", JobSet)


def job(
    job_id: str, *, spec: bool = False, after: str | None = None, wait_s: float = 10.0
) -> Flow[JobDetail]:
    """One job with its runs, and with `spec` what was submitted."""
    query = (*_seen(after, wait_s), *((("spec", "true"),) if spec else ()))
    return (yield from ask(_get(f"/jobs/{_part(job_id)}", query), JobDetail))


def iter_jobs(
    *,
    queue: str | None = None,
    job_set: str | None = None,
    states: Sequence[str] = (),
    after: str | None = None,
) -> Flow[None]:
    """Iterates over jobs that meet every filter given, newest first."""
    query = [*_filters({"queue": queue, "jobSet": job_set}), *_seen(after, 10.0)]
    if states:
        query.append(("state", ",".join(states)))
    yield from _pages("/jobs", query, "jobs", JobView)


def wait(
    queue: str, job_set: str, *, timeout_s: float | None = None, after: str | None = None
) -> Flow[JobSet]:
    """Wait until every job of the job set has ended. Raises `WaitTimeout`.

    `after`: the position that `submit` answered, so that its jobs are certainly seen.
    """
    started_s = yield from steps.now_s()
    path = _job_set_path(queue, job_set)
    while True:
        now = yield from steps.now_s()
        left_s = LONG_POLL_S if timeout_s is None else started_s + timeout_s - now
        wait_s = max(0.0, min(LONG_POLL_S, left_s))
        query = (*_seen(after, None), ("until", "finished"), ("wait", _duration(wait_s)))
        request = _get(path, query, read_s=wait_s + LONG_POLL_SLACK_S)
        reply = yield from _answered(request)
        if reply.status != 304:
            found = _decoded(reply, JobSet)
            if found.is_finished:
                return found
        if left_s <= 0:
            raise errors.WaitTimeout(
                f"Not all jobs of {queue}/{job_set} ended within {timeout_s:g} s."
            )
        if (yield from steps.now_s()) - now < POLL_S:
            yield from steps.pause(POLL_S)


def watch(queue: str, job_set: str, *, after: str | None = None) -> Flow[None]:
    """Iterates over the states of a job set, a new one when it changed, until all jobs ended."""
    etag: str | None = None
    query = (*_seen(after, None), ("wait", _duration(LONG_POLL_S)))
    while True:
        request = Request(
            path=API + _job_set_path(queue, job_set),
            query=query,
            headers=(("if-none-match", etag),) if etag else (),
            read_s=LONG_POLL_S + LONG_POLL_SLACK_S,
        )
        reply = yield from _answered(request)
        if reply.status != 304:
            found = _decoded(reply, JobSet)
            yield from steps.emit(found)
            if found.is_finished:
                return
            etag = reply.headers.get("etag")
        yield from steps.pause(POLL_S)


def wait_job(
    job_id: str, *, timeout_s: float | None = None, after: str | None = None
) -> Flow[JobDetail]:
    """Wait until one job has ended. Raises `WaitTimeout`."""
    started_s = yield from steps.now_s()
    poll_s = POLL_S / 4
    while True:
        found = yield from job(job_id, after=after)
        if found.has_ended:
            return found
        if timeout_s is not None and (yield from steps.now_s()) - started_s >= timeout_s:
            raise errors.WaitTimeout(f"Job {job_id} did not end within {timeout_s:g} s.")
        yield from steps.pause(poll_s)
        poll_s = min(poll_s * 1.3, 2.0)


# Asking, in general.


def ask(request: Request, kind: type[A]) -> Flow[A]:
    """The answer as this struct. Raises what `errors` describes."""
    return _decoded((yield from _answered(request)), kind)


def _answered(request: Request) -> Flow[Reply]:
    answer = yield from steps.send(request)
    if isinstance(answer, Unreachable):
        raise errors.ServerUnreachable(answer.reason)
    return answer


def _decoded(reply: Reply, kind: type[A]) -> A:
    if reply.status >= 300:
        raise errors.refusal(problem_of(reply))
    return decode(reply.body, kind)


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
    text = reply.body[:200].decode("utf-8", "replace").strip()
    return Problem(status=reply.status, title=f"HTTP status {reply.status}", detail=text)


def _pages(path: str, query: Iterable[tuple[str, str]], key: str, kind: type[A]) -> Flow[None]:
    """Emit what stands under `key` of each page."""
    cursor: str | None = None
    fixed = (*query, ("limit", str(PAGE)))
    while True:
        whole = fixed if cursor is None else (*fixed, ("cursor", cursor))
        reply = yield from _answered(_get(path, whole))
        if reply.status >= 300:
            raise errors.refusal(problem_of(reply))
        page = decode(reply.body, dict[str, msgspec.Raw])
        for item in decode(bytes(page.get(key, b"null")), list[msgspec.Raw]):
            yield from steps.emit(decode(bytes(item), kind))
        cursor = decode(reply.body, _Page).next
        if cursor is None:
            return


def _submission(
    queue: str,
    job_set: str,
    defaults: AnyJob | None,
    batch: batches.Batch,
    query: tuple[tuple[str, str], ...],
) -> Request:
    body: dict[str, object] = {"queue": queue, "jobSet": job_set}
    if defaults is not None:
        body["defaults"] = defaults
    return _post("/jobs", {**body, "jobs": batch.jobs}, query=query)


def _shifted(problem: Problem, first: int) -> Problem:
    """The problem with pointers into the caller's list instead of one request's."""
    if not first:
        return problem
    return msgspec.structs.replace(
        problem, errors=tuple(_shifted_fault(fault, first) for fault in problem.errors)
    )


def _shifted_fault(fault: Fault, first: int) -> Fault:
    head, _, rest = fault.pointer.removeprefix("/jobs/").partition("/")
    if not fault.pointer.startswith("/jobs/") or not head.isdecimal():
        return fault
    pointer = f"/jobs/{int(head) + first}" + (f"/{rest}" if rest else "")
    return msgspec.structs.replace(fault, pointer=pointer)


def _get(
    path: str,
    query: Iterable[tuple[str, str]] = (),
    *,
    read_s: float | None = steps.REQUEST_READ_S,
) -> Request:
    return Request(path=API + path, query=tuple(query), read_s=read_s)


def _post(
    path: str,
    body: Mapping[str, object],
    *,
    query: tuple[tuple[str, str], ...] = (),
    repeatable: bool = True,
) -> Request:
    return Request(
        method="POST",
        path=API + path,
        query=query,
        headers=(("content-type", "application/json"),),
        body=msgspec.json.encode(body),
        repeatable=repeatable,
    )


def _filters(values: Mapping[str, str | bool | None]) -> list[tuple[str, str]]:
    return [
        (name, str(value).lower() if isinstance(value, bool) else value)
        for name, value in values.items()
        if value is not None
    ]


def _seen(after: str | None, wait_s: float | None) -> tuple[tuple[str, str], ...]:
    if after is None:
        return ()
    return (("after", after), *((("wait", _duration(wait_s)),) if wait_s is not None else ()))


def _duration(s: float) -> str:
    return f"{s:g}s"


def _part(text: str) -> str:
    return quote(text, safe="")


def _job_set_path(queue: str, job_set: str) -> str:
    return f"/jobsets/{_part(queue)}/{_part(job_set)}"
