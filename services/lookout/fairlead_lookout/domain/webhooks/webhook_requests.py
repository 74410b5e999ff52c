"""The bodies of requests about webhooks, and their validation.

Every field is optional, and null means absent, so that one response can name every error.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests.validation import escape_pointer, without_implied
from fairlead_lookout.domain.public_events import EventType
from fairlead_lookout.domain.webhooks import kind_requests
from fairlead_lookout.domain.webhooks.kind_requests import (
    AirflowRequest,
    KindFields,
    TemplateRequest,
)
from fairlead_lookout.domain.webhooks.notification_texts import NOTIFIED_TYPES
from fairlead_lookout.domain.webhooks.target_addresses import Network, check_url, find_origin
from fairlead_lookout.domain.webhooks.webhook_types import (
    EVENT_TYPES,
    EventFilter,
    Format,
    Kind,
    KindOptions,
    Webhook,
)

CONCURRENCY_MAX: Final = 64
HEADERS_MAX: Final = 16
HEADER_LENGTH_MAX: Final = 1_024
PATTERN_LENGTH_MAX: Final = 256
STARS_MAX: Final = 8
OVERLAP_S: Final = 86_400
OVERLAP_S_MAX: Final = 30 * 86_400
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_RESERVED_HEADERS: Final = frozenset(
    {
        *("host", "content-length", "content-type", "content-encoding", "transfer-encoding"),
        *("connection", "keep-alive", "upgrade", "te", "trailer", "expect", "user-agent"),
        *("accept-encoding", "proxy-authorization", "proxy-connection"),
    }
)


class _Request(
    msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """The base of all request types: unknown fields are errors."""


class FilterRequest(_Request, kw_only=True):
    """Which events are delivered."""

    queue: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    job_set: Annotated[str, Meta(min_length=1, max_length=PATTERN_LENGTH_MAX)] | None = None
    types: Annotated[list[EventType], Meta(max_length=len(EVENT_TYPES))] | None = None


class WebhookRequest(_Request, kw_only=True):
    """A webhook to create, or what replaces one. `kind`: of a new webhook, default `webhook`.

    `url`: not for email; `headers`: absent means unchanged, which is not permitted if the `url`
    names another server; `template`: of slack and email. Without `types`, slack and email are sent
    `failed`, `rejected` and `finished`, airflow `finished`, and a webhook all events."""

    name: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    kind: Kind | None = None
    url: Annotated[str, Meta(min_length=1)] | None = None
    filter: FilterRequest | None = None
    format: Format | None = None
    ordered: bool | None = None
    concurrency: Annotated[int, Meta(ge=1, le=CONCURRENCY_MAX)] | None = None
    headers: Annotated[dict[str, str], Meta(max_length=HEADERS_MAX)] | None = None
    template: TemplateRequest | None = None
    recipients: list[str] | None = None
    airflow: AirflowRequest | None = None
    enabled: bool | None = None


class RotationRequest(_Request, kw_only=True):
    """How long the previous secret stays valid beside the new one."""

    overlap_seconds: Annotated[int, Meta(ge=0, le=OVERLAP_S_MAX)] | None = None


class WebhookConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request. `headers`, `credentials` None: unchanged."""

    name: str
    kind: Kind
    url: str
    filter: EventFilter
    format: Format
    ordered: bool
    concurrency: int
    headers: Mapping[str, str] | None
    options: KindOptions
    credentials: Mapping[str, str] | None
    enabled: bool


class Permitted(NamedTuple):
    """To what the operator permits deliveries: `networks` beside public addresses, and e-mail to
    `domains` (all if empty), if `has_smtp`."""

    networks: Sequence[Network] = ()
    has_smtp: bool = False
    domains: Sequence[str] = ()


