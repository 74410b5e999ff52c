"""Times as text (RFC 3339), in UTC with milliseconds, and their days."""

from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final

SECONDS_CACHED_MAX: Final = 8_192


def rfc3339(time_ms: int) -> str:
    """`2026-01-31T12:00:00.000Z`: UTC with milliseconds, as the API writes every time."""
    seconds, millis = divmod(time_ms, 1000)
    return f"{_format_second(seconds)}.{millis:03d}Z"


@lru_cache(SECONDS_CACHED_MAX)
def _format_second(seconds: int) -> str:
    """A list of jobs has the same seconds again and again."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def parse_rfc3339(text: str) -> int:
    """The inverse of `rfc3339`; any offset is read. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2026-01-31T12:00:00Z")
    return round(moment.timestamp() * 1000)


def find_day(time_ms: int) -> date:
    """The day of a time, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).date()
