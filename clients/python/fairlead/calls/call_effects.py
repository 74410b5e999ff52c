"""The effects of calls: a flow yields a step, and its driver performs it and sends the answer.

A flow is a generator that decides which requests to send and what the responses mean, and does no
I/O. The blocking and the asynchronous client drive the same flows, each with its own transport;
tests drive them without one. The small generators below give every step its typed answer.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

import msgspec

REQUEST_READ_S: float = 60.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request. `repeatable`: sending it twice has the same effect as once.

    `read_s`: the read timeout; None for no timeout.
    """

    method: str = "GET"
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    repeatable: bool = True
    read_s: float | None = REQUEST_READ_S


class Send(msgspec.Struct, frozen=True):
    """Make this request and read the whole answer -> `Reply` or `Unreachable`."""

    request: Request


class Open(msgspec.Struct, frozen=True):
    """Make this request and keep its body open -> `Reply` (body only if refused), `Unreachable`.

    At most one body is open at a time in a flow; opening the next closes it.
    """

    request: Request


class More(msgspec.Struct, frozen=True):
    """Read the next bytes of the open body -> `Chunk`, empty at its end, or `Unreachable`."""


class Pause(msgspec.Struct, frozen=True):
    """Wait for this number of seconds -> None."""

    s: float


class Draw(msgspec.Struct, frozen=True):
    """A random number of 64 bits -> int."""


class Now(msgspec.Struct, frozen=True):
    """Seconds of a monotonic clock -> float."""


class Emit(msgspec.Struct, frozen=True):
    """Yield this item to the caller of an iterator -> None."""

    item: object


class Wrote(msgspec.Struct, frozen=True):
    """Remember the position of a submission -> None."""

    queue: str
    job_set: str
    position: str


class Written(msgspec.Struct, frozen=True):
    """The position of the last `Wrote` of a queue and job set, or of all -> str, or None."""

    job_set: tuple[str, str] | None = None


class Reply(msgspec.Struct, frozen=True):
    """A response of the server; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of an open body; empty when it has ended."""

    data: bytes


class Unreachable(msgspec.Struct, frozen=True):
    """No (further) answer. `sent`: the server can have received the request."""

    reason: str
    sent: bool


Step: TypeAlias = Send | Open | More | Pause | Draw | Now | Emit | Wrote | Written
Answer: TypeAlias = Reply | Chunk | Unreachable | int | float | str | None

T = TypeVar("T")
Flow: TypeAlias = Generator[Step, Answer, T]


class Misdriven(AssertionError):
    """A driver sent an answer of the wrong type to a step."""


def through(flow: Flow[T], answered: Callable[[Step], Flow[Answer]]) -> Flow[T]:
    """The same flow, whose steps `answered` answers: by itself, or by yielding steps."""
    answer: Answer = None
    try:
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = yield from answered(step)
    finally:
        flow.close()


def first(flow: Flow[None], matches: Callable[[object], bool]) -> Flow[object]:
    """The first item of the flow for which `matches` is true; None: there is no such item."""
    answer: Answer = None
    try:
        while True:
            try:
                step = flow.send(answer)
            except StopIteration:
                return None
            answer = None
            if not isinstance(step, Emit):
                answer = yield step
            elif matches(step.item):
                return step.item
    finally:
        flow.close()


def send(request: Request) -> Flow[Reply | Unreachable]:
    """Send one request."""
    answer = yield Send(request)
    if isinstance(answer, Reply | Unreachable):
        return answer
    raise Misdriven(answer)


def open_body(request: Request) -> Flow[Reply | Unreachable]:
    """Send a request and leave the body of a successful response open for `more`."""
    answer = yield Open(request)
    if isinstance(answer, Reply | Unreachable):
        return answer
    raise Misdriven(answer)


def more() -> Flow[Chunk | Unreachable]:
    """The next bytes of the open body."""
    answer = yield More()
    if isinstance(answer, Chunk | Unreachable):
        return answer
    raise Misdriven(answer)


def pause(s: float) -> Flow[None]:
    """Wait."""
    yield Pause(s)


def draw() -> Flow[int]:
    """64 random bits."""
    answer = yield Draw()
    if isinstance(answer, int):
        return answer
    raise Misdriven(answer)


def now_s() -> Flow[float]:
    """Seconds of a monotonic clock."""
    answer = yield Now()
    if isinstance(answer, float):
        return answer
    raise Misdriven(answer)


def wrote(queue: str, job_set: str, position: str) -> Flow[None]:
    """Let later reads of this client include this position."""
    yield Wrote(queue, job_set, position)


def written(job_set: tuple[str, str] | None = None) -> Flow[str | None]:
    """The position that a read of this job set, or of any, has to include."""
    answer = yield Written(job_set)
    if answer is None or isinstance(answer, str):
        return answer
    raise Misdriven(answer)


def emit(item: object) -> Flow[None]:
    """Yield an item to the caller of an iterator."""
    yield Emit(item)
