"""The shares of a queue over time, and what it and its users used and lost."""

from collections.abc import Iterable
from typing import Final

from fairlead_common.domain import timestamps
from fairlead_common.domain.scheduling.quantities import CPU
from fairlead_lookout.domain.fairness_fold import MINUTE_MS
from fairlead_lookout.domain.resource_usage import HOUR_MS, start_of_hour
from fairlead_lookout.http.deps import Deps
from fairlead_lookout.http.responses import fairness_responses, response_base
from fairlead_lookout.store.queries.fairness_history import (
    Period,
    UsedAndLost,
    read_shares,
    read_usage,
    read_user_usage,
)

SPAN_MS: Final = 24 * HOUR_MS
MINUTES_SPAN_MS: Final = 6 * HOUR_MS
"""A span up to this length has a point per minute, a longer one a point per hour."""
USERS_MAX: Final = 100


async def describe_fairness(
    deps: Deps, queue: str, from_ms: int, to_ms: int, now_ms: int
) -> fairness_responses.FairnessResponse:
    """The shares and the usage of a queue between two times, without its users."""
    width_ms = MINUTE_MS if to_ms - from_ms <= MINUTES_SPAN_MS else HOUR_MS
    first_ms = from_ms - from_ms % width_ms
    buckets = await read_shares(deps.view, queue, Period(width_ms, first_ms, to_ms, now_ms))
    hours = await read_usage(deps.view, queue, start_of_hour(from_ms), to_ms, now_ms)
    return fairness_responses.FairnessResponse(
        queue=queue,
        from_=timestamps.rfc3339(from_ms),
        to=timestamps.rfc3339(to_ms),
        step_seconds=width_ms // 1000,
        points=[fairness_responses.describe_shares(*bucket) for bucket in buckets],
        usage=[
            fairness_responses.UsageResponse(
                time=timestamps.rfc3339(hour_ms),
                pool=pool,
                used=response_base.to_resource_hours(each["used"]),
                lost=response_base.to_resource_hours(each["lost"]),
            )
            for (hour_ms, pool), each in sorted(hours.items())
        ],
        users=[],
        used=response_base.to_resource_hours(_add(hours.values(), "used")),
        lost=response_base.to_resource_hours(_add(hours.values(), "lost")),
    )


async def rank_users(
    deps: Deps, queue: str, from_ms: int, to_ms: int, now_ms: int
) -> list[fairness_responses.UserUsageResponse]:
    """The users whose jobs used most processor time of a queue, at most 100."""
    users = await read_user_usage(deps.view, queue, start_of_hour(from_ms), to_ms, now_ms)
    ranked = sorted(users.items(), key=lambda item: (-item[1]["used"].get(CPU, 0), item[0]))
    return [
        fairness_responses.UserUsageResponse(
            user=user,
            used=response_base.to_resource_hours(each["used"]),
            lost=response_base.to_resource_hours(each["lost"]),
        )
        for user, each in ranked[:USERS_MAX]
    ]


def _add(amounts: Iterable[UsedAndLost], kind: str) -> dict[str, float]:
    totals: dict[str, float] = {}
    for each in amounts:
        for name, amount in each[kind].items():
            totals[name] = totals.get(name, 0) + amount
    return totals
