"""Messages for people about public events: to Slack-compatible servers, and as e-mail."""

import re
from collections.abc import Mapping
from typing import Final, assert_never

import msgspec

from fairlead_lookout.domain.public_events import EventType, PublicEvent
from fairlead_lookout.domain.webhooks.message_templates import VALUE_CHARACTERS_MAX, render
from fairlead_lookout.domain.webhooks.webhook_types import Kind, Template

SUBJECT_DEFAULT: Final = "[Fairlead] {summary}"
SUBJECT_CHARACTERS_MAX: Final = 250
MESSAGE_KINDS: Final[frozenset[Kind]] = frozenset({"slack", "email"})
"""Kinds whose deliveries are texts for people."""
NOTIFIED_TYPES: Final[Mapping[Kind, tuple[EventType, ...]]] = {
    "webhook": (),
    "slack": ("failed", "rejected", "finished"),
    "email": ("failed", "rejected", "finished"),
    "airflow": ("finished",),
}
"""The types of events that are sent if a webhook names none; empty: all."""
_STATES: Final[Mapping[EventType, str]] = {
    "submitted": "QUEUED",
    "rejected": "REJECTED",
    "queued": "QUEUED",
    "leased": "LEASED",
    "pending": "PENDING",
    "running": "RUNNING",
    "succeeded": "SUCCEEDED",
    "failed": "FAILED",
    "requeued": "QUEUED",
    "preempted": "PREEMPTED",
    "cancelled": "CANCELLED",
    "finished": "FINISHED",
    "groupRunning": "RUNNING",
    "groupSucceeded": "SUCCEEDED",
    "groupFailed": "FAILED",
    "groupCancelled": "CANCELLED",
}
_GROUP_VERBS: Final[Mapping[EventType, str]] = {
    "groupSubmitted": "was submitted",
    "groupRunning": "is running",
    "groupScaled": "was scaled",
    "groupUpdated": "was changed",
    "groupRecreated": "was re-created with new templates",
    "groupRestartRequested": "will be restarted",
    "groupRestarting": "is restarting",
    "groupCancelling": "is being cancelled",
    "groupSucceeded": "succeeded",
    "groupFailed": "failed",
    "groupCancelled": "was cancelled",
}
_ARRAY_VERBS: Final[Mapping[EventType, str]] = {
    "arraySubmitted": "was submitted",
    "arrayCancelling": "is being cancelled",
    "arrayTasksCancelled": "lost tasks that had not started",
    "arrayEnded": "has ended",
}
_EVERYBODY: Final = re.compile(r"@(?=(all|channel|everyone|here)\b)", re.IGNORECASE)
_encode: Final = msgspec.json.Encoder().encode


class SlackBody(msgspec.Struct, frozen=True):
    """What incoming webhooks of Slack, Mattermost and others take."""

    text: str


class EmailBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """An e-mail as it is stored with its delivery. `link`: where its text leads."""

    subject: str
    text: str
    link: str = ""


def make_message(kind: Kind, values: Mapping[str, str], template: Template | None) -> bytes:
    """The body of a delivery of one of `MESSAGE_KINDS`."""
    return (make_slack_body if kind == "slack" else make_email_body)(values, template)


def make_slack_body(values: Mapping[str, str], template: Template | None) -> bytes:
    """The body of a message to Slack: the text, and a link to the dashboard."""
    text = None if template is None else template.text
    if text is None:
        text = "{summary}\n<{link}|Open in Fairlead>" if values.get("link") else "{summary}"
    made = render(text, values, escape_slack)
    if not made.strip():  # fields without values; Slack refuses an empty text
        made = render("{summary}", values, escape_slack)
    return _encode(SlackBody(made))


def make_email_body(values: Mapping[str, str], template: Template | None) -> bytes:
    """The subject and text of an e-mail; the default text ends with a link to the dashboard."""
    given = template or Template()
    link = values.get("link", "")
    text = given.text
    if text is None:
        text = _make_email_default(values)
    subject = render(given.subject or SUBJECT_DEFAULT, values)
    if len(subject) > SUBJECT_CHARACTERS_MAX:
        subject = subject[: SUBJECT_CHARACTERS_MAX - 1] + "…"
    subject = "".join(letter if letter.isprintable() else " " for letter in subject)
    return _encode(EmailBody(subject, render(text, values), link))


