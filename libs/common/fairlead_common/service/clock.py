"""The only module that reads the clock. All other code takes the time as an argument."""

import time


def now_ms() -> int:
    """Milliseconds since the Unix epoch, by this machine's clock."""
    return time.time_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds on a clock that never goes back; only differences mean anything."""
    return time.monotonic()
