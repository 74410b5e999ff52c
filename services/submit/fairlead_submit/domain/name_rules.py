"""Rules for names. Each check returns what is wrong with a name, or None, and caches results."""

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final

from fairlead_submit.domain.request_types import JOB_SET_MAX

_QUEUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_MACHINE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_NETWORK_OBJECT: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,18}[a-z0-9])?")
_DNS_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_DNS_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")

RESERVED_PREFIX: Final = "fairlead.dev"
"""The prefix of labels that are reserved for Fairlead."""

_NAME_RULE: Final = (
    "is not a valid name: use 1 to {} letters, digits, '-', '_' and '.', with a letter or digit at"
    " each end"
)
LENGTH_MAX: Final = 512
"""Results for longer texts are not cached: no name is as long."""


def _cached(check: Callable[[str], str | None]) -> Callable[[str], str | None]:
    cached = lru_cache(maxsize=65_536)(check)

    @wraps(check)
    def bounded(text: str) -> str | None:
        if len(text) > LENGTH_MAX:
            return f"has {len(text)} characters; at most {LENGTH_MAX} are allowed"
        return cached(text)

    return bounded


@_cached
def check_name(name: str) -> str | None:
    """The name of a queue, pool or priority class: also a label value and a part of a key."""
    if _QUEUE.fullmatch(name):
        return None
    return _NAME_RULE.format(63)


@_cached
def check_namespace(name: str) -> str | None:
    """A namespace of Kubernetes (RFC 1123 label)."""
    if _DNS_LABEL.fullmatch(name):
        return None
    return "is not a valid namespace: use 1 to 63 of a-z, 0-9 and '-', with no '-' at either end"


@_cached
def check_network_object(name: str) -> str | None:
    """The name of a service or ingress of a job: with the run's id it is a DNS label (RFC 1035)."""
    if _NETWORK_OBJECT.fullmatch(name):
        return None
    return (
        "is not a valid name: use 1 to 20 of a-z, 0-9 and '-', with a letter first and no '-' last"
    )


@_cached
def check_executor_name(name: str) -> str | None:
    """The name of an executor or node: a part of a key, and a DNS name in Kubernetes."""
    if _MACHINE.fullmatch(name):
        return None
    return _NAME_RULE.format(253)


@_cached
def check_label_key(key: str) -> str | None:
    """The key of a label or annotation: `name` or `prefix/name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not _DNS_NAME.fullmatch(prefix):
        return "has a prefix (before '/') that is not a DNS name"
    if not name or not _LABEL.fullmatch(name):
        return "is not a valid label name: use 1 to 63 letters, digits, '-', '_' and '.'"
    return None


@_cached
def check_label_value(value: str) -> str | None:
    """The value of a label: empty, or like a queue's name."""
    if _LABEL.fullmatch(value):
        return None
    return "is not a valid label value: use at most 63 letters, digits, '-', '_' and '.'"


@_cached
def check_variable_name(name: str) -> str | None:
    """The name of an environment variable."""
    if not name or "=" in name or not name.isprintable():
        return "is not a valid name of an environment variable"
    return None


@_cached
def check_job_set_name(name: str) -> str | None:
    """The name of a job set: any printable text that can be part of a path."""
    if not name:
        return "is empty"
    if len(name) > JOB_SET_MAX:
        return f"has {len(name)} characters; at most {JOB_SET_MAX} are allowed"
    parts = name.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "cannot be part of a path: a part between slashes is empty, '.' or '..'"
    if len(parts) > 1 and parts[-1] == "events":
        return "ends in '/events', which is the path of the events of another job set"
    return check_printable(name)


def check_printable(text: str) -> str | None:
    """A text that can be read on one line."""
    if not text.isprintable():
        return "contains characters that are not printable"
    if text != text.strip():
        return "begins or ends with a space"
    return None
