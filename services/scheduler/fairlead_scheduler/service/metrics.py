"""The Prometheus metrics of the scheduler."""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from fairlead_common.domain.records.scheduling_reports import (
    GroupNearness,
    QueueShare,
    Report,
    RoundReport,
    WaitingReport,
)

QUEUES_MAX: Final = 1_000
"""Queues per pool whose shares are exported, the first by name."""

CYCLE_SECONDS = Histogram(
    "fairlead_scheduler_cycle_seconds", "Time of one cycle, by step (s)", ["step"]
)
ROUND_SECONDS = Histogram(
    "fairlead_scheduler_round_seconds", "Time of a pool's round, by step (s)", ["pool", "step"]
)
POOL_FAILURES = Counter(
    "fairlead_scheduler_pool_failures_total", "Rounds of a pool that raised", ["pool"]
)
POOL_FAILING = Gauge("fairlead_scheduler_pool_failing", "1 while a pool's rounds fail", ["pool"])
EXECUTOR_SILENCE = Gauge(
    "fairlead_scheduler_executor_silence_seconds",
    "Since an executor was last heard, while the log could be read (s)",
    ["executor"],
)
SHARE = Gauge(
    "fairlead_scheduler_queue_share",
    "Share of a queue in a pool (1.0 is all of it): weight, fair, uncapped, actual, demand",
    ["pool", "queue", "share"],
)
WAITING = Gauge(
    "fairlead_scheduler_waiting_jobs", "Jobs that wait, by reason code", ["pool", "code"]
)
VIEW_UNUSABLE = Gauge(
    "fairlead_scheduler_view_unusable", "1 while the checkpoint waits for `fairlead repair`"
)
LEASED = Counter("fairlead_scheduler_leased_total", "Jobs that were placed", ["pool"])
PREEMPTED = Counter("fairlead_scheduler_preempted_total", "Runs that were preempted", ["pool"])
DECIDED = Counter("fairlead_scheduler_decisions_total", "Decisions before scheduling")
EVENTS = Counter("fairlead_scheduler_events_total", "Messages folded into the view")
IMPOSSIBLE = Counter(
    "fairlead_scheduler_impossible_events_total",
    "Events that were ignored because only a defect leads to them in this state of the job",
    ["state", "event"],
)
JOBS = Gauge("fairlead_scheduler_jobs", "Live jobs in the view")
LEADING = Gauge("fairlead_scheduler_leading", "1 while this process leads")
LAG = Gauge("fairlead_scheduler_lag_seconds", "Time from the append of a message to its fold (s)")
CHECKPOINT_SECONDS = Histogram(
    "fairlead_scheduler_checkpoint_seconds", "Time to save what changed (s)"
)


def show_silence(silence_s: Mapping[str, float]) -> None:
    """Set the gauges of the silence of these executors; remove the gauges of all others."""
    for executor in _silence_labels - silence_s.keys():
        EXECUTOR_SILENCE.remove(executor)
    for executor, silent_s in silence_s.items():
        EXECUTOR_SILENCE.labels(executor).set(silent_s)
    _silence_labels.clear()
    _silence_labels.update(silence_s)


_silence_labels: Final[set[str]] = set()


def forget_pool(pool: str) -> None:
    """Remove the metrics of a pool, which has neither nodes nor jobs any more."""
    for step in ("build", "plan"):
        ROUND_SECONDS.remove(pool, step)
    for metric in (POOL_FAILURES, POOL_FAILING, LEASED, PREEMPTED):
        metric.remove(pool)


class PoolGauges:
    """The gauges of one pool; values that no longer exist are removed."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._queues: set[str] = set()
        self._codes: set[str] = set()

    def update(self, reports: Iterable[Report]) -> None:
        """Set the gauges from all current reports of the pool."""
        shares: dict[str, QueueShare] = {}
        waiting: dict[str, int] = {}
        for report in reports:
            match report:
                case QueueShare():
                    shares[report.queue] = report
                case WaitingReport():
                    waiting[report.code] = waiting.get(report.code, 0) + report.jobs
                case GroupNearness() | RoundReport():
                    pass
        self._show_shares({name: shares[name] for name in sorted(shares)[:QUEUES_MAX]})
        for code in self._codes - waiting.keys():
            WAITING.remove(self._pool, code)
        for code, jobs in waiting.items():
            WAITING.labels(self._pool, code).set(jobs)
        self._codes = set(waiting)

    def _show_shares(self, shares: Mapping[str, QueueShare]) -> None:
        for name in self._queues - shares.keys():
            for kind in _SHARES:
                SHARE.remove(self._pool, name, kind)
        for name, share in shares.items():
            for kind, value in _by_kind(share).items():
                SHARE.labels(self._pool, name, kind).set(value)
        self._queues = set(shares)


_SHARES: Final = ("weight", "fair", "uncapped", "actual", "demand")


def _by_kind(share: QueueShare) -> dict[str, float]:
    values = (
        share.weight_share,
        share.fair_share,
        share.uncapped_share,
        share.actual_share,
        share.demand_share,
    )
    return dict(zip(_SHARES, values, strict=True))
