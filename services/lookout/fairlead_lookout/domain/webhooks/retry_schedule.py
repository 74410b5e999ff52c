"""What the result of an attempt means for its delivery, and when a webhook is disabled."""

from typing import Final, Literal

import msgspec

DELAYS_S: Final = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The longest delay before each retry; the actual delay is a random part of it (full jitter)."""
RETRY_AFTER_S_MAX: Final = 3_600
GONE: Final = 410

DeliveryState = Literal["PENDING", "DELIVERED", "FAILED"]
"""`FAILED`: no further attempt is made unless a user replays it."""


class Attempt(msgspec.Struct, frozen=True):
    """The result of one attempt. `status`: of HTTP or SMTP, None: no response. `error`: why it
    failed, or what else went wrong; `retry_after_s`: the delay that the receiver requested.
    `is_final`: the same delivery can never succeed.
    """

    duration_ms: int
    status: int | None = None
    error: str | None = None
    retry_after_s: int = 0
    is_final: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the receiver has accepted the delivery."""
        return self.status is not None and 200 <= self.status < 300


class NextStep(msgspec.Struct, frozen=True):
    """What becomes of a delivery: its state, and when its next attempt is due."""

    state: DeliveryState
    due_ms: int


def decide_next_step(
    attempt: Attempt, attempts: int, now_ms: int, chance: float, *, is_test: bool = False
) -> NextStep:
    """After attempt number `attempts`. `chance`: a random number from 0 to 1."""
    if attempt.succeeded:
        return NextStep("DELIVERED", now_ms)
    if is_test or attempt.is_final or attempts > len(DELAYS_S):
        return NextStep("FAILED", now_ms)
    delay_s = max(
        DELAYS_S[attempts - 1] * chance, min(attempt.retry_after_s, RETRY_AFTER_S_MAX), 0.0
    )
    return NextStep("PENDING", now_ms + round(delay_s * 1000))


def explain_disabling(
    attempt: Attempt, failing_ms: int, now_ms: int, disable_after_s: float
) -> str | None:
    """Why a webhook is disabled after this failed attempt; None if it stays enabled."""
    last = attempt.error or f"status {attempt.status}"
    if attempt.status == GONE:
        return "The receiver answered 410 Gone: it does not want further deliveries."
    if now_ms - failing_ms >= disable_after_s * 1000:
        days = disable_after_s / 86_400
        return f"Every delivery failed for {days:g} days. The last error: {last}"
    return None
