"""What most routes share: parameters, JSON answers, waiting for a position or for a change."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeVar

import msgspec
from fastapi import Depends, Header, Path, Query, Response, params

from fairlead_common.domain import durations, ids, position_tokens
from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records import configuration
from fairlead_common.service import clock
from fairlead_common.web.query_validation import After, Wait
from fairlead_lookout.domain.model import JobSet
from fairlead_lookout.http.deps import Parts, Place
from fairlead_lookout.http.openapi import JSON
from fairlead_lookout.store.queries.view_reader import SetFilter

AFTER_S: Final = 10.0
REREAD_S: Final = 0.25
"""Something that is waited for is read again at most so often,"""
LOOK_S: Final = 5.0
"""and at least so often: not everything that changes moves the view."""
APPEAR_S_MAX: Final = 2.0
"""What is not there when a long poll begins may be about to come: it is waited for so long."""
NDJSON: Final = "application/x-ndjson"
SSE: Final = "text/event-stream"
_encode: Final = msgspec.json.Encoder().encode
T = TypeVar("T")

Text = Annotated[str | None, Query(max_length=300)]
QueueName = Annotated[str, Path(max_length=256)]
JobSetName = Annotated[str, Path(max_length=256)]
JobText = Annotated[
    str, Path(max_length=512, description="A job's id, or `queue/jobSet/clientId`.")
]


def named_job_id(job: JobText) -> str:
    """The id of the job that a path names; a text that names none is returned as it is."""
    try:
        return ids.job_id_of(job)
    except ValueError:
        return job


JobIdOf = Annotated[str, Depends(named_job_id)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Cursor = Annotated[str | None, Query(max_length=400)]
IfNoneMatch = Annotated[str | None, Header(max_length=400)]


def answer(value: object, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(_encode(value), media_type=JSON, headers=headers)


def etag(value: object) -> str:
    """A tag that changes with this value."""
    return f'"{hashlib.blake2b(_encode(value), digest_size=8).hexdigest()}"'


async def come_to(parts: Parts, after: str | None, wait: str | None) -> None:
    """Wait until the view has folded a position. Raises a 400 or 503 `Problem`."""
    wait_s = durations.wait_s(wait, AFTER_S)
    if after is None:
        return
    try:
        target = position_tokens.decode(after)
    except ValueError as error:
        fault = FieldError("/query/after", str(error))
        raise Problem("malformed", "The position cannot be read.", [fault]) from None
    with Place(parts, "waits"):
        reached = await parts.progress.reached(
            target.jobs, wait_s
        ) and await parts.configured.reached(target.configured, wait_s)
    if not reached:
        at = parts.progress.positions
        behind = len(target.configured) + sum(
            max(0, position - at.get(number, 0)) for number, position in target.jobs.items()
        )
        raise Problem(
            "unavailable",
            f"The view has not come that far within {wait_s:g} s: {behind} messages to go.",
            retry_after_s=1,
        )


def coming(parts: Parts) -> params.Depends:
    """For routes that read what lookout keeps in memory: they take a position as the others do."""

    async def come(after: After = None, wait: Wait = None) -> None:
        await come_to(parts, after, wait)

    dependency: params.Depends = Depends(come)
    return dependency


async def find_set(parts: Parts, reach: QueueScope, queue: str, job_set: str) -> JobSet:
    """The job set. Raises a 404 `Problem`, also for whoever may not view the queue."""
    found = await parts.view.job_set(queue, job_set) if queue in reach else None
    if found is None:
        raise Problem("not-found", f"Queue {queue!r} has no job set {job_set!r} with jobs in it.")
    return found


async def require_queue(parts: Parts, reach: QueueScope, queue: str) -> None:
    """Raises a 404 `Problem` for a queue that is not there, or that the caller may not view. One
    that was deleted is there for as long as its jobs are.
    """
    if queue in reach:
        if parts.configured.queue(queue) is not None:
            return
        if (await parts.view.job_sets(SetFilter(queue=queue), 1, None)).job_sets:
            return
        key = configuration.key(configuration.Queue(name=queue))
        with Place(parts, "waits"):  # it may have been made a moment ago
            await parts.configured.reached({key: 1}, APPEAR_S_MAX)
        if parts.configured.queue(queue) is not None:
            return
    raise Problem("not-found", f"There is no queue {queue!r}.")


async def changed(
    parts: Parts,
    partition: int | None,
    wait_s: float,
    read: Callable[[], Awaitable[T]],
    is_wanted: Callable[[T], bool],
) -> T:
    """What is read once it is what was waited for, or after `wait_s`.

    It is read again when the view has moved (in that partition), and now and then.
    """
    deadline = clock.monotonic_s() + wait_s
    with Place(parts, "waits"):
        while True:
            before = parts.progress.positions
            found = await read()
            left_s = deadline - clock.monotonic_s()
            if is_wanted(found) or left_s <= 0:
                return found
            await asyncio.sleep(min(REREAD_S, left_s))
            look_s = min(deadline, clock.monotonic_s() + LOOK_S)
            while _same(before, parts.progress.positions, partition):
                left_s = look_s - clock.monotonic_s()
                if left_s <= 0 or not await parts.progress.moved(left_s):
                    break


async def appeared(parts: Parts, wait_s: float, read: Callable[[], Awaitable[T]]) -> T:
    """What is read, if need be after waiting for it to be there. Raises a 404 `Problem`."""

    async def there() -> T | Problem:
        try:
            return await read()
        except Problem as problem:
            if problem.slug != "not-found":
                raise
            return problem

    def is_there(found: T | Problem) -> bool:
        return not isinstance(found, Problem)

    found = await there()
    if not is_there(found) and wait_s > 0:
        found = await changed(parts, None, min(wait_s, APPEAR_S_MAX), there, is_there)
    if isinstance(found, Problem):
        raise found
    return found


def _same(before: dict[int, int], now: dict[int, int], partition: int | None) -> bool:
    if partition is None:
        return before is now
    return before.get(partition) == now.get(partition)
