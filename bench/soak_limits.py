"""Judge what a soak measured: slopes of series, and their limits."""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fairlead_common.log.opening import CLEANUP_S


class Limit(msgspec.Struct, frozen=True):
    """How much a series may grow per million jobs, and what it is measured in."""

    prefix: str
    most: float
    unit: str


LIMITS: Final = (
    Limit("memory.", 40.0, "MB"),
    Limit("descriptors.", 20.0, ""),
    Limit("descriptors.postgres", 600.0, ""),  # each connection opens each file of a table
    Limit("threads.", 5.0, ""),
    Limit("size.fairlead_submit", 10.0, "MB"),
    Limit("size.fairlead_scheduler", 100.0, "MB"),
    Limit("files.runs", 100.0, ""),
    Limit("files.logs", 20.0, "MB"),
)
"""Per million jobs. A series is judged by the longest prefix of its name."""
HISTORY: Final = ("size.fairlead_lookout", "size.fairlead_scheduler.ended", "size.fairlead_log")
"""These hold ended jobs, and records of the log, within their retention: MB per million jobs are
bytes per job."""
BOUNDED: Final = {"size.wal": 2_300.0, "memory.valkey": 350.0, "valkey.memory": 256.0}
"""MB that these hold at most, whatever their slope: `max_wal_size`, and `maxmemory`."""
SLACK: Final = 5_000
"""A compacted topic may hold twice its live keys in records without tombstones, this number more,
and what is appended between two rounds of upkeep."""
REST_SLACK: Final = 500
"""At rest a compacted topic may hold twice its live keys in records, tombstones included, and this
number more: what heartbeats and reports add between two rounds of upkeep."""


class Sample(msgspec.Struct, frozen=True):
    """All series at one moment, and how many jobs had been submitted."""

    at_s: float
    jobs: int
    values: dict[str, float]


def slopes(samples: Sequence[Sample]) -> dict[str, float]:
    """The slope of each series per million jobs, over the second half of the run."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return {}
    names = half[0].values.keys()
    return {
        name: round(slope([(sample.jobs / 1e6, sample.values[name]) for sample in half]), 2)
        for name in sorted(names)
    }


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes between all pairs of points; 0 without any pair."""
    pairs = itertools.combinations(points, 2)
    found = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in pairs if x2 > x1]
    return statistics.median(found) if found else 0.0


def beyond(series: dict[str, float], samples: Sequence[Sample]) -> list[str]:
    """What exceeds its limit, in words."""
    found = []
    for name, value in series.items():
        limit = max(_limits(name), key=lambda each: len(each.prefix), default=None)
        if limit is not None and value > limit.most:
            unit = f" {limit.unit}" if limit.unit else ""
            found.append(
                f"{name} grows by {value:.1f}{unit} per million jobs; at most {limit.most:g}"
            )
    for name, most in BOUNDED.items():
        reached = max((sample.values.get(name, 0.0) for sample in samples), default=0.0)
        if reached > most:
            found.append(f"{name} reached {reached:.0f} MB; at most {most:g}")
    return found


def _limits(name: str) -> Iterator[Limit]:
    if name in BOUNDED or name in HISTORY:
        return
    for limit in LIMITS:
        if name.startswith(limit.prefix):
            yield limit


def superseded(topics: dict[str, dict[str, int]], rate: float) -> list[str]:
    """Compacted topics that hold too many records that newer ones of their key replace."""
    found = []
    for topic, counts in topics.items():
        values = counts["records"] - counts["tombstones"]
        most = 2 * counts["live"] + SLACK + 2 * rate * CLEANUP_S
        if values > most:
            found.append(f"{topic} holds {values} values for {counts['live']} live keys")
    return found


def uncompacted(topics: dict[str, dict[str, int]]) -> list[str]:
    """Compacted topics that hold more than twice their live keys although nothing runs."""
    return [
        f"{topic} holds {counts['records']} records for {counts['live']} live keys at rest"
        for topic, counts in topics.items()
        if counts["records"] > 2 * counts["live"] + REST_SLACK
    ]
