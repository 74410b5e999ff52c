"""What a route is given: the context of its request, and a first check of the caller's rights."""

from fastapi import Request

from fairlead_common.domain import permissions
from fairlead_common.domain.permissions import Caller
from fairlead_common.domain.problems import Problem
from fairlead_common.web.auth.queue_permissions import QueueRights
from fairlead_submit.domain.callers import RequestContext


def request_context(request: Request) -> RequestContext:
    """The context of a request; the middleware has identified its caller."""
    caller = request.state.caller
    assert isinstance(caller, Caller)
    return RequestContext(
        caller,
        getattr(request.state, "request_id", ""),
        request.headers.get("traceparent", "")[:100],
    )


async def require_any_queue(rights: QueueRights, caller: Caller, verb: str) -> None:
    """Raises a 403 `Problem` if there is no queue with which the caller may do this."""
    if caller.scope is None and verb in permissions.verbs_of(caller.roles):
        return
    reach = await rights.reach(caller, verb)
    if reach.only is not None and not reach.only:
        raise Problem(
            "forbidden",
            f"{caller.name} has the roles: {caller.titles()}; there is no queue that permits him to"
            f" {verb}.",
        )
