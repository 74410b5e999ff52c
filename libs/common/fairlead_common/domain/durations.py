"""Durations in queries: `30s`, `500ms`, `2m`, or a plain number of seconds."""

import re
from typing import Final

WAIT_S_MAX: Final = 60.0
_FORM: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m)?")
_SCALE: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}


def wait_s(text: str | None, default_s: float = 0.0) -> float:
    """Seconds to wait, at most `WAIT_S_MAX`. Raises `ValueError`."""
    if text is None:
        return default_s
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a valid duration; write it like 30s or 500ms.")
    return min(float(match[1]) * _SCALE[match[2] or "s"], WAIT_S_MAX)
