"""The permissions of queues, read from a view of submit and cached for a moment.

The permissions of a deleted queue protect its jobs for as long as its row exists.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from fairlead_common.db import access_views
from fairlead_common.db.connection_pool import Pool
from fairlead_common.domain import permissions
from fairlead_common.domain.permissions import (
    ALL_QUEUES,
    UNRESTRICTED_ROLES,
    Caller,
    QueueScope,
    Verb,
)
from fairlead_common.domain.records.configuration import Permission
from fairlead_common.service import clock

CACHE_S: Final = 1.0


class QueuePermissions:
    """Decides what a caller is permitted to do with queues. Methods raise `DatabaseUnavailable`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._read_s = -CACHE_S
        self._restricted: Mapping[str, tuple[Permission, ...]] = {}
        self._reading = asyncio.Lock()

    async def find_scope(self, caller: Caller, verb: str = Verb.VIEW) -> QueueScope:
        """The queues with which the caller is permitted to do this."""
        if caller.scope is None and not UNRESTRICTED_ROLES.isdisjoint(caller.roles):
            return ALL_QUEUES
        return permissions.find_queue_scope(caller, verb, await self.restricted())

    async def can_view(self, caller: Caller, queue: str) -> bool:
        """Whether the caller is permitted to view the queue, whether it exists or not."""
        return queue in await self.find_scope(caller)

    async def require(self, caller: Caller, queue: str, verb: str = Verb.VIEW) -> None:
        """Raises a 404 `Problem` if the caller must not view the queue, a 403 if it must not do
        this.
        """
        if caller.scope is None and not UNRESTRICTED_ROLES.isdisjoint(caller.roles):
            return
        restricted = await self.restricted()
        permissions.require_verb(caller, verb, queue, restricted.get(queue, ()))

    async def restricted(self) -> Mapping[str, tuple[Permission, ...]]:
        """All queues that have permissions, at most `CACHE_S` old."""
        if clock.monotonic_s() - self._read_s < CACHE_S:
            return self._restricted
        async with self._reading:
            if clock.monotonic_s() - self._read_s >= CACHE_S:
                asked_s = clock.monotonic_s()
                self._restricted = await access_views.read_restricted_queues(self._pool)
                self._read_s = asked_s
        return self._restricted
