"""The picture of a group's running members: steps, limits, marks, and their bounds."""

from typing import Any

import msgspec

from fairlead_lookout.http.group_responses import GroupDetail
from fairlead_lookout.http.pages.scheduling import group_charts
from fairlead_lookout.store.queries.group_lists import RoleCounts

BEGIN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ROLES = b'[{"name":"ps","min":1,"max":1},{"name":"worker","min":1,"max":2}]'
WIDER = b'[{"name":"ps","min":1,"max":1},{"name":"worker","min":2,"max":4}]'


def role(name: str) -> RoleCounts:
    return RoleCounts(
        name=name, min=1, max=2, queued=0, pending=0, running=1, succeeded=0, failed=0, stopped=0
    )


def group(**fields: Any) -> GroupDetail:
    plain: dict[str, Any] = {
        "id": "g", "queue": "q", "job_set": "s", "state": "RUNNING", "restarts": 0,
        "roles": [role("ps"), role("worker")], "last_change": "groupRunning",
        "submitted": "2026-01-01T00:00:00Z", "changed": "2026-01-01T00:00:00Z", "labels": {},
        "completion_roles": [], "on_member_failure": "fail", "restart_limit": 3,
        "freeze_seconds": 0, "step_max": 0, "startup": [], "headless_service": False, "members": [],
    }  # fmt: skip
    return GroupDetail(**(plain | fields))


def event(after_s: int, kind: str, roles: bytes | None = None) -> dict[str, Any]:
    text = None if roles is None else roles.decode()
    return {"time_ms": BEGIN_MS + 1_000 * after_s, "type": kind, "roles": text}


def count(after_s: int, name: str, running: int) -> dict[str, Any]:
    return {"role": name, "time_ms": BEGIN_MS + 1_000 * after_s, "running": running}


def test_running_members_and_limits_are_steps_until_now() -> None:
    period = group_charts.find_period(group(), BEGIN_MS + 99_500)
    assert period.end_ms == BEGIN_MS + 100_000  # rounded up, so that it changes no more often
    events = [event(50, "groupScaled", WIDER), event(0, "groupSubmitted", ROLES)]
    counts = [count(10, "worker", 2), count(60, "worker", 4)]
    _, chart = group_charts.draw_charts(group(), period, counts, events)
    height = group_charts.HEIGHT
    assert chart.ticks == ["4", "0"]
    assert chart.running == (
        f"0.0,{height}.0 100.0,{height}.0 100.0,{height / 2} 600.0,{height / 2} 600.0,0.0"
        " 1000.0,0.0"
    )
    assert chart.maximum == f"0.0,{height / 2} 500.0,{height / 2} 500.0,0.0 1000.0,0.0"
    assert chart.time_ticks == ["00:00:00", "00:00:50", "00:01:40"]


def test_scalings_and_restarts_are_marked() -> None:
    ended = group(ended="2026-01-01T00:01:40Z")
    period = group_charts.find_period(ended, BEGIN_MS)
    events = [
        event(80, "groupRecreated", ROLES), event(50, "groupRestarting"),
        event(20, "groupScaled", ROLES), event(10, "groupRunning"),
    ]  # fmt: skip
    chart, _ = group_charts.draw_charts(ended, period, [], events)
    assert [(mark.x, mark.kind) for mark in chart.marks] == [
        (200.0, "scaled"), (500.0, "restart"), (800.0, "restart"),
    ]  # fmt: skip
    assert chart.marks[0].text == "scaled at 01 Jan 00:00:20"


def test_a_group_from_before_its_events_were_stored_has_the_present_limits() -> None:
    period = group_charts.find_period(group(), BEGIN_MS)
    charts = group_charts.draw_charts(group(), period, [], [])
    assert [chart.role for chart in charts] == ["ps", "worker"]
    assert charts[0].minimum == f"0.0,{group_charts.HEIGHT / 2} 1000.0,{group_charts.HEIGHT / 2}"


def test_at_most_the_first_roles_are_drawn() -> None:
    many = msgspec.structs.replace(group(), roles=[role(f"r{index}") for index in range(20)])
    period = group_charts.find_period(many, BEGIN_MS)
    assert len(group_charts.draw_charts(many, period, [], [])) == group_charts.CHARTS_MAX
