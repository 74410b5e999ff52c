"""Shares and usage over time as the API returns them."""

import msgspec

from fairlead_common.domain import timestamps
from fairlead_lookout.domain.fairness_fold import ShareTotals
from fairlead_lookout.http.responses.response_base import ResponseBody


class ShareResponse(ResponseBody, frozen=True, kw_only=True):
    """Means of a queue in a pool over one step that begins at `time`: shares of 1.0, and jobs."""

    time: str
    pool: str
    share: float
    fair_share: float
    demand_share: float
    queued: float
    running: float


class UsageResponse(ResponseBody, frozen=True, kw_only=True):
    """What the runs of a queue used in the hour that begins at `time`, in cores, bytes and units
    times hours; `lost`: what preempted runs had used, in the hour in which they ended."""

    time: str
    pool: str
    used: dict[str, float]
    lost: dict[str, float]


class UserUsageResponse(ResponseBody, frozen=True, kw_only=True):
    """What the jobs that a user submitted used and lost, in cores, bytes and units times hours. The
    user `""` is all that are not recorded by name: beyond 100 users an hour, or from before users
    were recorded."""

    user: str
    used: dict[str, float]
    lost: dict[str, float]


class FairnessResponse(ResponseBody, frozen=True, kw_only=True):
    """A queue over time: a point per step and pool, usage per hour and pool, usage per user (those
    who used most processor time, at most 100), and the totals."""

    queue: str
    from_: str = msgspec.field(name="from")
    to: str
    step_seconds: int
    points: list[ShareResponse]
    usage: list[UsageResponse]
    users: list[UserUsageResponse]
    used: dict[str, float]
    lost: dict[str, float]


def describe_shares(start_ms: int, pool: str, totals: ShareTotals) -> ShareResponse:
    """The means of a bucket that is not empty, as the API returns them."""
    means = totals.means()
    return ShareResponse(
        time=timestamps.rfc3339(start_ms),
        pool=pool,
        share=round(means.share, 6),
        fair_share=round(means.fair_share, 6),
        demand_share=round(means.demand_share, 6),
        queued=round(means.queued, 3),
        running=round(means.running, 3),
    )
