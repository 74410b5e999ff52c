"""The way out of each kind of error, in one line: what to type or whom to ask."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fairlead import errors

BY_TYPE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "malformed": "does the server have another version? `fairlead doctor` compares them",
        "unauthenticated": (
            "set FAIRLEAD_TOKEN, or the token of a context; `fairlead token show` prints one on the"
            " server's machine, and `fairlead doctor` says which is used"
        ),
        "forbidden": (
            "ask an operator for the role, or for your name in the queue's `permissions`"
            " (`fairlead queue get NAME` shows them)"
        ),
        "not-found": (
            "`fairlead get queues`, `get jobsets` and `get jobs` list what there is; what you may"
            " not view is not there for you"
        ),
        "method-not-allowed": "the server is older than this command; `fairlead doctor` compares",
        "too-slow": "the line to the server is slow; try again, or with fewer jobs in a file",
        "conflict": "look at what is there (`fairlead queue get`, `fairlead describe job`)",
        "precondition-failed": "somebody else changed it meanwhile; look again and repeat",
        "too-large": "cut the file into several; one job's pod spec may have 64 KiB",
        "unsupported-media-type": "is there a proxy before the server that changes requests?",
        "invalid": "nothing was done; mend what is listed and try again",
        "too-many-requests": "wait a moment; one file of many jobs is one request",
        "head-too-large": "the address is too long: use fewer or shorter filters",
        "internal": "this is our mistake; the operator finds it by the request's id: {instance}",
        "unavailable": "something the server needs is away; try again, or ask `fairlead doctor`",
    }
)
"""By the last part of a problem's type."""

BY_STATUS: Final[Mapping[int, str]] = MappingProxyType(
    {401: "unauthenticated", 403: "forbidden", 429: "too-many-requests"}
    | dict.fromkeys((502, 503, 504), "unavailable")
)
"""The type of a refusal that is no problem document: from a proxy, say."""


_NOT_OURS: Final = "is that a Fairlead server, or a proxy? `fairlead doctor` looks closer"


def of(error: Exception) -> str | None:
    """The hint for this error; a note that the command has left goes first."""
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return notes[0]
    match error:
        case errors.Refused():
            slug = error.problem.type.rpartition("/")[2]
            if slug not in BY_TYPE:
                slug = BY_STATUS.get(error.problem.status, "")
            text = BY_TYPE.get(slug, _NOT_OURS)
            return text.format(instance=error.problem.instance or "unknown")
        case errors.ServerUnreachable():
            return "is it running? `fairlead up` starts one here; `fairlead doctor` looks closer"
        case errors.UnexpectedAnswer():
            return _NOT_OURS
        case _:
            return None
