"""The context of a request for its route, and the first checks of its caller's permissions."""

from fastapi import Request

from fairlead_common.domain import permissions
from fairlead_common.domain.permissions import Caller, Role
from fairlead_common.domain.problems import Problem
from fairlead_common.web.auth.queue_permissions import QueuePermissions
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


async def require_any_queue(queue_rights: QueuePermissions, caller: Caller, verb: str) -> None:
    """Raises a 403 `Problem` if the caller is permitted to do this in no queue."""
    if caller.scope is None and verb in permissions.list_verbs(caller.roles):
        return
    scope = await queue_rights.find_scope(caller, verb)
    if scope.only is not None and not scope.only:
        raise Problem(
            "forbidden",
            f"No queue permits {caller.name} to {verb} jobs, and neither do the roles of this"
            f" caller: {caller.titles()}.",
        )


def require_confined_jobs(tokens_for_others: bool, caller: Caller) -> None:
    """Raises a 403 `Problem` if a job of this caller could read secrets that the caller cannot.

    Where jobs are not confined, only admins submit them: a job can read the admin token.
    """
    if tokens_for_others or (caller.scope is None and Role.ADMIN in caller.roles):
        return
    raise Problem(
        "forbidden",
        "Jobs are not confined on this server, so a user who submits one can read the server's"
        " secrets. Only admins are therefore permitted to submit jobs. Start the server with"
        " `fairlead up --shared-unconfined` to permit others as well.",
    )
