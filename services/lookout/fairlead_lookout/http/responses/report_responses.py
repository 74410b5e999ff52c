"""What the scheduler reports of queues and pools, as the API returns it."""

from fairlead_common.domain import timestamps
from fairlead_common.domain.records import configuration, scheduling_reports
from fairlead_lookout.http.responses.response_base import ResponseBody


class QueueReportResponse(ResponseBody, frozen=True, kw_only=True):
    """The shares of a queue in each pool, its limits, order, why jobs wait. `reasons`: by code."""

    queue: str
    weight: float | None = None
    order: str = configuration.FIFO
    cordoned: bool = False
    reason: str | None = None
    limits: dict[str, dict[str, float | str]]
    shares: list[scheduling_reports.QueueShare]
    waiting: list[scheduling_reports.WaitingReport]
    reasons: dict[str, int]


class RoundResponse(ResponseBody, frozen=True, kw_only=True):
    """One round of a pool. `outcome`: finished, stopped (`stoppedBy`) or failed (`error`).

    `topology`: the levels of the pool, widest first.
    """

    time: str
    outcome: str
    stopped_by: str | None = None
    error: str | None = None
    scheduled: int
    preempted: int
    waiting: int
    nodes: int
    steps_ms: dict[str, float]
    topology: tuple[str, ...] = ()


class PoolReportResponse(ResponseBody, frozen=True, kw_only=True):
    """The last round of a pool, the shares of its queues, why jobs wait. `reasons`: by code."""

    pool: str
    round: RoundResponse | None = None
    shares: list[scheduling_reports.QueueShare]
    waiting: list[scheduling_reports.WaitingReport]
    reasons: dict[str, int]


class RoundsResponse(ResponseBody, frozen=True, kw_only=True):
    """The last rounds of a pool, newest first."""

    pool: str
    rounds: list[RoundResponse]


def describe_round(report: scheduling_reports.RoundReport) -> RoundResponse:
    """A round of the scheduler."""
    return RoundResponse(
        time=timestamps.rfc3339(report.at_ms),
        outcome=report.outcome,
        stopped_by=report.stopped_by or None,
        error=report.error or None,
        scheduled=report.scheduled,
        preempted=report.preempted,
        waiting=report.waiting,
        nodes=report.nodes,
        steps_ms=report.steps_ms,
        topology=report.topology,
    )
