"""A hint for each kind of error, in one line: what to do."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fairlead import errors

BY_TYPE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "malformed": "the server may have another version; `fairlead doctor` compares them",
        "unauthenticated": (
            "set FAIRLEAD_TOKEN, or the token of a context; `fairlead token show` prints one on the"
            " server's machine, and `fairlead doctor` says which is used"
        ),
        "forbidden": (
            "ask an operator for the role, or for your name in the queue's `permissions`"
            " (`fairlead queue get NAME` shows them)"
        ),
        "not-found": (
            "`fairlead get queues`, `get jobsets` and `get jobs` list what exists; objects that you"
            " are not permitted to view are not found"
        ),
        "method-not-allowed": "the server is older than this command; `fairlead doctor` compares",
        "too-slow": "the connection to the server is slow; try again, or with fewer jobs in a file",
        "conflict": "check the current state (`fairlead queue get`, `fairlead describe job`)",
        "precondition-failed": "it was changed meanwhile; read it again and repeat the change",
        "too-large": "split it into several files; the limit of a pod spec is 64 KiB",
        "unsupported-media-type": "is there a proxy before the server that changes requests?",
        "invalid": "nothing was changed; correct the listed fields and try again",
        "too-many-requests": "wait a moment; one file of many jobs is one request",
        "head-too-large": "the address is too long: use fewer or shorter filters",
        "internal": "a defect of the server; the operator finds it by the request's id: {instance}",
        "unavailable": "a dependency of the server is down; try again, or run `fairlead doctor`",
    }
)
"""By the last part of a problem's type."""

BY_STATUS: Final[Mapping[int, str]] = MappingProxyType(
    {401: "unauthenticated", 403: "forbidden", 429: "too-many-requests"}
    | dict.fromkeys((502, 503, 504), "unavailable")
)
"""The type of a refusal without a problem document, for example of a proxy."""


_NOT_OURS: Final = "is that a Fairlead server, or a proxy? `fairlead doctor` checks it"


def find_hint(error: Exception) -> str | None:
    """The hint for this error; a note of the command has priority."""
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return notes[0]
    match error:
        case errors.RequestRefused():
            slug = error.problem.type.rpartition("/")[2]
            if slug not in BY_TYPE:
                slug = BY_STATUS.get(error.problem.status, "")
            text = BY_TYPE.get(slug, _NOT_OURS)
            return text.format(instance=error.problem.instance or "unknown")
        case errors.ServerUnreachable():
            return "check that it runs: `fairlead up` starts one here; `fairlead doctor` checks it"
        case errors.UnexpectedResponse():
            return _NOT_OURS
        case _:
            return None
