"""Drives flows without any I/O: canned answers in, what was asked out."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from fairlead.calls import call_effects
from fairlead.calls.call_effects import Answer, Chunk, Flow, Reply, Request, Step, Unreachable
from fairlead.calls.written_positions import Writes, remembering

T = TypeVar("T")


class World:
    """Answers requests in order. Time only passes by pauses and as `tick_s` per look at it.

    An answer to an opened body is a reply and the chunks that follow it.
    """

    def __init__(
        self,
        *answers: Reply | Unreachable | tuple[Reply, list[bytes | Unreachable]],
        tick_s: float = 0.0,
    ) -> None:
        self.asked: list[Request] = []
        self.pauses: list[float] = []
        self._answers = list(answers)
        self._writes = Writes()
        self._body: Iterator[bytes | Unreachable] = iter(())
        self._now_s = 0.0
        self._tick_s = tick_s

    def finish(self, flow: Flow[T]) -> T:
        """Drive a flow that emits nothing."""
        flow = remembering(flow, self._writes)
        answer: Answer = None
        while True:
            try:
                step = flow.send(answer)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = self._answer(step)

    def emitted(self, flow: Flow[None], most: int = 1_000) -> list[object]:
        """Drive a flow until it ends or has emitted so much."""
        flow = remembering(flow, self._writes)
        items: list[object] = []
        answer: Answer = None
        while len(items) < most:
            try:
                step = flow.send(answer)
            except StopIteration:
                return items
            if isinstance(step, call_effects.Emit):
                items.append(step.item)
                answer = None
            else:
                answer = self._answer(step)
        flow.close()
        return items

    def bodies(self) -> list[object]:
        """What was sent, decoded."""
        return [msgspec.json.decode(request.body) for request in self.asked]

    def _answer(self, step: Step) -> Answer:
        match step:
            case call_effects.Send():
                answer = self._next(step.request)
                assert not isinstance(answer, tuple)
                return answer
            case call_effects.Open():
                answer = self._next(step.request)
                if not isinstance(answer, tuple):
                    return answer
                reply, chunks = answer
                self._body = iter(chunks)
                return reply
            case call_effects.More():
                chunk = next(self._body, b"")
                return chunk if isinstance(chunk, Unreachable) else Chunk(chunk)
            case call_effects.Pause():
                self.pauses.append(step.s)
                self._now_s += step.s
                return None
            case call_effects.Draw():
                return 2**63
            case call_effects.Now():
                self._now_s += self._tick_s
                return self._now_s
            case _:
                raise AssertionError(step)

    def _next(
        self, request: Request
    ) -> Reply | Unreachable | tuple[Reply, list[bytes | Unreachable]]:
        self.asked.append(request)
        assert self._answers, f"nobody expected {request}"
        return self._answers.pop(0)


def ok(body: object, **headers: str) -> Reply:
    """A 200 with this as JSON."""
    return Reply(200, headers, msgspec.json.encode(body))


def problem(status: int, detail: str = "", errors: Iterable[dict[str, str]] = ()) -> Reply:
    """A problem document."""
    body = {"title": "No", "status": status, "detail": detail, "errors": list(errors)}
    headers = {"content-type": "application/problem+json"}
    return Reply(status, headers, msgspec.json.encode(body))


AWAY = Unreachable("refused", sent=False)
BROKEN = Unreachable("reset", sent=True)
