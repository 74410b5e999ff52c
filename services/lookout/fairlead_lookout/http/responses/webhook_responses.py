"""The JSON of webhooks, deliveries and replays."""

from collections.abc import Sequence

import msgspec

from fairlead_common.domain import timestamps
from fairlead_lookout.domain.webhooks.webhook_types import (
    AirflowTarget,
    EventFilter,
    Kind,
    Template,
    Webhook,
)
from fairlead_lookout.http.responses.response_base import ResponseBody, format_time
from fairlead_lookout.store.webhooks.delivery_store import (
    PENDING_COUNT_MAX,
    Delivery,
    Replay,
)


class SecretResponse(ResponseBody, frozen=True, kw_only=True):
    """A secret without its value. `expires`: until then deliveries are signed with it too."""

    created: str
    expires: str | None = None


class MissedResponse(ResponseBody, frozen=True, kw_only=True, omit_defaults=False):
    """The time of the events that were not delivered because the webhook was disabled. `to` null:
    it is still disabled. A replay of all events of this time delivers them."""

    from_: str = msgspec.field(name="from")
    to: str | None


class WebhookResponse(ResponseBody, frozen=True, kw_only=True, omit_defaults=False):
    """A webhook. `url` is empty for email. `headers`: the names of additional request headers;
    `credentials`: the names of the secrets that it has for Airflow.

    `disabled`: why it was disabled. `failingSince`: its deliveries have failed since then.
    `missed`: the events that it missed while it was disabled, until they are replayed.
    `pending`: deliveries that wait, `10000+` beyond that. `secret` is returned only when it was
    just created.
    """

    name: str
    kind: Kind
    version: int
    url: str
    filter: EventFilter
    format: str
    ordered: bool
    concurrency: int
    headers: list[str]
    template: Template | None
    recipients: tuple[str, ...]
    airflow: AirflowTarget | None
    credentials: list[str]
    secrets: list[SecretResponse]
    enabled: bool
    disabled: str | None
    failing_since: str | None
    last_success: str | None
    missed: MissedResponse | None
    pending: str
    changed: str
    by: str
    secret: str | msgspec.UnsetType = msgspec.UNSET


class WebhooksResponse(ResponseBody, frozen=True, kw_only=True):
    """Webhooks by name; `next` is the cursor of the next page."""

    webhooks: list[WebhookResponse]
    next: str | None = None


class DeliveryResponse(ResponseBody, frozen=True, kw_only=True):
    """A delivery. `id` identifies it here, `messageId` is its header `webhook-id`.

    `state`: `PENDING`, `DELIVERED`, or `FAILED` when there are no further attempts. `status`,
    `error` and `durationMs` are of the last attempt. `body` is only in the answer to a request for
    one delivery.
    """

    id: str
    message_id: str
    type: str
    state: str
    time: str
    created: str
    attempts: int
    queue: str | None = None
    job_set: str | None = None
    job_id: str | None = None
    next_attempt: str | None = None
    last_attempt: str | None = None
    duration_ms: int | None = None
    status: int | None = None
    error: str | None = None
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class DeliveriesResponse(ResponseBody, frozen=True, kw_only=True):
    """Deliveries, the newest first; `next` is the cursor of the next page."""

    deliveries: list[DeliveryResponse]
    next: str | None = None


class ReplayResponse(ResponseBody, frozen=True, kw_only=True):
    """Deliveries that are made from earlier events. `kind`: `REPLAY`, or `BACKLOG` for a webhook
    that had too many pending deliveries; `made`: how many there are so far."""

    number: int
    kind: str
    state: str
    made: int
    created: str
    changed: str
    by: str
    from_: str | None = msgspec.field(default=None, name="from")
    to: str | None = None


class ReplaysResponse(ResponseBody, frozen=True, kw_only=True):
    """The last replays of a webhook, the newest first."""

    replays: list[ReplayResponse]


class ReplayedResponse(ResponseBody, frozen=True, kw_only=True, omit_defaults=False):
    """What a request for a replay has started. `replayed`: failed deliveries that are sent again,
    and those that waited for another attempt;
    `replay`: the replay of all events."""

    replayed: int
    replay: ReplayResponse | None


def describe_webhook(webhook: Webhook, pending: int, now_ms: int) -> WebhookResponse:
    """A webhook as the API returns it."""
    return WebhookResponse(
        name=webhook.name,
        kind=webhook.kind,
        version=webhook.version,
        url=webhook.url,
        filter=webhook.filter,
        format=webhook.format,
        ordered=webhook.ordered,
        concurrency=webhook.concurrency,
        headers=sorted(webhook.headers),
        template=webhook.options.template,
        recipients=webhook.options.recipients,
        airflow=webhook.options.airflow,
        credentials=sorted(webhook.credentials),
        secrets=[
            SecretResponse(
                created=timestamps.rfc3339(secret.created_ms),
                expires=format_time(secret.expires_ms),
            )
            for secret in webhook.list_valid_secrets(now_ms)
        ],
        enabled=webhook.enabled,
        disabled=webhook.disabled,
        failing_since=format_time(webhook.failing_ms),
        last_success=format_time(webhook.succeeded_ms),
        missed=_describe_missed(webhook),
        pending=str(pending) if pending < PENDING_COUNT_MAX else f"{PENDING_COUNT_MAX}+",
        changed=timestamps.rfc3339(webhook.changed_ms),
        by=webhook.by,
    )


def _describe_missed(webhook: Webhook) -> MissedResponse | None:
    if webhook.missed_from_ms is None:
        return None
    return MissedResponse(
        from_=timestamps.rfc3339(webhook.missed_from_ms), to=format_time(webhook.missed_to_ms)
    )


def describe_delivery(delivery: Delivery, *, with_body: bool = False) -> DeliveryResponse:
    """A delivery as the API returns it."""
    is_pending = delivery.state == "PENDING"
    return DeliveryResponse(
        id=str(delivery.id),
        message_id=delivery.message_id,
        type=delivery.type,
        state=delivery.state,
        time=timestamps.rfc3339(delivery.event_ms),
        created=timestamps.rfc3339(delivery.created_ms),
        attempts=delivery.attempts,
        queue=delivery.queue,
        job_set=delivery.job_set,
        job_id=delivery.job_id,
        next_attempt=format_time(delivery.due_ms or None) if is_pending else None,
        last_attempt=format_time(delivery.attempted_ms),
        duration_ms=delivery.duration_ms,
        status=delivery.status,
        error=delivery.error,
        body=msgspec.Raw(delivery.body.encode()) if with_body else msgspec.UNSET,
    )


def describe_replays(replays: Sequence[Replay]) -> list[ReplayResponse]:
    """Replays as the API returns them."""
    return [
        ReplayResponse(
            number=replay.number,
            kind=replay.kind,
            state=replay.state,
            made=replay.made,
            created=timestamps.rfc3339(replay.created_ms),
            changed=timestamps.rfc3339(replay.changed_ms),
            by=replay.by,
            from_=format_time(replay.from_ms),
            to=format_time(replay.to_ms),
        )
        for replay in replays
    ]
