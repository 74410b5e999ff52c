"""What a caller may see: the queues whose jobs he may view. The others are not there for him."""

from typing import Final

from fastapi import Request

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.web import auth
from fairlead_common.web.auth import Authenticator, Caller
from fairlead_common.web.auth.queue_permissions import QueuePermissions

_ROLES: Final = ("operator", "submitter", "viewer")


class Sight:
    """Finds the caller of a request and his reach. Raises a 401 or 403 `Problem`."""

    def __init__(self, authenticate: Authenticator, rights: QueuePermissions) -> None:
        self.authenticate = authenticate
        self._rights = rights

    async def caller(self, request: Request) -> Caller:
        """Who asks."""
        return await self.authenticate(request)

    async def of(self, caller: Caller) -> QueueScope:
        """The queues that he may view; whoever may view none needs a role first."""
        reach = await self._rights.find_scope(caller)
        if reach.only is not None and not reach.only:
            auth.require_role(caller, *_ROLES)
        return reach

    async def __call__(self, request: Request) -> QueueScope:
        """The queues that the caller of this request may view."""
        return await self.of(await self.caller(request))
