"""Shares over time as lines of an SVG, computed here so that pages need no script."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from fairlead_lookout.http.responses import FairnessResponse, ShareResponse

WIDTH = 1_000
HEIGHT = 220
DAY_S = 86_400


class ShareChart(msgspec.Struct, frozen=True):
    """Lines in a box of `WIDTH` x `HEIGHT`; `top`: the share at its upper edge.

    `waiting`: the jobs that wait, in a box of their own. Ticks are the texts beside the axes: of
    shares and jobs from the top down, of time from the left.
    """

    pool: str
    top: float
    share: str
    fair_share: str
    demand_share: str
    latest: ShareResponse
    waiting: str
    share_ticks: list[str]
    waiting_ticks: list[str]
    time_ticks: list[str]


def draw_charts(found: FairnessResponse) -> list[ShareChart]:
    """One chart for each pool in which the queue had a share."""
    return [
        _draw_chart(found, pool, [point for point in found.points if point.pool == pool])
        for pool in sorted({point.pool for point in found.points})
    ]


def _draw_chart(found: FairnessResponse, pool: str, points: Sequence[ShareResponse]) -> ShareChart:
    highest = max(max(point.share, point.fair_share, point.demand_share) for point in points)
    top = min(1.0, max(0.1, highest * 1.1))

    waiting_top = max(1.0, max(point.queued for point in points))

    def line(value: Callable[[ShareResponse], float]) -> str:
        return _draw_line(found, points, value, top)

    return ShareChart(
        pool=pool,
        top=top,
        share=line(lambda point: point.share),
        fair_share=line(lambda point: point.fair_share),
        demand_share=line(lambda point: point.demand_share),
        latest=points[-1],
        waiting=_draw_line(found, points, lambda point: point.queued, waiting_top),
        share_ticks=[f"{100 * top * part:.0f} %" for part in (1, 0.5, 0)],
        waiting_ticks=[f"{waiting_top:,.0f}", "0"],
        time_ticks=_label_times(found),
    )


def _draw_line(
    found: FairnessResponse,
    points: Sequence[ShareResponse],
    value: Callable[[ShareResponse], float],
    top: float,
) -> str:
    """The points of a line in steps: each mean is valid for its whole step."""
    begin, end = _to_seconds(found.from_), _to_seconds(found.to)
    made: list[str] = []
    for point in points:
        at = _to_seconds(point.time)
        y = HEIGHT * (1 - min(value(point), top) / top)
        for x_s in (at, at + found.step_seconds):
            x = WIDTH * (min(max(x_s, begin), end) - begin) / (end - begin)
            made.append(f"{x:.1f},{y:.1f}")
    return " ".join(made)


def _label_times(found: FairnessResponse) -> list[str]:
    """The first time, the middle and the last: days for a span longer than one."""
    begin, end = _to_seconds(found.from_), _to_seconds(found.to)
    pattern = "%H:%M" if end - begin <= DAY_S else "%d %b"
    times = (begin, (begin + end) / 2, end)
    return [datetime.fromtimestamp(time, UTC).strftime(pattern) for time in times]


def _to_seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
