"""Shares over time as lines of an SVG, computed here so that pages need no script."""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from fairlead_common.domain import timestamps
from fairlead_lookout.http.responses import FairnessResponse, ShareResponse

WIDTH = 1_000
HEIGHT = 220
DAY_S = 86_400
HOUR_S = 3_600


class ShareChart(msgspec.Struct, frozen=True):
    """Lines in a box of `WIDTH` x `HEIGHT`; `top`: the share at its upper edge.

    `waiting`: the jobs that wait, in a box of their own. Ticks are the texts beside the axes: of
    shares and jobs from the top down. `times`: the first one, the middle and the last, of more
    than a day if `is_long`. `is_cut`: some demand is above the upper edge.
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
    times: list[str]
    is_long: bool
    is_cut: bool


def draw_charts(found: FairnessResponse, *, is_trimmed: bool = False) -> list[ShareChart]:
    """One chart for each pool in which the queue had a share.

    `is_trimmed`: they begin with the first share of the queue, but at least an hour before the end.
    """
    if is_trimmed and found.points:
        latest_s = _to_seconds(found.to) - HOUR_S
        first_s = min(latest_s, *(_to_seconds(point.time) for point in found.points))
        begin_s = max(first_s, _to_seconds(found.from_))
        found = msgspec.structs.replace(found, from_=timestamps.rfc3339(round(1_000 * begin_s)))
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
        waiting_ticks=[f"{waiting_top:,.0f} job{'s' if waiting_top > 1 else ''}", "0"],
        times=_find_times(found),
        is_long=_to_seconds(found.to) - _to_seconds(found.from_) > DAY_S,
        is_cut=highest > top,
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


def _find_times(found: FairnessResponse) -> list[str]:
    """The first time, the middle and the last."""
    middle_s = (_to_seconds(found.from_) + _to_seconds(found.to)) / 2
    return [found.from_, timestamps.rfc3339(round(1_000 * middle_s)), found.to]


def _to_seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
