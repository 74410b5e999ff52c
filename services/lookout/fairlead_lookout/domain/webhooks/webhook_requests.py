"""The bodies of requests about webhooks, and their validation.

Every field is optional, and null means absent, so that one response can name every error.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.requests.validation import escape_pointer, without_implied
from fairlead_lookout.domain.public_events import EventType
from fairlead_lookout.domain.webhooks.target_addresses import Network, check_url
from fairlead_lookout.domain.webhooks.webhook_types import EVENT_TYPES, EventFilter, Format

CONCURRENCY_DEFAULT: Final = 8
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
    """A webhook to create, or what replaces one. `headers`: absent means unchanged."""

    name: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    url: Annotated[str, Meta(min_length=1)] | None = None
    filter: FilterRequest | None = None
    format: Format | None = None
    ordered: bool | None = None
    concurrency: Annotated[int, Meta(ge=1, le=CONCURRENCY_MAX)] | None = None
    headers: Annotated[dict[str, str], Meta(max_length=HEADERS_MAX)] | None = None
    enabled: bool | None = None


class RotationRequest(_Request, kw_only=True):
    """How long the previous secret stays valid beside the new one."""

    overlap_seconds: Annotated[int, Meta(ge=0, le=OVERLAP_S_MAX)] | None = None


class WebhookConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request. `headers` None: unchanged."""

    name: str
    url: str
    filter: EventFilter
    format: Format
    ordered: bool
    concurrency: int
    headers: Mapping[str, str] | None
    enabled: bool


def check_webhook(
    given: WebhookRequest, known: Sequence[FieldError], allowed: Sequence[Network]
) -> WebhookConfiguration | list[FieldError]:
    """The webhook that is requested, or every error. `known`: what decoding has found."""
    found: list[FieldError] = []
    if given.name is None:
        found.append(FieldError("/name", "is missing"))
    elif NAME.fullmatch(given.name) is None:
        detail = "is not a valid name: use 1 to 63 of a-z, 0-9 and '-', with no '-' at either end"
        found.append(FieldError("/name", detail))
    if given.url is None:
        found.append(FieldError("/url", "is missing"))
    elif (refusal := check_url(given.url, allowed)) is not None:
        found.append(FieldError("/url", refusal))
    requested = given.filter or FilterRequest()
    if requested.job_set is not None and requested.job_set.count("*") > STARS_MAX:
        found.append(FieldError("/filter/jobSet", f"has more than {STARS_MAX} '*'"))
    found += _find_header_errors(given.headers or {})
    found = [*known, *without_implied(found, known)]
    if found:
        return found
    return WebhookConfiguration(
        name=given.name or "",
        url=given.url or "",
        filter=EventFilter(
            requested.queue, requested.job_set, tuple(dict.fromkeys(requested.types or ()))
        ),
        format=given.format or "fairlead",
        ordered=bool(given.ordered),
        concurrency=given.concurrency or CONCURRENCY_DEFAULT,
        headers=given.headers,
        enabled=given.enabled is not False,
    )


def _find_header_errors(headers: Mapping[str, str]) -> list[FieldError]:
    found = []
    seen: set[str] = set()
    for name, value in headers.items():
        place = f"/headers/{escape_pointer(name[:100])}"
        lower = name.lower()
        if _TOKEN.fullmatch(name) is None:
            found.append(FieldError(place, "is not a valid header name"))
        elif lower in _RESERVED_HEADERS or lower.startswith(("webhook-", "ce-")):
            found.append(FieldError(place, "is set by Fairlead and cannot be changed"))
        elif lower in seen:
            found.append(FieldError(place, "is given more than once"))
        seen.add(lower)
        if len(value) > HEADER_LENGTH_MAX:
            detail = f"has {len(value)} characters; at most {HEADER_LENGTH_MAX} are allowed"
            found.append(FieldError(place, detail))
        elif not value.isascii() or not value.isprintable() or value != value.strip():
            found.append(FieldError(place, "has a value that is not printable ASCII"))
    return found
