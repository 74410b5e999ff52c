"""What a caller is permitted to view. Other queues do not exist for it."""

from typing import Final

from fastapi import Request

from fairlead_common.domain.permissions import QueueScope, Verb
from fairlead_common.web import auth
from fairlead_common.web.auth import Authenticator, Caller
from fairlead_common.web.auth.queue_permissions import QueuePermissions

_ROLES: Final = ("operator", "submitter", "viewer")


class Visibility:
    """Finds the caller of a request and the queues that are visible to it.

    Raises a 401 or 403 `Problem`.
    """

    def __init__(self, authenticate: Authenticator, rights: QueuePermissions) -> None:
        self.authenticate = authenticate
        self._rights = rights

    async def find_caller(self, request: Request) -> Caller:
        """The caller of a request."""
        return await self.authenticate(request)

    async def find_visible_queues(self, caller: Caller) -> QueueScope:
        """The queues that are visible to a caller. Without any queue and any role it gets a 403."""
        visible_queues = await self._rights.find_scope(caller)
        if visible_queues.only is not None and not visible_queues.only:
            auth.require_role(caller, *_ROLES)
        return visible_queues

    async def find_scope(self, caller: Caller, verb: Verb) -> QueueScope:
        """The queues with which a caller is permitted to do this."""
        return await self._rights.find_scope(caller, verb)

    async def require(self, caller: Caller, queue: str, verb: Verb) -> None:
        """Raises a 404 or 403 `Problem` unless the caller is permitted to do this with a queue."""
        await self._rights.require(caller, queue, verb)

    async def __call__(self, request: Request) -> QueueScope:
        """The queues that are visible to the caller of a request."""
        return await self.find_visible_queues(await self.find_caller(request))
