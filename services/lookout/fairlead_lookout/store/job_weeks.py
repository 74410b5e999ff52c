"""The weeks by which the rows of jobs are kept and dropped, counted from the epoch."""

from typing import Final

DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS


def week_of(time_ms: int) -> int:
    """The week that contains this time."""
    return time_ms // WEEK_MS


def start_ms(week: int) -> int:
    """The first ms of a week."""
    return week * WEEK_MS


def find_expired_week(now_ms: int, days: int) -> int:
    """The newest week that was over at least this number of days ago."""
    return week_of(now_ms - days * DAY_MS) - 1
