"""What all responses have: names in camelCase, times in RFC 3339, and no empty values."""

from collections.abc import Mapping

import msgspec

from fairlead_common.domain import timestamps
from fairlead_common.domain.scheduling import quantities
from fairlead_lookout.domain import resource_usage


class ResponseBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of all response types."""


def format_time(time_ms: int | None) -> str | None:
    """A time, if there is one."""
    return None if time_ms is None else timestamps.rfc3339(time_ms)


def to_resource_hours(used: Mapping[str, float]) -> dict[str, float]:
    """Amounts x ms as cores, bytes and units times hours."""
    return {
        name: round(quantities.to_number(name, 1) * amount / resource_usage.HOUR_MS, 6)
        for name, amount in sorted(used.items())
        if amount
    }
