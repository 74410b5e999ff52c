"""Shares over time: what the scheduler reports about each queue, integrated over the log's time.

The share of a queue is valid from the record that reports it until the next one. The time between
is added to the minutes and hours that it covers, weighted with the ms; a sum divided by its ms is a
mean.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead_common.domain.records.scheduling_reports import (
    GroupNearness,
    QueueShare,
    Report,
    RoundReport,
    WaitingReport,
    decode,
)
from fairlead_lookout.domain.resource_usage import HOUR_MS, split_time

MINUTE_MS: Final = 60_000
MINUTES_RETAINED_MS: Final = 2 * 24 * HOUR_MS
"""Minutes are retained for this long, then only hours."""
GAP_MS_MAX: Final = 31 * 24 * HOUR_MS

ShareKey = tuple[str, str]
"""(pool, queue)"""
BucketKey = tuple[int, str, int, str]
"""(width in ms, queue, first ms, pool)"""


class ReportRecord(msgspec.Struct, frozen=True):
    """One record of `fairlead.reports`, decoded; `report`: None for a deleted key."""

    key: str
    time_ms: int
    report: Report | None


class ReportedShare(msgspec.Struct, frozen=True):
    """The last report about a queue in a pool, and up to when it has been added to the totals."""

    share: QueueShare
    summed_ms: int


class ShareMeans(msgspec.Struct, frozen=True):
    """Means over a time: shares of 1.0, and jobs."""

    share: float
    fair_share: float
    demand_share: float
    queued: float
    running: float


class ShareTotals(msgspec.Struct):
    """Values x ms of one bucket."""

    ms: int = 0
    actual_share: float = 0.0
    fair_share: float = 0.0
    demand_share: float = 0.0
    queued: float = 0.0
    running: float = 0.0

    def add(self, share: QueueShare, ms: int) -> None:
        """Add this share for a time."""
        self.ms += ms
        self.actual_share += share.actual_share * ms
        self.fair_share += share.fair_share * ms
        self.demand_share += share.demand_share * ms
        self.queued += share.queued * ms
        self.running += share.running * ms

    def means(self) -> ShareMeans:
        """The means of a bucket that is not empty."""
        return ShareMeans(
            share=self.actual_share / self.ms,
            fair_share=self.fair_share / self.ms,
            demand_share=self.demand_share / self.ms,
            queued=self.queued / self.ms,
            running=self.running / self.ms,
        )


class FairnessChanges(msgspec.Struct, frozen=True):
    """What a batch of records adds to the tables. `current`: the newest reports, None for a queue
    that has left its pool."""

    totals: dict[BucketKey, ShareTotals]
    current: dict[ShareKey, ReportedShare | None]
    rounds: list[RoundReport]


def decode_record(key: str, value: bytes | None, time_ms: int) -> ReportRecord:
    """A record of the log."""
    return ReportRecord(key, time_ms, None if value is None else decode(value))


def fold_reports(
    known: Mapping[ShareKey, ReportedShare], records: Iterable[ReportRecord]
) -> FairnessChanges:
    """Apply these records, in order, to the newest reports that are known."""
    changes = FairnessChanges({}, {}, [])
    for record in records:
        match record.report:
            case QueueShare() as share:
                key = (share.pool, share.queue)
                _add_until(changes, known, key, record.time_ms)
                changes.current[key] = ReportedShare(share, record.time_ms)
            case RoundReport() as last:
                changes.rounds.append(last)
            case WaitingReport() | GroupNearness():
                pass
            case None:
                pool, _, queue = record.key.partition("/")
                if queue and "/" not in queue:
                    _add_until(changes, known, (pool, queue), record.time_ms)
                    changes.current[pool, queue] = None
    return changes


def _add_until(
    changes: FairnessChanges,
    known: Mapping[ShareKey, ReportedShare],
    key: ShareKey,
    time_ms: int,
) -> None:
    reported = changes.current[key] if key in changes.current else known.get(key)
    if reported is not None:
        add_share(changes.totals, reported, time_ms)


def add_share(totals: dict[BucketKey, ShareTotals], reported: ReportedShare, until_ms: int) -> None:
    """Add the time in which this report was the newest."""
    share = reported.share
    for width_ms, span_ms in ((MINUTE_MS, MINUTES_RETAINED_MS), (HOUR_MS, GAP_MS_MAX)):
        from_ms = max(reported.summed_ms, until_ms - span_ms)
        for start_ms, ms in split_time(from_ms, until_ms, width_ms):
            key = (width_ms, share.queue, start_ms, share.pool)
            bucket = totals.get(key)
            if bucket is None:
                totals[key] = bucket = ShareTotals()
            bucket.add(share, ms)
