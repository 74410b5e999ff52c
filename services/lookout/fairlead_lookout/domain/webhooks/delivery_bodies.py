"""The bodies of deliveries: thin, with ids and states, as `fairlead` or `cloudevents`, and messages
for people.

A receiver that needs more reads it from the API by the ids or the link.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from fairlead_lookout.domain.public_events import PublicEvent
from fairlead_lookout.domain.webhooks import notification_texts
from fairlead_lookout.domain.webhooks.notification_texts import MESSAGE_KINDS
from fairlead_lookout.domain.webhooks.webhook_types import Format, Webhook

TEST: Final = "test"
"""The type of a test delivery."""
CONTENT_TYPES: Final[Mapping[Format, str]] = {
    "fairlead": "application/json",
    "cloudevents": "application/cloudevents+json",
}
_FINAL_STATES: Final = {
    "succeeded": "SUCCEEDED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "rejected": "REJECTED",
}
_encode: Final = msgspec.json.Encoder().encode


class _Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class EventData(_Body, frozen=True, kw_only=True):
    """What a delivery contains about an event.

    `sequence`: a text that grows within a job set. `state`: of a job that has ended. `counts`: the
    jobs of the job set by state.
    """

    id: str
    sequence: str
    queue: str
    job_set: str
    job_id: str | None = None
    client_id: str | None = None
    group: str | None = None
    run: int | None = None
    state: str | None = None
    category: str | None = None
    exit_code: int | None = None
    will_retry: bool | None = None
    by: str | None = None
    counts: dict[str, int] | None = None
    link: str | None = None


class TestData(_Body, frozen=True, kw_only=True):
    """What a test delivery contains."""

    webhook: str
    by: str


class FairleadBody(_Body, frozen=True, kw_only=True):
    """The format `fairlead`, as Standard Webhooks recommends it."""

    type: str
    timestamp: str
    data: EventData | TestData


class CloudEventBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The format `cloudevents`: CloudEvents 1.0, structured, with the extension `sequence`."""

    specversion: str
    id: str
    source: str
    type: str
    time: str
    datacontenttype: str
    data: EventData | TestData
    subject: str | None = None
    sequence: str | None = None


def make_message_id(log: str, event_id: str) -> str:
    """The `webhook-id` of an event: the same for every attempt and replay. `log`: a short name of
    the log, because another log repeats the ids of events."""
    return f"evt_{log}_{event_id}"


def find_body_key(webhook: Webhook) -> str | int:
    """Webhooks with the same key have the same body for an event."""
    return webhook.number if webhook.kind in MESSAGE_KINDS else webhook.format


def make_body(event: PublicEvent, message_id: str, webhook: Webhook, base_url: str) -> bytes:
    """The body of a delivery of this event by a webhook. `base_url`: of the dashboard, "" if it is
    not known."""
    if webhook.kind not in MESSAGE_KINDS:
        return make_event_body(event, message_id, webhook.format, base_url)
    values = notification_texts.make_values(event, _make_link(event, base_url))
    return notification_texts.make_message(webhook.kind, values, webhook.options.template)


def make_test(webhook: Webhook, by: str, message_id: str, time: str, base_url: str) -> bytes:
    """The body of a test delivery of a webhook."""
    if webhook.kind not in MESSAGE_KINDS:
        return make_test_body(webhook.name, by, message_id, webhook.format, time)
    link = f"{base_url}/webhooks/{webhook.name}" if base_url else ""
    values = notification_texts.make_test_values(webhook.name, by, time, link)
    return notification_texts.make_message(webhook.kind, values, webhook.options.template)


def make_event_body(
    event: PublicEvent, message_id: str, body_format: Format, base_url: str
) -> bytes:
    """The body of a delivery of this event. `base_url`: of the dashboard, "" if it is not known."""
    data = EventData(
        id=event.id,
        sequence=_make_sequence(event.id),
        queue=event.queue,
        job_set=event.job_set,
        job_id=event.job_id,
        client_id=event.client_id,
        group=event.group,
        run=event.run,
        state=_find_final_state(event),
        category=event.category,
        exit_code=event.exit_code,
        will_retry=event.will_retry,
        by=event.by,
        counts=event.counts,
        link=_make_link(event, base_url),
    )
    if body_format == "fairlead":
        return _encode(FairleadBody(type=event.type, timestamp=event.time, data=data))
    kind = "jobset" if event.job_id is None else "job"
    return _encode(
        CloudEventBody(
            specversion="1.0",
            id=message_id,
            source=f"{base_url}/queues/{quote(event.queue, safe='')}",
            type=f"fairlead.{kind}.{event.type}",
            time=event.time,
            datacontenttype="application/json",
            subject=event.job_id or event.job_set,
            sequence=data.sequence,
            data=data,
        )
    )


def make_test_body(webhook: str, by: str, message_id: str, body_format: Format, time: str) -> bytes:
    """The body of a test delivery."""
    data = TestData(webhook=webhook, by=by)
    if body_format == "fairlead":
        return _encode(FairleadBody(type=TEST, timestamp=time, data=data))
    return _encode(
        CloudEventBody(
            specversion="1.0",
            id=message_id,
            source=f"/webhooks/{webhook}",
            type=f"fairlead.{TEST}",
            time=time,
            datacontenttype="application/json",
            data=data,
        )
    )


def _make_sequence(event_id: str) -> str:
    """Texts that compare as the events of one job set do."""
    _, position, item = event_id.split("-")
    return f"{int(position):016d}-{int(item):08d}"


def _find_final_state(event: PublicEvent) -> str | None:
    if event.type == "preempted" and event.final:
        return "PREEMPTED"
    return _FINAL_STATES.get(event.type)


def _make_link(event: PublicEvent, base_url: str) -> str | None:
    if not base_url:
        return None
    if event.job_id is not None:
        return f"{base_url}/jobs/{event.job_id}"
    return f"{base_url}/jobsets/{quote(event.queue, safe='')}/{quote(event.job_set)}"