def check_webhook(
    given: WebhookRequest,
    known: Sequence[FieldError],
    permitted: Permitted,
    current: Webhook | None = None,
) -> WebhookConfiguration | list[FieldError]:
    """The webhook that is requested, or every error. `known`: what decoding has found; `current`:
    the webhook that is replaced."""
    kind = given.kind or ("webhook" if current is None else current.kind)
    fields = _select_kind_fields(given)
    found = [
        *_find_name_errors(given.name),
        *_find_kind_errors(kind, permitted, current),
        *kind_requests.find_errors(fields, kind, current, permitted.domains),
    ]
    if given.url is not None and (refusal := check_url(given.url, permitted.networks)) is not None:
        found.append(FieldError("/url", refusal))
    elif current is not None and _would_send_headers_elsewhere(given, current):
        detail = "must be given again, or {} for none, because the URL names another server"
        found.append(FieldError("/headers", detail))
    requested = given.filter or FilterRequest()
    if requested.job_set is not None and requested.job_set.count("*") > STARS_MAX:
        found.append(FieldError("/filter/jobSet", f"has more than {STARS_MAX} '*'"))
    found += _find_header_errors(given.headers or {}, kind)
    found = [*known, *without_implied(found, known)]
    if found:
        return found
    types = tuple(dict.fromkeys(requested.types or NOTIFIED_TYPES[kind]))
    return WebhookConfiguration(
        name=given.name or "",
        kind=kind,
        url=given.url or "",
        filter=EventFilter(requested.queue, requested.job_set, types),
        format=given.format or "fairlead",
        ordered=bool(given.ordered),
        concurrency=given.concurrency or kind_requests.CONCURRENCY_DEFAULTS[kind],
        headers=given.headers,
        options=kind_requests.make_options(fields),
        credentials=kind_requests.make_credentials(fields),
        enabled=given.enabled is not False,
    )


def preview_webhook(
    given: WebhookConfiguration, current: Webhook | None, now_ms: int, by: str
) -> Webhook:
    """The webhook that a request would make, without encrypted values."""
    return Webhook(
        number=0 if current is None else current.number,
        name=given.name,
        version=0 if current is None else current.version,
        url=given.url,
        filter=given.filter,
        format=given.format,
        ordered=given.ordered,
        concurrency=given.concurrency,
        headers=_preview_sealed(given.headers, {} if current is None else current.headers),
        secrets=() if current is None else current.secrets,
        kind=given.kind,
        options=given.options,
        credentials=_preview_sealed(
            given.credentials, {} if current is None else current.credentials
        ),
        enabled=given.enabled,
        disabled=None,
        failing_ms=None,
        succeeded_ms=None,
        changed_ms=now_ms,
        by=by,
    )


def _preview_sealed(given: Mapping[str, str] | None, known: dict[str, str]) -> dict[str, str]:
    return known if given is None else dict.fromkeys(given, "")


def _select_kind_fields(given: WebhookRequest) -> KindFields:
    named = {
        "url": given.url,
        "format": given.format,
        "headers": given.headers or None,
        "template": given.template,
        "recipients": given.recipients,
        "airflow": given.airflow,
    }
    return KindFields(
        given=[name for name, value in named.items() if value is not None],
        url=given.url,
        concurrency=given.concurrency,
        template=given.template,
        recipients=given.recipients,
        airflow=given.airflow,
    )


def _find_name_errors(name: str | None) -> list[FieldError]:
    if name is None:
        return [FieldError("/name", "is missing")]
    if NAME.fullmatch(name) is None:
        detail = "is not a valid name: use 1 to 63 of a-z, 0-9 and '-', with no '-' at either end"
        return [FieldError("/name", detail)]
    return []


def _find_kind_errors(
    kind: Kind, permitted: Permitted, current: Webhook | None
) -> list[FieldError]:
    if current is not None and kind != current.kind:
        detail = f"is {current.kind} and cannot be changed; create another webhook"
        return [FieldError("/kind", detail)]
    if kind == "email" and not permitted.has_smtp:
        detail = "is not available: the operator has set no SMTP server (`smtpHost`)"
        return [FieldError("/kind", detail)]
    return []


def _would_send_headers_elsewhere(given: WebhookRequest, current: Webhook) -> bool:
    """Whether headers that were given for one server, and can contain credentials, would be sent to
    another one."""
    if given.headers is not None or given.url is None or not current.headers:
        return False
    return find_origin(given.url) != find_origin(current.url)


def _find_header_errors(headers: Mapping[str, str], kind: Kind) -> list[FieldError]:
    found = []
    seen: set[str] = set()
    for name, value in headers.items():
        place = f"/headers/{escape_pointer(name[:100])}"
        lower = name.lower()
        if _TOKEN.fullmatch(name) is None:
            found.append(FieldError(place, "is not a valid header name"))
        elif lower in _RESERVED_HEADERS or lower.startswith(("webhook-", "ce-")):
            found.append(FieldError(place, "is set by Fairlead and cannot be changed"))
        elif lower == "authorization" and kind == "airflow":
            found.append(FieldError(place, "is set by Fairlead: give `airflow` a token"))
        elif lower in seen:
            found.append(FieldError(place, "is given more than once"))
        seen.add(lower)
        if len(value) > HEADER_LENGTH_MAX:
            detail = f"has {len(value)} characters; at most {HEADER_LENGTH_MAX} are allowed"
            found.append(FieldError(place, detail))
        elif not value.isascii() or not value.isprintable() or value != value.strip():
            found.append(FieldError(place, "has a value that is not printable ASCII"))
    return found
