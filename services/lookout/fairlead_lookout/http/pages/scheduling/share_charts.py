"""Shares over time as lines of an SVG, computed here so that pages need no script."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from fairlead_common.domain import timestamps
from fairlead_lookout.domain.fairness_fold import MINUTE_MS, ShareTotals
from fairlead_lookout.domain.resource_usage import HOUR_MS
from fairlead_lookout.http.responses.fairness_responses import FairnessResponse

WIDTH: Final = 1_000
HEIGHT: Final = 220
DAY_MS: Final = 24 * HOUR_MS
Tick = Literal["clock", "minute", "day"]
"""What is written of a time below an axis: the time of day, the date as well, or only the date."""
CLOCK_MS_MAX: Final = 12 * HOUR_MS
MINUTE_TICK_MS_MAX: Final = 4 * DAY_MS


class SharePoint(msgspec.Struct, frozen=True):
    """Means over one step that begins at `start_ms`: shares of 1.0, and jobs."""

    start_ms: int
    share: float
    fair_share: float
    demand_share: float
    queued: float


class ShareChart(msgspec.Struct, frozen=True):
    """Lines in a box of `WIDTH` x `HEIGHT`; `top`: the share at its upper edge.

    `waiting`: the jobs that wait, in a box of their own. Ticks are the texts beside the axes: of
    shares and jobs from the top down. `times`: the first one, the middle and the last, and `tick`
    what is written of them; `span`: the time between the first and the last, as text. `is_cut`:
    some demand is above the upper edge.
    """

    pool: str
    top: float
    share: str
    fair_share: str
    demand_share: str
    latest: SharePoint
    waiting: str
    share_ticks: list[str]
    waiting_ticks: list[str]
    times: list[str]
    span: str
    tick: Tick
    is_cut: bool


def make_point(start_ms: int, totals: ShareTotals) -> SharePoint:
    """The means of a bucket that is not empty."""
    means = totals.means()
    return SharePoint(start_ms, means.share, means.fair_share, means.demand_share, means.queued)


def draw_charts(found: FairnessResponse, *, is_trimmed: bool = False) -> list[ShareChart]:
    """One chart for each pool in which the queue had a share.

    `is_trimmed`: they begin with the first share of the queue, but at least an hour before the end.
    """
    pools: dict[str, list[SharePoint]] = {}
    for each in found.points:
        point = SharePoint(
            _to_ms(each.time), each.share, each.fair_share, each.demand_share, each.queued
        )
        pools.setdefault(each.pool, []).append(point)
    from_ms, to_ms = _to_ms(found.from_), _to_ms(found.to)
    if is_trimmed and pools:
        first_ms = min(points[0].start_ms for points in pools.values())
        from_ms = max(from_ms, min(to_ms - HOUR_MS, first_ms))
    step_ms = 1_000 * found.step_seconds
    return [
        draw_chart(pool, points, from_ms, to_ms, step_ms) for pool, points in sorted(pools.items())
    ]


def draw_chart(
    pool: str, points: Sequence[SharePoint], from_ms: int, to_ms: int, step_ms: int
) -> ShareChart:
    """The chart of a queue in a pool between two times: at least one point, in order."""
    highest = max(max(point.share, point.fair_share, point.demand_share) for point in points)
    top = min(1.0, max(0.1, highest * 1.1))
    waiting_top = max(1.0, max(point.queued for point in points))
    scale = WIDTH / (to_ms - from_ms)
    points = [point for point in points if from_ms < point.start_ms + step_ms]
    steps = [
        (
            round(scale * (max(point.start_ms, from_ms) - from_ms)),
            round(scale * (min(point.start_ms + step_ms, to_ms) - from_ms)),
        )
        for point in points
    ]
    return ShareChart(
        pool=pool,
        top=top,
        share=_draw_line(steps, (point.share for point in points), top),
        fair_share=_draw_line(steps, (point.fair_share for point in points), top),
        demand_share=_draw_line(steps, (point.demand_share for point in points), top),
        latest=points[-1],
        waiting=_draw_line(steps, (point.queued for point in points), waiting_top),
        share_ticks=[f"{100 * top * part:.0f} %" for part in (1, 0.5, 0)],
        waiting_ticks=[f"{waiting_top:,.0f} job{'s' if waiting_top > 1 else ''}", "0"],
        times=[timestamps.rfc3339(ms) for ms in (from_ms, (from_ms + to_ms) // 2, to_ms)],
        span=_describe_span(to_ms - from_ms),
        tick=_choose_tick(to_ms - from_ms),
        is_cut=highest > top,
    )


def _choose_tick(span_ms: int) -> Tick:
    """What distinguishes the times of an axis."""
    if span_ms <= CLOCK_MS_MAX:
        return "clock"
    return "minute" if span_ms <= MINUTE_TICK_MS_MAX else "day"


def _describe_span(span_ms: int) -> str:
    """In minutes below two hours, in hours below three days: `60 minutes`, `24 hours`."""
    for unit, unit_ms, units_min in (("days", DAY_MS, 3), ("hours", HOUR_MS, 2)):
        if span_ms >= units_min * unit_ms:
            return f"{round(span_ms / unit_ms)} {unit}"
    return f"{round(span_ms / MINUTE_MS)} minutes"


def _draw_line(steps: Iterable[tuple[int, int]], values: Iterable[float], top: float) -> str:
    """The path of a line in steps, as each mean is valid for its whole step.

    The numbers are whole, as a unit is about a pixel: every step is drawn, and successive steps are
    one where the picture cannot show a difference. The line has gaps where there are no steps.
    """
    made: list[str] = []
    begin = end = level = -1
    for (left, right), value in zip(steps, values, strict=True):
        y = round(HEIGHT * (1 - min(value, top) / top))
        if left != end:
            made.append(f"h{end - begin}M{left} {y}" if made else f"M{left} {y}")
            begin = left
        elif y != level:
            made.append(f"h{end - begin}v{y - level}")
            begin = end
        end, level = right, y
    return "".join(made) + f"h{end - begin}"


def _to_ms(time: str) -> int:
    return round(1_000 * datetime.fromisoformat(time).timestamp())
