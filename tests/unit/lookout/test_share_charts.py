"""The picture of shares: lines that fill their box and stay in it."""

import itertools
import random
import re

from fairlead_common.domain import timestamps
from fairlead_lookout.http.pages.scheduling import share_charts
from fairlead_lookout.http.responses.fairness_responses import FairnessResponse, ShareResponse

HOUR_MS = 3_600_000


def found(points: list[ShareResponse]) -> FairnessResponse:
    """These points in a day that begins at 0."""
    return FairnessResponse(
        queue="q",
        from_=timestamps.rfc3339(0),
        to=timestamps.rfc3339(24 * HOUR_MS),
        step_seconds=3_600,
        points=points,
        usage=[],
        users=[],
        used={},
        lost={},
    )


def read_line(path: str) -> list[tuple[int, int, int]]:
    """(left, right, y) of each level of a line in steps."""
    levels: list[tuple[int, int, int]] = []
    x = y = 0
    for command, first, second in re.findall(r"([Mhv])(-?\d+)(?: (\d+))?", path):
        if command == "M":
            x, y = int(first), int(second)
        elif command == "v":
            y += int(first)
        else:
            levels.append((x, x + int(first), y))
            x += int(first)
    return levels


def test_lines_stay_in_their_box_and_each_pool_has_a_chart() -> None:
    chance = random.Random(4)
    points = [
        ShareResponse(
            time=timestamps.rfc3339(hour * HOUR_MS),
            pool=pool,
            share=chance.random() / 3,
            fair_share=chance.random() / 3,
            demand_share=3 * chance.random(),
            queued=0,
            running=0,
        )
        for hour in range(24)
        for pool in ("a", "b")
    ]
    pictures = share_charts.draw_charts(found(points))
    assert [each.pool for each in pictures] == ["a", "b"]
    for each in pictures:
        assert 0.1 <= each.top <= 1
        for line in (each.share, each.fair_share, each.demand_share):
            levels = read_line(line)
            assert 12 <= len(levels) <= 24
            assert levels[0][0] == 0
            assert levels[-1][1] == share_charts.WIDTH
            assert all(one[1] == other[0] for one, other in itertools.pairwise(levels))
            assert all(0 <= y <= share_charts.HEIGHT for _, _, y in levels)
    assert share_charts.draw_charts(found([])) == []


def test_a_trimmed_chart_begins_with_the_first_share_and_has_at_least_an_hour() -> None:
    for hour, begin_hour, span in ((0, 0, "24 hours"), (20, 20, "4 hours"), (23, 23, "60 minutes")):
        point = ShareResponse(
            time=timestamps.rfc3339(hour * HOUR_MS), pool="a", share=0.1, fair_share=0.2,
            demand_share=3.0, queued=1, running=0,
        )  # fmt: skip
        (chart,) = share_charts.draw_charts(found([point]), is_trimmed=True)
        assert chart.times[0] == timestamps.rfc3339(begin_hour * HOUR_MS)
        assert chart.span == span
        assert read_line(chart.share)[0][0] == 0
        assert chart.is_cut
        assert chart.waiting_ticks == ["1 job", "0"]
        (whole,) = share_charts.draw_charts(found([point]))
        assert whole.times[0] == timestamps.rfc3339(0)


def test_the_times_of_an_axis_have_what_distinguishes_them() -> None:
    point = share_charts.SharePoint(0, share=0.1, fair_share=0.2, demand_share=0.3, queued=0)
    for hours, tick in ((1, "clock"), (6, "clock"), (24, "minute"), (25, "minute"), (168, "day")):
        chart = share_charts.draw_chart("a", [point], 0, hours * HOUR_MS, HOUR_MS)
        assert chart.tick == tick


def test_a_line_shows_each_step_to_the_pixel_and_has_gaps_where_nothing_is_known() -> None:
    chance = random.Random(5)
    points = [
        share_charts.SharePoint(hour * HOUR_MS, chance.random(), 0.5, 0.5, 0.0)
        for hour in range(720)
        if not 100 <= hour < 200
    ]
    chart = share_charts.draw_chart("a", points, 0, 720 * HOUR_MS, HOUR_MS)
    for point in points:
        x = share_charts.WIDTH * (point.start_ms / HOUR_MS + 0.5) / 720
        y = share_charts.HEIGHT * (1 - point.share / chart.top)
        assert any(
            left - 1 <= x <= right + 1 and abs(level - y) <= 0.5
            for left, right, level in read_line(chart.share)
        )
    assert read_line(chart.fair_share) == [(0, 139, 110), (278, 1000, 110)]
    assert len(chart.share) < 720 * 8
