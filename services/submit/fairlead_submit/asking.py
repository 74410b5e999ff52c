"""Who asks what: the caller of a request, and with which queues he may do it."""

import msgspec
from fastapi import Request

from fairlead_common import permissions
from fairlead_common.configuration import Queue
from fairlead_common.permissions import Caller
from fairlead_common.problems import Problem
from fairlead_common.queue_rights import QueueRights


class Asked(msgspec.Struct, frozen=True):
    """Who asks, and the request's id and trace."""

    caller: Caller
    request: str = ""
    traceparent: str = ""


def of(request: Request) -> Asked:
    """What a request says of itself; whoever let it in has found the caller."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return Asked(
        caller,
        getattr(request.state, "request_id", ""),
        request.headers.get("traceparent", "")[:100],
    )


async def require_somewhere(rights: QueueRights, caller: Caller, verb: str) -> None:
    """Raises a 403 `Problem` for whom there is no queue with which he may do this."""
    if caller.scope is None and verb in permissions.verbs_of(caller.roles):
        return
    reach = await rights.reach(caller, verb)
    if reach.only is not None and not reach.only:
        raise Problem(
            "forbidden",
            f"{caller.name} has the roles: {caller.titles()}; there is no queue that permits him to"
            f" {verb}.",
        )


def sees(caller: Caller, queue: Queue) -> bool:
    """Whether the queue is there for this caller. Most are there for whoever is anybody."""
    if caller.scope is None and caller.roles and not queue.permissions:
        return True
    return permissions.allows(caller, permissions.Verb.VIEW, queue.name, queue.permissions)


def require_verb(caller: Caller, verb: str, queue: Queue) -> None:
    """Raises a 403 `Problem` unless the caller may do this with the queue that he sees."""
    permissions.require_verb(caller, verb, queue.name, queue.permissions)
