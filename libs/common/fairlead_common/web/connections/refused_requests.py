"""Counts requests that are refused before any route, and logs the count once a minute.

A port scan or a broken client sends thousands per second: a line for each would fill the log.
"""

import logging
from collections import Counter
from typing import Final

import prometheus_client

REFUSED: Final = prometheus_client.Counter(
    "fairlead_http_refused_requests_total",
    "Requests refused before any route saw them, by type of problem.",
    ["problem"],
)
LOG_S: Final = 60.0
_logger: Final = logging.getLogger("fairlead.http")


class RefusedRequests:
    """The refused requests of this process since the last log line."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._newest_from = ""
        self._logged_s = float("-inf")

    def note(self, slug: str, address: str) -> None:
        """Count one more. `slug`: its problem type."""
        REFUSED.labels(slug).inc()
        self._counts[slug] += 1
        self._newest_from = address

    def log(self, now_s: float) -> None:
        """Write a line if there were any, and none was written within the last minute."""
        if not self._counts or now_s - self._logged_s < LOG_S:
            return
        counts = ", ".join(f"{count} {slug}" for slug, count in sorted(self._counts.items()))
        _logger.warning(
            "%d requests were refused before they could be read (%s), the newest from %s",
            self._counts.total(),
            counts,
            self._newest_from,
        )
        self._counts.clear()
        self._logged_s = now_s


ALL: Final = RefusedRequests()


class SilentParser(logging.Filter):
    """Drops the line that the server writes for each request that is not HTTP."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        return record.getMessage() != "Invalid HTTP request received."
