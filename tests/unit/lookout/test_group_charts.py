"""The picture of a group's running members: steps, limits, marks, and their bounds."""

from typing import Any

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.records.group_terms import GroupRole
from fairlead_lookout.domain.groups.group_scalings import RoleTerms, Scaling
from fairlead_lookout.domain.public_events import EventType, PublicEvent
from fairlead_lookout.http.pages.scheduling import group_charts
from fairlead_lookout.http.responses.group_responses import GroupDetail
from fairlead_lookout.store.queries.group_history import GroupHistory
from fairlead_lookout.store.queries.group_lists import RoleCounts

BEGIN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ROLES = {"ps": GroupRole("ps", 1, 1), "worker": GroupRole("worker", 1, 2)}
WIDER = {"ps": GroupRole("ps", 1, 1), "worker": GroupRole("worker", 2, 4)}
NOTHING = GroupHistory([], [], [])


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


def event(after_s: int, kind: EventType) -> tuple[int, PublicEvent]:
    time_ms = BEGIN_MS + 1_000 * after_s
    time = timestamps.rfc3339(time_ms)
    return time_ms, PublicEvent(
        id="0-0-0", type=kind, time=time, position="p", queue="q", job_set="s", by="anna"
    )


def terms(after_s: int, roles: dict[str, GroupRole]) -> RoleTerms:
    return RoleTerms(BEGIN_MS + 1_000 * after_s, roles)


def count(after_s: int, name: str, running: int) -> dict[str, Any]:
    return {"role": name, "time_ms": BEGIN_MS + 1_000 * after_s, "running": running}


def test_running_members_and_limits_are_steps_until_now() -> None:
    period = group_charts.find_period(group(), BEGIN_MS + 99_500)
    assert period.end_ms == BEGIN_MS + 100_000  # rounded up, so that it changes no more often
    history = GroupHistory([], [terms(0, ROLES), terms(50, WIDER)], [])
    counts = [count(10, "worker", 2), count(60, "worker", 4)]
    _, chart = group_charts.draw_charts(group(), period, counts, history)
    height = group_charts.HEIGHT
    assert chart.ticks == ["4", "0"]
    assert chart.running == (
        f"0.0,{height}.0 100.0,{height}.0 100.0,{height / 2} 600.0,{height / 2} 600.0,0.0"
        " 1000.0,0.0"
    )
    assert chart.maximum == f"0.0,{height / 2} 500.0,{height / 2} 500.0,0.0 1000.0,0.0"
    assert [time[11:19] for time in chart.times] == ["00:00:00", "00:00:50", "00:01:40"]
    assert chart.time_format == "seconds"


def test_scalings_and_restarts_are_marked() -> None:
    ended = group(ended="2026-01-01T00:01:40Z")
    period = group_charts.find_period(ended, BEGIN_MS)
    events = [
        event(80, "groupRecreated"), event(50, "groupRestarting"), event(20, "groupScaled"),
        event(10, "groupRunning"),
    ]  # fmt: skip
    chart, _ = group_charts.draw_charts(ended, period, [], GroupHistory(events, [], []))
    assert [(mark.x, mark.kind) for mark in chart.marks] == [
        (200.0, "scaled"), (500.0, "restart"), (800.0, "restart"),
    ]  # fmt: skip
    assert (chart.marks[0].text, chart.marks[0].time[11:19]) == ("scaled", "00:00:20")


def test_what_the_scheduler_does_to_members_of_a_role_is_marked_on_its_chart() -> None:
    ended = group(ended="2026-01-01T00:01:40Z")
    period = group_charts.find_period(ended, BEGIN_MS)
    scalings = [
        Scaling(BEGIN_MS + 60_000, "worker", "restarted", (1,), reason="exit code 3"),
        Scaling(BEGIN_MS + 40_000, "worker", "started", tuple(range(2, 9)), reason="free capacity"),
    ]
    history = GroupHistory([event(20, "groupRunning"), event(0, "groupSubmitted")], [], scalings)
    ps, worker = group_charts.draw_charts(ended, period, [], history)
    assert ps.marks == []
    assert [(mark.x, mark.kind, mark.text) for mark in worker.marks] == [
        (
            400.0, "scaled",
            "worker-2, worker-3, worker-4, worker-5, worker-6 and 2 more started (free capacity)",
        ),
        (600.0, "restart", "worker-1 restarted (exit code 3)"),
    ]  # fmt: skip
    steps = group_charts.list_steps(history)
    assert (steps[0].type, steps[0].by) == ("worker-1 restarted", "scheduler")
    assert [step.type for step in steps[2:]] == ["groupRunning", "groupSubmitted"]


def test_a_group_from_before_its_events_were_stored_has_the_present_limits() -> None:
    period = group_charts.find_period(group(), BEGIN_MS)
    charts = group_charts.draw_charts(group(), period, [], NOTHING)
    assert [chart.role for chart in charts] == ["ps", "worker"]
    assert charts[0].minimum == f"0.0,{group_charts.HEIGHT / 2} 1000.0,{group_charts.HEIGHT / 2}"


def test_at_most_the_first_roles_are_drawn() -> None:
    many = msgspec.structs.replace(group(), roles=[role(f"r{index}") for index in range(20)])
    period = group_charts.find_period(many, BEGIN_MS)
    assert len(group_charts.draw_charts(many, period, [], NOTHING)) == group_charts.CHARTS_MAX
