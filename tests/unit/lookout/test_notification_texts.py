"""Texts for people: default texts, templates, and what becomes of hostile names in them."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_lookout.domain.public_events import EventType, PublicEvent
from fairlead_lookout.domain.webhooks import notification_texts
from fairlead_lookout.domain.webhooks.message_templates import (
    FIELDS,
    FIELDS_MAX,
    check_template,
    render,
)
from fairlead_lookout.domain.webhooks.webhook_types import Template

LINK = "https://fairlead.example.org/jobs/j1"


def event(kind: EventType, **fields: object) -> PublicEvent:
    known = {"queue": "physics", "job_set": "scan-12", "time": "2026-01-31T12:00:00.000Z"}
    return PublicEvent(id="7-1-0", type=kind, position="p", **{**known, **fields})  # type: ignore[arg-type]


def slack_text(made: PublicEvent, template: Template | None = None, link: str = LINK) -> str:
    body = notification_texts.make_slack_body(notification_texts.make_values(made, link), template)
    return str(msgspec.json.decode(body)["text"])


def email(made: PublicEvent, template: Template | None = None) -> notification_texts.EmailBody:
    body = notification_texts.make_email_body(notification_texts.make_values(made, LINK), template)
    return msgspec.json.decode(body, type=notification_texts.EmailBody)


FAILED = event(
    "failed", job_id="j1", client_id="trial-7", category="oom", exit_code=137, reason="Killed."
)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (FAILED, "Job trial-7 of physics/scan-12 failed: oom, exit code 137. Killed."),
        (
            event("finished", counts={"SUCCEEDED": 1_098, "FAILED": 2}),
            "Job set physics/scan-12 has finished: 1,098 succeeded, 2 failed.",
        ),
        (event("succeeded", job_id="j1"), "Job j1 of physics/scan-12 succeeded."),
        (
            event("runFailed", job_id="j1", run=1, category="node-lost", will_retry=True),
            "Run 1 of job j1 of physics/scan-12 failed: node-lost. It is retried.",
        ),
        (
            event("rejected", job_id="j1", code="infeasible", reason="No node is this large"),
            "Job j1 of physics/scan-12 was rejected: infeasible. No node is this large.",
        ),
        (
            event("cancelled", job_id="j1", by="anna"),
            "Job j1 of physics/scan-12 was cancelled by anna.",
        ),
        (
            event("running", job_id="j1", node="n1"),
            "Job j1 of physics/scan-12 is running on n1.",
        ),
    ],
)
def test_default_sentences(made: PublicEvent, expected: str) -> None:
    assert notification_texts.summarize(made) == expected


@pytest.mark.parametrize("kind", get_args(EventType))
def test_every_type_has_a_text_with_its_job_set_and_link(kind: EventType) -> None:
    counts = {"SUCCEEDED": 1} if kind == "finished" else None
    is_group = kind.startswith("group")
    job = None if kind == "finished" or is_group or kind.startswith("array") else "j1"
    array = "a" if kind.startswith("array") else None
    made = event(kind, job_id=job, group="g" if is_group else None, array=array, counts=counts)
    text = slack_text(made)
    assert "physics/scan-12" in text
    assert f"<{LINK}|Open in Fairlead>" in text
    assert "physics/scan-12" in email(made).subject
    assert "None" not in text.replace("Run None", "")
    assert LINK in email(made).text


def test_the_default_email_has_state_category_and_counts() -> None:
    assert email(FAILED).text.splitlines()[2:9] == [
        "Queue: physics",
        "Job set: scan-12",
        "Job: trial-7",
        "State: FAILED",
        "Category: oom",
        "Exit code: 137",
        "Reason: Killed.",
    ]
    finished = email(event("finished", counts={"FAILED": 2}))
    assert "Jobs: 2 failed" in finished.text
    assert finished.subject == "[Fairlead] Job set physics/scan-12 has finished: 2 failed."


def test_a_template_names_its_fields() -> None:
    template = Template("{state}: {jobSet}", "{job} {{{exitCode}}} {reason}\n<{link}|log>")
    assert slack_text(FAILED, template) == f"trial-7 {{137}} Killed.\n<{LINK}|log>"
    assert email(FAILED, template).subject == "FAILED: scan-12"


def test_names_cannot_link_or_address_anybody_in_slack() -> None:
    hostile = event("failed", job_id="j1", job_set="<!channel> & <http://evil|x>")
    assert "&lt;!channel&gt; &amp; &lt;http://evil|x&gt;" in slack_text(hostile)
    assert slack_text(hostile, link="").count("<") == 0


def test_names_cannot_address_everybody_in_mattermost() -> None:
    hostile = msgspec.structs.replace(FAILED, reason="@channel @All, @here: a@b.org @channels")
    template = Template(text="{reason} @here")
    text = slack_text(hostile, template)
    assert text == "@\u2060channel @\u2060All, @\u2060here: a@b.org @channels @here"


def test_a_slack_text_without_values_is_the_summary() -> None:
    made = msgspec.structs.replace(FAILED, reason=None)
    assert "failed" in slack_text(made, Template(text="{reason}"))


@given(reason=st.text(), job_set=st.text(min_size=1))
def test_a_subject_is_one_line_whatever_is_in_the_event(reason: str, job_set: str) -> None:
    made = event("failed", job_id="j1", reason=reason, job_set=job_set)
    for template in (None, Template("{reason} {jobSet}", None)):
        subject = email(made, template).subject
        assert subject.isprintable()
        assert len(subject) <= notification_texts.SUBJECT_CHARACTERS_MAX


@given(st.dictionaries(st.sampled_from(list(FIELDS)), st.text()))
def test_values_are_never_read_as_templates(values: dict[str, str]) -> None:
    template = "".join(f"{{{name}}}" for name in FIELDS)
    expected = [" ".join(values.get(name, "").split()) for name in FIELDS]
    if all(len(value) <= 300 for value in expected):
        assert render(template, values) == "".join(expected)


@pytest.mark.parametrize(
    ("template", "part"),
    [
        ("{", "single {"),
        ("}", "single {"),
        ("{}", "unknown field {}"),
        ("{0}", "unknown field {0}"),
        ("{job.__class__}", "unknown field"),
        ("{job[0]}", "unknown field"),
        ("{job!r}", "format"),
        ("{job:>1000000000}", "format"),
        ("{job:{job}}", "format"),
        ("{job}" * (FIELDS_MAX + 1), "fields"),
        ("x" * 2_001, "characters"),
        (" \n", "empty"),
        ("a\x00", "not printable"),
    ],
)
def test_an_invalid_template_is_explained(template: str, part: str) -> None:
    assert part in (check_template(template, 2_000, lines=True) or "")


@given(st.text())
def test_a_template_without_errors_can_be_rendered(template: str) -> None:
    if check_template(template, 2_000, lines=True) is None:
        render(template, dict.fromkeys(FIELDS, "x"))
