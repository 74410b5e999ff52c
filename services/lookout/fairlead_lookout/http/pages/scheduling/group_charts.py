"""The running members of a group over time as SVGs, computed here so that pages need no script."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.records.group_terms import GroupRole
from fairlead_lookout.domain.groups.group_scalings import Scaling
from fairlead_lookout.http.responses.group_responses import GroupDetail
from fairlead_lookout.http.responses.response_base import ResponseBody
from fairlead_lookout.store.queries.group_history import GroupHistory

WIDTH: Final = 1_000
HEIGHT: Final = 140
DAY_MS: Final = 86_400_000
SECONDS_SPAN_MS: Final = 600_000
"""A shorter picture has times with seconds."""
CHARTS_MAX: Final = 8
"""The first roles are drawn."""
STEPS_MAX: Final = 200
"""The newest events and scalings are listed, and the newest scalings marked."""
NAMED_MAX: Final = 5
"""Members that the text of a scaling names."""
NOW_STEP_MS: Final = 10_000
"""A live group is drawn up to a multiple of this, so that its picture changes no more often."""
_MARKS: Final = {
    "groupScaled": ("scaled", "scaled"),
    "groupRestarting": ("restart", "restarted"),
    "groupRecreated": ("restart", "re-created"),
}


class Mark(msgspec.Struct, frozen=True):
    """A vertical line at `x`. `kind`: `scaled` or `restart`; `text`: what happened at the time."""

    x: float
    kind: str
    text: str
    time: str


class Step(ResponseBody, frozen=True, kw_only=True):
    """A public event, or what the scheduler scaled or restarted, as the page lists it."""

    time: str
    type: str
    by: str | None = None
    reason: str | None = None


class RoleChart(msgspec.Struct, frozen=True):
    """Lines in a box of `WIDTH` x `HEIGHT`: points of running members, minimum and maximum.

    Ticks are beside the axes: texts of members from the top down, times from the left, which are
    written in this format: `seconds`, `clock` or `day`.
    """

    role: str
    summary: str
    running: str
    minimum: str
    maximum: str
    marks: list[Mark]
    ticks: list[str]
    times: list[str]
    time_format: str


class Period(msgspec.Struct, frozen=True):
    """The time that charts show, in ms."""

    begin_ms: int
    end_ms: int

    def x(self, time_ms: int) -> float:
        """The place of a time on the axis."""
        inside = min(max(time_ms, self.begin_ms), self.end_ms)
        return WIDTH * (inside - self.begin_ms) / (self.end_ms - self.begin_ms)


def find_period(group: GroupDetail, now_ms: int) -> Period:
    """From the submission of the group to its end, or to now."""
    begin_ms = _to_ms(group.submitted)
    if group.ended is not None:
        return Period(begin_ms, max(_to_ms(group.ended), begin_ms + 1))
    return Period(begin_ms, max(-(-now_ms // NOW_STEP_MS) * NOW_STEP_MS, begin_ms + 1))


def draw_charts(
    group: GroupDetail, period: Period, counts: Sequence[Any], history: GroupHistory
) -> list[RoleChart]:
    """One chart for each role. `counts`: rows (role, time_ms, running) in order of time."""
    of_group = [
        (time_ms, *known)
        for time_ms, event in history.events
        if (known := _MARKS.get(event.type)) is not None
    ]
    charts = []
    for role in group.roles[:CHARTS_MAX]:
        steps = [(row["time_ms"], row["running"]) for row in counts if row["role"] == role.name]
        limits = [
            (each.time_ms, each.roles[role.name])
            for each in history.terms
            if role.name in each.roles
        ]
        if not limits:
            limits = [(period.begin_ms, GroupRole(role.name, role.min, role.max))]
        highest = max([count for _, count in steps] + [limit.max for _, limit in limits])
        top = max(1, highest)
        charts.append(
            RoleChart(
                role=role.name,
                summary=f"{role.running} running, minimum {role.min}, maximum {role.max}",
                running=_draw_steps(period, [(period.begin_ms, 0), *steps], top),
                minimum=_draw_steps(period, [(at, limit.min) for at, limit in limits], top),
                maximum=_draw_steps(period, [(at, limit.max) for at, limit in limits], top),
                marks=_draw_marks(period, [*of_group, *_list_marks(history, role.name)]),
                ticks=[str(top), "0"],
                times=_choose_times(period),
                time_format=_choose_format(period),
            )
        )
    return charts


def list_steps(history: GroupHistory) -> list[Step]:
    """The newest events and scalings, newest first."""
    steps = [
        (time_ms, Step(time=event.time, type=event.type, by=event.by, reason=event.reason))
        for time_ms, event in history.events
    ]
    for each in history.scalings:
        time = timestamps.rfc3339(each.time_ms)
        step = Step(time=time, type=describe_scaling(each), by=each.by, reason=each.reason)
        steps.append((each.time_ms, step))
    steps.sort(key=lambda step: -step[0])
    return [step for _, step in steps[:STEPS_MAX]]


def describe_scaling(scaling: Scaling) -> str:
    """The members, shortened, and what became of them: `trainer-4, trainer-5 stopped`."""
    named = [f"{scaling.role}-{index}" for index in scaling.indexes[:NAMED_MAX]]
    more = len(scaling.indexes) - len(named)
    return f"{', '.join(named)}{f' and {more} more' if more else ''} {scaling.change}"


def _list_marks(history: GroupHistory, role: str) -> list[tuple[int, str, str]]:
    """(time in ms, kind, text) of what the scheduler did to members of a role."""
    return [
        (
            each.time_ms,
            "restart" if each.change == "restarted" else "scaled",
            f"{describe_scaling(each)} ({each.reason})" if each.reason else describe_scaling(each),
        )
        for each in history.scalings[:STEPS_MAX]
        if each.role == role
    ]


def _draw_marks(period: Period, marks: list[tuple[int, str, str]]) -> list[Mark]:
    return [
        Mark(period.x(time_ms), kind, what, timestamps.rfc3339(time_ms))
        for time_ms, kind, what in sorted(marks)
    ]


def _draw_steps(period: Period, steps: Sequence[tuple[int, int]], top: int) -> str:
    """The points of a line: each number is valid until the next one."""
    made: list[str] = []
    for place, (at, number) in enumerate(steps):
        until = steps[place + 1][0] if place + 1 < len(steps) else period.end_ms
        y = HEIGHT * (1 - min(number, top) / top)
        made += [f"{period.x(at):.1f},{y:.1f}", f"{period.x(until):.1f},{y:.1f}"]
    return " ".join(made)


def _choose_times(period: Period) -> list[str]:
    """The first time, the middle and the last."""
    span_ms = period.end_ms - period.begin_ms
    times = (period.begin_ms, period.begin_ms + span_ms // 2, period.end_ms)
    return [timestamps.rfc3339(time) for time in times]


def _choose_format(period: Period) -> str:
    """Days for a span longer than one, seconds for one of a few minutes."""
    span_ms = period.end_ms - period.begin_ms
    if span_ms > DAY_MS:
        return "day"
    return "seconds" if span_ms <= SECONDS_SPAN_MS else "clock"


def _to_ms(time: str) -> int:
    return round(1_000 * datetime.fromisoformat(time).timestamp())
