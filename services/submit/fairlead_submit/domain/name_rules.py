"""What names may look like. Each check says what is wrong, or None; distinct texts once."""

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final

from fairlead_submit.domain.request_types import JOB_SET_MAX

_QUEUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MACHINE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_DNS_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")

OURS: Final = "fairlead.dev"
"""The prefix of labels that only Fairlead sets."""

LENGTH_MAX: Final = 512
"""Longer texts are no names of anything, and are not kept."""


def _cached(check: Callable[[str], str | None]) -> Callable[[str], str | None]:
    kept = lru_cache(maxsize=65_536)(check)

    @wraps(check)
    def bounded(text: str) -> str | None:
        return kept(text) if len(text) <= LENGTH_MAX else f"has {len(text)} characters"

    return bounded


@_cached
def queue(name: str) -> str | None:
    """A queue's, a pool's or a class's name: it is a label's value and a part of a key."""
    if _QUEUE.fullmatch(name):
        return None
    return "is no name: 1 to 63 letters, digits, '-', '_' and '.', a letter or digit at each end"


@_cached
def namespace(name: str) -> str | None:
    """A namespace of Kubernetes (RFC 1123 label)."""
    if _DNS_LABEL.fullmatch(name):
        return None
    return "is no namespace: 1 to 63 lower-case letters, digits and '-', no '-' at either end"


@_cached
def executor(name: str) -> str | None:
    """An executor's or a node's name: a part of a key, and a DNS name in Kubernetes."""
    if _MACHINE.fullmatch(name):
        return None
    return "is no name: 1 to 253 letters, digits, '-', '_' and '.', a letter or digit at each end"


@_cached
def label_key(key: str) -> str | None:
    """The key of a label or annotation: `name` or `prefix/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _DNS_NAME.fullmatch(prefix):
        return "has a prefix (before '/') that is no DNS name"
    if not name or not _LABEL.fullmatch(name):
        return "is no label name: 1 to 63 letters, digits, '-', '_' and '.'"
    return None


@_cached
def label_value(value: str) -> str | None:
    """The value of a label: empty, or like a queue's name."""
    if _LABEL.fullmatch(value):
        return None
    return "is no label value: at most 63 letters, digits, '-', '_' and '.'"


@_cached
def job_set(name: str) -> str | None:
    """A job set's name: anything that can be read on one line."""
    if not name:
        return "is empty"
    if len(name) > JOB_SET_MAX:
        return f"has {len(name)} characters; at most {JOB_SET_MAX} are allowed"
    parts = name.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "cannot be part of an address: a part between slashes is empty, '.' or '..'"
    if len(parts) > 1 and parts[-1] == "events":
        return "ends in '/events': that is the address of the history of another job set"
    return printable(name)


def printable(text: str) -> str | None:
    """A text that people can read on one line."""
    if not text.isprintable():
        return "holds characters that cannot be printed"
    if text != text.strip():
        return "begins or ends with a space"
    return None
