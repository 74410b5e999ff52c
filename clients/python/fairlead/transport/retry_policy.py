"""The retry policy: which requests are repeated, and after which delay.

Exponential backoff with jitter, at least `Retry-After`, and a limited number of attempts. A request
that the server has possibly received is repeated only if it is idempotent.
"""

from typing import Final

import msgspec

from fairlead.calls.exchange_types import Reply, Request, Unreachable

TEMPORARY: Final = frozenset({429, 502, 503, 504})
RETRY_AFTER_S_MAX: Final = 60.0


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Up to `attempts_max` attempts, with delays from `base_s` that double up to `cap_s`.

    `first_attempts_max`: the attempts of a client that has not received any response yet.
    """

    attempts_max: int = 8
    first_attempts_max: int | None = None
    base_s: float = 0.2
    cap_s: float = 10.0

    def for_client(self, *, has_answered: bool) -> "Retries":
        """The policy for a client that has, or has not yet, received a response."""
        if has_answered or self.first_attempts_max is None:
            return self
        return msgspec.structs.replace(self, attempts_max=self.first_attempts_max)


def is_worth_repeating(request: Request, answer: Reply | Unreachable) -> bool:
    """Whether another attempt can succeed and has no effect beyond that of one attempt."""
    if isinstance(answer, Unreachable):
        return request.repeatable or not answer.sent
    return answer.status == 429 or (answer.status in TEMPORARY and request.repeatable)


def delay_s(retries: Retries, attempt: int, answer: Reply | Unreachable, bits: int) -> float:
    """How long to wait after the `attempt`-th attempt; `bits` are 64 random bits."""
    bound = min(retries.cap_s, retries.base_s * 2.0 ** min(attempt - 1, 30))
    jittered = bound * (0.5 + bits / 2**65)
    if isinstance(answer, Unreachable):
        return jittered
    return max(jittered, _retry_after_s(answer))


def _retry_after_s(reply: Reply) -> float:
    """The seconds of `Retry-After`; 0 for a date, which Fairlead does not send."""
    text = reply.headers.get("retry-after", "")
    return min(float(text), RETRY_AFTER_S_MAX) if text.isdecimal() else 0.0
