"""Webhooks, their deliveries, and replays."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead.models.model_bases import RequestModel, ResponseModel


class WebhookFilter(RequestModel, frozen=True, kw_only=True):
    """Which events a webhook receives. `job_set`: a pattern with `*` and `?`; `types`: types of
    public events, all if absent."""

    queue: str | None = None
    job_set: str | None = None
    types: tuple[str, ...] | None = None


class WebhookTemplate(RequestModel, frozen=True, kw_only=True):
    """Texts of messages, with fields such as `{jobSet}`. `subject`: only for e-mail."""

    subject: str | None = None
    text: str | None = None


class AirflowTarget(RequestModel, frozen=True, kw_only=True):
    """What an event starts in Airflow: a run of `dag`, an event of the asset with the URI `asset`,
    or both. `username` and `password`, or `token`; absent secrets are unchanged."""

    dag: str | None = None
    asset: str | None = None
    username: str | None = None
    password: str | None = None
    token: str | None = None


class WebhookChange(RequestModel, frozen=True, kw_only=True):
    """The configuration of a webhook. `kind`: `webhook` (default), `slack`, `email` or `airflow`.

    `url`: for all kinds but email; `headers`: absent means unchanged; `template`: of slack and
    email; `recipients`: e-mail addresses.
    """

    name: str
    url: str | None = None
    kind: str | None = None
    filter: WebhookFilter | None = None
    format: str | None = None
    ordered: bool | None = None
    concurrency: int | None = None
    headers: Mapping[str, str] | None = None
    template: WebhookTemplate | None = None
    recipients: tuple[str, ...] | None = None
    airflow: AirflowTarget | None = None
    enabled: bool | None = None


class SecretRotation(RequestModel, frozen=True, kw_only=True):
    """The request for another secret."""

    overlap_seconds: int | None = None


class WebhookSecret(ResponseModel, frozen=True, kw_only=True):
    """A secret without its value."""

    created: str
    expires: str | None = None


class ReceivedFilter(ResponseModel, frozen=True, kw_only=True):
    """The filter of a webhook."""

    queue: str | None = None
    job_set: str | None = None
    types: tuple[str, ...] = ()


class ReceivedTemplate(ResponseModel, frozen=True, kw_only=True):
    """The texts of a webhook; None: the default."""

    subject: str | None = None
    text: str | None = None


class ReceivedAirflowTarget(ResponseModel, frozen=True, kw_only=True):
    """The target of a webhook in Airflow, without its secrets."""

    dag: str | None = None
    asset: str | None = None
    username: str | None = None


class MissedEvents(ResponseModel, frozen=True, kw_only=True):
    """The time of the events that a webhook missed while it was disabled; without `until` it still
    is. `replay_webhook` with `everything` delivers them."""

    since: str = msgspec.field(name="from")
    until: str | None = msgspec.field(name="to", default=None)


class Webhook(ResponseModel, frozen=True, kw_only=True):
    """A webhook. `url` is empty for e-mail. `credentials`: the names of its secrets for Airflow.
    `missed`: what it missed while it was disabled, until that is replayed.

    `secret` is only in the response that creates or rotates a webhook that signs.
    """

    name: str
    url: str
    kind: str = "webhook"
    version: int = 0
    filter: ReceivedFilter = ReceivedFilter()
    format: str = "fairlead"
    ordered: bool = False
    concurrency: int = 8
    headers: tuple[str, ...] = ()
    template: ReceivedTemplate | None = None
    recipients: tuple[str, ...] = ()
    airflow: ReceivedAirflowTarget | None = None
    credentials: tuple[str, ...] = ()
    secrets: tuple[WebhookSecret, ...] = ()
    enabled: bool = True
    disabled: str | None = None
    failing_since: str | None = None
    last_success: str | None = None
    missed: MissedEvents | None = None
    pending: str = "0"
    changed: str | None = None
    by: str = ""
    secret: str | None = None


class Delivery(ResponseModel, frozen=True, kw_only=True):
    """A delivery of a webhook. `body` is only in the response to a request for one delivery."""

    id: str
    message_id: str
    type: str
    state: str
    time: str | None = None
    created: str | None = None
    attempts: int = 0
    queue: str | None = None
    job_set: str | None = None
    job_id: str | None = None
    next_attempt: str | None = None
    last_attempt: str | None = None
    duration_ms: int | None = None
    status: int | None = None
    error: str | None = None
    body: dict[str, Any] | None = None  # `Any`: JSON


class Replay(ResponseModel, frozen=True, kw_only=True):
    """A replay of the events of a period."""

    number: int
    kind: str
    state: str
    made: int = 0


class ReplayStart(ResponseModel, frozen=True, kw_only=True):
    """What a request for a replay has started: failed deliveries that are sent again, or a replay
    of all events."""

    replayed: int = 0
    replay: Replay | None = None
