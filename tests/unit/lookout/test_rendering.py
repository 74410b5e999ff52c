"""What pages render."""

import random
from collections.abc import Mapping
from typing import Final

import msgspec
import pytest

from fairlead_lookout.http.pages import rendering
from fairlead_lookout.http.responses.job_responses import JobResponse


def test_the_bar_of_states_fills_its_width() -> None:
    chance = random.Random(1)
    for _ in range(20):
        states = {state: chance.randrange(5) for state in ("QUEUED", "RUNNING", "FAILED")}
        total = sum(states.values())
        segments = rendering.divide_bar(states, total)
        assert sum(segment.width for segment in segments) == pytest.approx(
            100 if total else 0, abs=0.01
        )
        assert rendering.summarize_states(states).count(",") == max(0, len(segments) - 1)


@pytest.mark.parametrize(
    ("ended", "total", "text"),
    [
        (0, 0, "0 %"),
        (0, 3, "0 %"),
        (1, 3, "33 %"),
        (3, 3, "100 %"),
        (1, 1_000, "< 1 %"),
        (999_999, 1_000_000, "> 99 %"),
    ],
)
def test_progress_is_complete_only_at_the_end(ended: int, total: int, text: str) -> None:
    assert rendering.format_progress(ended, total) == text


def test_a_little_usage_is_not_none() -> None:
    hours = rendering.format_resource_hours
    assert hours("cpu", 0) == "0.00 h"
    assert hours("cpu", 0.001) == "< 0.01 h"
    assert hours("memory", 2**20) == "< 0.01 GiB h"
    assert hours("memory", 3 * 2**30) == "3.00 GiB h"


def test_a_share_of_almost_nothing_has_no_sign() -> None:
    assert rendering.format_percent(-0.0001) == "0.0 %"
    assert rendering.format_percent(-0.0625) == "-6.2 %"


LIST_OF_JOBS: Final[Mapping[str, object]] = {
    "groups": [],
    "by": [],
    "count": "1",
    "filtered": False,
    "first": None,
    "waiting_tasks": 0,
    "next": None,
}


def test_a_page_without_jobs_says_whether_older_ones_can_match() -> None:
    def render(**values: object) -> str:
        page = {**LIST_OF_JOBS, "count": "0", "filtered": True, **values}
        return rendering.load_templates().render("_jobs.html", jobs=[], **page)

    assert "No job matches." in render()
    older = render(next="/jobs?cursor=c")
    assert "None of the newest jobs matches." in older
    assert '<a href="/jobs?cursor=c">Search older jobs</a>' in older


def test_a_row_that_was_rendered_before_shows_the_job_as_it_is_now() -> None:
    def render(templates: rendering.Templates, job: JobResponse) -> str:
        return templates.render("_jobs.html", jobs=[job], **LIST_OF_JOBS)

    time = "2026-11-26T00:00:00.000Z"
    job = JobResponse(
        id="0a", queue="q", job_set="s", client_id="<b>", state="QUEUED", priority=0,
        priority_class="default", pool="default", submitted=time, changed=time,
    )  # fmt: skip
    changes: list[dict[str, object]] = [{}, {"state": "RUNNING", "node": "n1"}, {}]
    templates = rendering.Templates(rendering.load_assets())
    for change in changes:
        now = msgspec.structs.replace(job, **change)
        text = render(templates, now)
        assert text == render(rendering.Templates(rendering.load_assets()), now)
        assert ("Running" in text, "n1" in text) == (bool(change), bool(change))
        assert "&lt;b&gt;" in text
        assert "<b>" not in text


def test_no_text_of_a_user_changes_the_direction_of_a_page_or_is_invisible() -> None:
    text = "\x1b[31mred\x07 \u202eevil\u2066 \x9b31m\x00\u200f\ttab\r\n"
    values = dict.fromkeys(("command", "home", "asks", "signed_in"), False)
    page = rendering.load_templates().render(
        "message.html", title="t", text=text, section="", who="", plain_path=None, **values
    )
    assert "\ufffd[31mred\ufffd \ufffdevil\ufffd \ufffd31m\ufffd\u200f\ttab\r\n" in page
    assert not set(page) & set("\x1b\x07\u202e\u2066\x9b\x00")
