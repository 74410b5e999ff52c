"""The core's only way to the world: a flow yields a step, whoever drives it answers.

A flow is a generator that decides what to ask and what the answers mean, and does no I/O. The
synchronous and the asynchronous client drive the same flows, each with its own transport; tests
drive them with none. The small generators below give every step its typed answer.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

import msgspec

REQUEST_READ_S: float = 60.0


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request. `repeatable`: asking twice does no more than asking once.

    `read_s`: how long the server may stay silent; None for as long as it likes.
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
    """Read on in the open body -> `Chunk`, empty at its end, or `Unreachable`."""


class Pause(msgspec.Struct, frozen=True):
    """Let this many seconds pass -> None."""

    s: float


class Draw(msgspec.Struct, frozen=True):
    """A random number of 64 bits -> int."""


class Now(msgspec.Struct, frozen=True):
    """Seconds on a clock that never goes back -> float."""


class Emit(msgspec.Struct, frozen=True):
    """Hand this to the caller of an iterator -> None."""

    item: object


class Wrote(msgspec.Struct, frozen=True):
    """Remember that the server wrote this down at this position -> None."""

    queue: str
    job_set: str
    position: str


class Written(msgspec.Struct, frozen=True):
    """The position of the last `Wrote` of a queue and job set, or of all -> str, or None."""

    job_set: tuple[str, str] | None = None


class Reply(msgspec.Struct, frozen=True):
    """What the server answered; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of an open body; empty when it has ended."""

    data: bytes


class Unreachable(msgspec.Struct, frozen=True):
    """No (further) answer. `sent`: the server may have got the request."""

    reason: str
    sent: bool


Step: TypeAlias = Send | Open | More | Pause | Draw | Now | Emit | Wrote | Written
Answer: TypeAlias = Reply | Chunk | Unreachable | int | float | str | None

T = TypeVar("T")
Flow: TypeAlias = Generator[Step, Answer, T]


class Misdriven(AssertionError):
    """A driver answered a step with what is no answer to it."""


def through(flow: Flow[T], answered: Callable[[Step], Flow[Answer]]) -> Flow[T]:
    """The same flow, whose steps `answered` answers: by itself, or by asking on."""
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


def first(flow: Flow[None], is_it: Callable[[object], bool]) -> Flow[object]:
    """The first item of the flow for which `is_it` is true; None: there is no such item."""
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
            elif is_it(step.item):
                return step.item
    finally:
        flow.close()


def send(request: Request) -> Flow[Reply | Unreachable]:
    """Ask once."""
    answer = yield Send(request)
    if isinstance(answer, Reply | Unreachable):
        return answer
    raise Misdriven(answer)


def open_body(request: Request) -> Flow[Reply | Unreachable]:
    """Ask, and leave the body of a good answer open for `more`."""
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
    """Let time pass."""
    yield Pause(s)


def draw() -> Flow[int]:
    """64 random bits."""
    answer = yield Draw()
    if isinstance(answer, int):
        return answer
    raise Misdriven(answer)


def now_s() -> Flow[float]:
    """Seconds of a clock that never goes back."""
    answer = yield Now()
    if isinstance(answer, float):
        return answer
    raise Misdriven(answer)


def wrote(queue: str, job_set: str, position: str) -> Flow[None]:
    """Later reads of this client shall have seen this position."""
    yield Wrote(queue, job_set, position)


def written(job_set: tuple[str, str] | None = None) -> Flow[str | None]:
    """What a read of this job set, or of any, shall have seen."""
    answer = yield Written(job_set)
    if answer is None or isinstance(answer, str):
        return answer
    raise Misdriven(answer)


def emit(item: object) -> Flow[None]:
    """Hand an item to whoever iterates."""
    yield Emit(item)
