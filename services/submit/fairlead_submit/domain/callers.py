"""The caller of a request, and what it is permitted to do with a queue."""

import msgspec

from fairlead_common.domain import permissions
from fairlead_common.domain.permissions import Caller, Verb
from fairlead_common.domain.records.configuration import Queue


class RequestContext(msgspec.Struct, frozen=True):
    """The caller of a request, and the request's id and trace."""

    caller: Caller
    request: str = ""
    traceparent: str = ""


def is_visible(queue: Queue, caller: Caller) -> bool:
    """Whether the caller is permitted to view the queue."""
    if caller.scope is None and caller.roles and not queue.permissions:
        return True  # the usual case, without a search
    return permissions.allows(caller, Verb.VIEW, queue.name, queue.permissions)


def require_verb(caller: Caller, verb: str, queue: Queue) -> None:
    """Raises a 403 `Problem` unless the caller is permitted to do this with a visible queue."""
    permissions.require_verb(caller, verb, queue.name, queue.permissions)
