"""Asking again: which answers deserve another try, and after how long.

Full jitter between zero and a growing bound, never sooner than `Retry-After` says, and a limit on
the number of tries. A request that may have reached the server is only repeated when repeating it
is harmless.
"""

from typing import Final, TypeVar

import msgspec

from fairlead.calls import call_effects
from fairlead.calls.call_effects import Answer, Flow, Open, Reply, Request, Send, Step, Unreachable

T = TypeVar("T")

AWAY: Final = frozenset({429, 502, 503, 504})
RETRY_AFTER_S_MAX: Final = 60.0


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How patient to be: up to `attempts_max` tries, `base_s` doubling up to `cap_s` apart.

    `unmet_attempts_max`: tries while this client has never had an answer, if they are fewer.
    """

    attempts_max: int = 8
    unmet_attempts_max: int | None = None
    base_s: float = 0.2
    cap_s: float = 10.0

    def for_client(self, *, met: bool) -> "Retries":
        """The policy for a client that has, or has never, had an answer."""
        if met or self.unmet_attempts_max is None:
            return self
        return msgspec.structs.replace(self, attempts_max=self.unmet_attempts_max)


def retrying(flow: Flow[T], retries: Retries, *, met: bool = True) -> Flow[T]:
    """The same flow, whose requests are repeated as the policy allows.

    `met`: whether this client has had an answer before.
    """

    def patiently(step: Step) -> Flow[Answer]:
        nonlocal met
        if not isinstance(step, Send | Open):
            return (yield step)
        answer = yield from _ask(step, retries.for_client(met=met))
        met = met or isinstance(answer, Reply)
        return answer

    return call_effects.through(flow, patiently)


def _ask(step: Send | Open, retries: Retries) -> Flow[Reply | Unreachable]:
    attempt = 1
    while True:
        if isinstance(step, Send):
            answer = yield from call_effects.send(step.request)
        else:
            answer = yield from call_effects.open_body(step.request)
        if attempt >= retries.attempts_max or not worth_repeating(step.request, answer):
            return answer
        bits = yield from call_effects.draw()
        yield from call_effects.pause(delay_s(retries, attempt, answer, bits))
        attempt += 1


def worth_repeating(request: Request, answer: Reply | Unreachable) -> bool:
    """Whether another try may help and can do no harm."""
    if isinstance(answer, Unreachable):
        return request.repeatable or not answer.sent
    return answer.status == 429 or (answer.status in AWAY and request.repeatable)


def delay_s(retries: Retries, attempt: int, answer: Reply | Unreachable, bits: int) -> float:
    """How long to wait after the `attempt`-th try; `bits` are 64 random ones."""
    bound = min(retries.cap_s, retries.base_s * 2.0 ** min(attempt - 1, 30))
    jittered = bound * (0.5 + bits / 2**65)
    if isinstance(answer, Unreachable):
        return jittered
    return max(jittered, _retry_after_s(answer))


def _retry_after_s(reply: Reply) -> float:
    """Seconds only; the date form is not used by our servers, and counts as nothing."""
    text = reply.headers.get("retry-after", "")
    return min(float(text), RETRY_AFTER_S_MAX) if text.isdecimal() else 0.0
