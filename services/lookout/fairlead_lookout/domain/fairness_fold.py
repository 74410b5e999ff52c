"""Shares over time: what the scheduler says of each queue, integrated over the log's time. Pure.

A queue's standing holds from the record that says it until the next one. The time between is added
to the minutes and hours that it covers, weighted with the ms; a sum divided by its ms is a mean.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fairlead_common.domain.records.scheduling_reports import QueueShare, Round, Waiting, decode
from fairlead_lookout.domain.resource_usage import HOUR_MS, spread

MINUTE_MS: Final = 60_000
MINUTES_KEPT_MS: Final = 2 * 24 * HOUR_MS
"""For so long the minutes are kept; then only the hours."""
GAP_MS_MAX: Final = 31 * 24 * HOUR_MS

StandingKey = tuple[str, str]
"""(pool, queue)"""
BucketKey = tuple[int, str, int, str]
"""(width in ms, queue, first ms, pool)"""


class Said(msgspec.Struct, frozen=True):
    """One record of `fairlead.reports`, decoded; `report` None takes it back."""

    key: str
    time_ms: int
    report: Waiting | QueueShare | Round | None


class Standing(msgspec.Struct, frozen=True):
    """What was last said of a queue in a pool, and up to when that is in the sums."""

    share: QueueShare
    summed_ms: int


class Sums(msgspec.Struct):
    """Values x ms of one bucket."""

    ms: int = 0
    actual_share: float = 0.0
    fair_share: float = 0.0
    demand_share: float = 0.0
    queued: float = 0.0
    running: float = 0.0

    def add(self, share: QueueShare, ms: int) -> None:
        """So many ms of this."""
        self.ms += ms
        self.actual_share += share.actual_share * ms
        self.fair_share += share.fair_share * ms
        self.demand_share += share.demand_share * ms
        self.queued += share.queued * ms
        self.running += share.running * ms


class Added(msgspec.Struct, frozen=True):
    """What a batch of records makes of the tables: None for a standing that is no more."""

    sums: dict[BucketKey, Sums]
    now: dict[StandingKey, Standing | None]
    rounds: list[Round]


def read(key: str, value: bytes | None, time_ms: int) -> Said:
    """A record as it came from the log."""
    return Said(key, time_ms, None if value is None else decode(value))


def apply(known: Mapping[StandingKey, Standing], said: Iterable[Said]) -> Added:
    """What these records, in order, make of what is known."""
    added = Added({}, {}, [])
    for each in said:
        match each.report:
            case QueueShare() as share:
                at = (share.pool, share.queue)
                _close(added, known, at, each.time_ms)
                added.now[at] = Standing(share, each.time_ms)
            case Round() as done:
                added.rounds.append(done)
            case Waiting():
                pass
            case None:
                pool, _, queue = each.key.partition("/")
                if queue and "/" not in queue:
                    _close(added, known, (pool, queue), each.time_ms)
                    added.now[pool, queue] = None
    return added


def _close(
    added: Added, known: Mapping[StandingKey, Standing], at: StandingKey, time_ms: int
) -> None:
    standing = added.now[at] if at in added.now else known.get(at)
    if standing is not None:
        add(added.sums, standing, time_ms)


def add(sums: dict[BucketKey, Sums], standing: Standing, until_ms: int) -> None:
    """Add the time in which this held."""
    share = standing.share
    for width_ms, kept_ms in ((MINUTE_MS, MINUTES_KEPT_MS), (HOUR_MS, GAP_MS_MAX)):
        from_ms = max(standing.summed_ms, until_ms - kept_ms)
        for start_ms, ms in spread(from_ms, until_ms, width_ms):
            key = (width_ms, share.queue, start_ms, share.pool)
            bucket = sums.get(key)
            if bucket is None:
                sums[key] = bucket = Sums()
            bucket.add(share, ms)