def escape_slack(text: str) -> str:
    """A text in which nothing is a link or a mention: `&`, `<` and `>` are escaped, and `@channel`,
    by which Mattermost addresses everybody, is interrupted by a character without a width."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _EVERYBODY.sub("@\N{WORD JOINER}", escaped)


def make_values(event: PublicEvent, link: str | None) -> dict[str, str]:
    """The values of the fields of a template (`message_templates.FIELDS`)."""
    return {
        "summary": summarize(event),
        "type": event.type,
        "time": event.time,
        "queue": event.queue,
        "jobSet": event.job_set,
        "job": event.client_id or event.job_id or "",
        "jobId": event.job_id or "",
        "group": event.group or "",
        "run": "" if event.run is None else str(event.run),
        "state": _find_state(event),
        "category": event.category or event.code or "",
        "exitCode": "" if event.exit_code is None else str(event.exit_code),
        "reason": event.reason or "",
        "cluster": event.cluster or "",
        "node": event.node or "",
        "by": event.by or "",
        "counts": describe_counts(event.counts),
        "link": link or "",
    }


def make_test_values(webhook: str, by: str, time: str, link: str) -> dict[str, str]:
    """The values of a test message."""
    summary = f"This is a test of the webhook {webhook}, sent by {by}."
    return {"summary": summary, "type": "test", "time": time, "by": by, "link": link}


def summarize(event: PublicEvent) -> str:
    """One sentence on an event."""
    job_set = f"{event.queue}/{event.job_set}"
    job = f"Job {event.client_id or event.job_id} of {job_set}"
    by = f" by {event.by}" if event.by else ""
    node = f" on {event.node}" if event.node else ""
    why = _describe_failure(event)
    match event.type:
        case "finished":
            return f"Job set {job_set} has finished: {describe_counts(event.counts)}."
        case "failed":
            return f"{job} failed{why}"
        case "runFailed":
            again = " It is retried." if event.will_retry else ""
            return f"Run {event.run} of job {event.job_id} of {job_set} failed{why}{again}"
        case "rejected":
            return f"{job} was rejected{why}"
        case "preempting":
            return f"{job} is being preempted{node}{why}"
        case "preempted":
            return f"{job} was preempted{node}{why}"
        case "cancelling":
            return f"{job} is being cancelled{by}{why}"
        case "cancelled":
            return f"{job} was cancelled{by}{why}"
        case "submitted" | "leased" | "requeued" | "reprioritized":
            return f"{job} was {event.type}{by}{node}{why}"
        case "queued" | "pending" | "running":
            return f"{job} is {event.type}{node}{why}"
        case "succeeded":
            return f"{job} succeeded."
        case (
            "groupSubmitted"
            | "groupRunning"
            | "groupScaled"
            | "groupUpdated"
            | "groupRecreated"
            | "groupRestartRequested"
            | "groupRestarting"
            | "groupCancelling"
            | "groupSucceeded"
            | "groupFailed"
            | "groupCancelled"
        ):
            return f"Group {event.group} of {job_set} {_GROUP_VERBS[event.type]}{by}{why}"
        case "arraySubmitted" | "arrayCancelling" | "arrayTasksCancelled" | "arrayEnded":
            tasks = "" if event.tasks is None else f" ({event.tasks:,} tasks)"
            return f"Array {event.array} of {job_set} {_ARRAY_VERBS[event.type]}{tasks}{by}{why}"
        case _:
            assert_never(event.type)


def describe_counts(counts: Mapping[str, int] | None) -> str:
    """`98 succeeded, 2 failed`."""
    return ", ".join(f"{number:,} {state.lower()}" for state, number in (counts or {}).items())


def _describe_failure(event: PublicEvent) -> str:
    """`: oom, exit code 137. Out of memory.`, or a full stop."""
    facts = [event.category or event.code or event.cause or ""]
    if event.exit_code is not None:
        facts.append(f"exit code {event.exit_code}")
    known = ", ".join(fact for fact in facts if fact)
    reason = (event.reason or "").strip()
    if len(reason) > VALUE_CHARACTERS_MAX // 2:
        reason = reason[: VALUE_CHARACTERS_MAX // 2 - 1] + "…"
    said = ". ".join(part for part in (known, reason) if part)
    return f": {said.rstrip('.')}." if said else "."


def _find_state(event: PublicEvent) -> str:
    if event.type == "preempted" and not event.final:
        return "QUEUED"
    if event.type == "runFailed":
        return "QUEUED" if event.will_retry else "FAILED"
    return _STATES.get(event.type, "")


def _make_email_default(values: Mapping[str, str]) -> str:
    """A line for each field that has a value."""
    lines = ["{summary}", ""]
    for label, field in (
        ("Queue", "queue"),
        ("Job set", "jobSet"),
        ("Job", "job"),
        ("Group", "group"),
        ("State", "state"),
        ("Jobs", "counts"),
        ("Category", "category"),
        ("Exit code", "exitCode"),
        ("Reason", "reason"),
        ("Node", "node"),
        ("Time", "time"),
    ):
        if values.get(field):
            lines.append(f"{label}: {{{field}}}")
    if values.get("link"):
        lines += ["", "Open in Fairlead: {link}"]
    return "\n".join(lines) + "\n"
