"""What the page of a job says: its events, and what would have to change for it to start."""

import re
from typing import Any

import msgspec

from fairlead_common.domain.lifecycle import RunState
from fairlead_lookout.http.pages.jobs.job_events import EVENTS_MAX, list_events
from fairlead_lookout.http.pages.jobs.waiting_advice import ADVICE
from fairlead_lookout.http.responses.job_responses import (
    JobDetailResponse,
    RunResponse,
    UserRequestResponse,
)
from tests.conftest import ROOT

JOB = JobDetailResponse(
    id="0a", queue="q", job_set="s", state="QUEUED", priority=0, priority_class="default",
    pool="default", submitted="2026-11-26T00:00:00.000Z", changed="2026-11-26T00:00:00.000Z",
    runs=[], namespace="default", labels={}, annotations={}, after=(), on_preemption="requeue",
)  # fmt: skip


def run(number: int, state: str, **fields: Any) -> RunResponse:
    time = f"2026-11-26T00:{number:02}"
    return RunResponse(
        run=number, state=state, cluster="e", node="n", pool="p", leased=f"{time}:00.000Z", **fields
    )


def test_events_are_those_of_the_job_and_its_runs_with_the_newest_first() -> None:
    failed = run(
        1, "FAILED", pending="2026-11-26T00:01:01.000Z", running="2026-11-26T00:01:02.000Z",
        ended="2026-11-26T00:01:03.000Z", reason="exit code 3",
    )  # fmt: skip
    job = msgspec.structs.replace(
        JOB, state="CANCELLED", ended="2026-11-26T01:00:00.000Z", reason="enough",
        runs=[run(2, "STOPPED", ended="2026-11-26T00:03:00.000Z"), failed],
    )  # fmt: skip
    assert [(event.run, event.text) for event in list_events(job)] == [
        (0, "Cancelled: enough"),
        (2, "Stopped"),
        (2, "Leased on node n of cluster e"),
        (1, "Failed: exit code 3"),
        (1, "Running"),
        (1, "Pending: its executor creates it"),
        (1, "Leased on node n of cluster e"),
        (0, "Submitted"),
    ]
    times = [event.time for event in list_events(job)]
    assert times == sorted(times, reverse=True)


def test_events_name_the_users_who_submitted_the_job_and_requested_something() -> None:
    def request(minute: int, action: Any, **fields: Any) -> UserRequestResponse:
        time = f"2026-11-26T00:{minute:02}:30.000Z"
        return UserRequestResponse(time=time, action=action, by="ben", **fields)

    job = msgspec.structs.replace(
        JOB, submitted_by="anna", runs=[run(1, "RUNNING"), run(3, "RUNNING")],
        user_requests=[
            request(0, "reprioritize", priority=4), request(1, "preempt", reason="room"),
            request(3, "cancel"),
        ],
    )  # fmt: skip
    assert [event.text for event in list_events(job)] == [
        "Cancellation requested by ben",
        "Leased on node n of cluster e",
        "Preemption requested by ben: room",
        "Leased on node n of cluster e",
        "Priority 4 requested by ben",
        "Submitted by anna",
    ]


def test_a_job_that_ends_with_its_run_has_one_event_for_it() -> None:
    ended = "2026-11-26T00:01:03.000Z"
    job = msgspec.structs.replace(
        JOB, state="SUCCEEDED", ended=ended, runs=[run(1, "SUCCEEDED", ended=ended)]
    )
    assert [event.text for event in list_events(job)].count("Succeeded") == 1


def test_only_the_newest_events_are_listed() -> None:
    runs = [run(number, "FAILED") for number in range(1, 60)] * 3
    found = list_events(msgspec.structs.replace(JOB, runs=runs))
    assert len(found) == EVENTS_MAX
    assert found[0].run == 59


def test_every_documented_reason_has_an_advice() -> None:
    text = (ROOT / "docs" / "scheduling.md").read_text()
    section = text.partition("## Why is it waiting?")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    codes = {code for row in rows for code in re.findall(r"`([^`]+)`", row)}
    assert codes == ADVICE.keys()
    assert all(text.endswith(".") for text in ADVICE.values())


def test_each_state_of_a_run_has_a_colour_in_the_timeline_and_its_legend() -> None:
    folder = ROOT / "services/lookout/fairlead_lookout/http/pages/static"
    css = (folder / "fairlead.css").read_text(encoding="utf-8")
    for state in RunState:
        name = state.lower()
        assert re.search(rf"\.timeline \.{name}[ ,][^{{}}]*{{ fill: ", css), name
        assert re.search(rf"\.dot\.{name}[ ,][^{{}}]*{{ background: ", css), name
