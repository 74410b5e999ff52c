"""Who is permitted to view and change a webhook.

Callers who can submit to a queue manage its webhooks; operators manage webhooks of all queues. A
webhook is hidden from all other callers, because its URL can be a secret.
"""

from typing import NamedTuple

from fastapi import Request

from fairlead_common.domain.permissions import (
    UNRESTRICTED_ROLES,
    Caller,
    QueueScope,
    Verb,
)
from fairlead_common.domain.problems import Problem
from fairlead_lookout.domain.webhooks.webhook_requests import NAME, Permitted
from fairlead_lookout.domain.webhooks.webhook_types import Webhook
from fairlead_lookout.http.visibility import Visibility
from fairlead_lookout.store.webhooks.delivery_store import DeliveryStore
from fairlead_lookout.store.webhooks.webhook_store import WebhookStore


class WebhookDeps(NamedTuple):
    """What the routes of webhooks are given. `permitted`: to what the operator permits deliveries;
    `base_url`: of the dashboard, "" if it is not known."""

    store: WebhookStore
    deliveries: DeliveryStore
    permitted: Permitted
    base_url: str


class WebhookAccess:
    """Finds webhooks for a caller. Raises a 401, 403 or 404 `Problem`."""

    def __init__(self, visibility: Visibility, store: WebhookStore) -> None:
        self._visibility = visibility
        self._store = store

    async def find(self, request: Request, name: str) -> tuple[Caller, Webhook]:
        """The caller and the webhook of this name."""
        caller = await self._visibility.find_caller(request)
        webhook = await self._store.get(name) if NAME.fullmatch(name) else None
        if webhook is None or not await self.is_permitted(caller, webhook.filter.queue):
            raise webhook_not_found(name)
        return caller, webhook

    async def find_scope(self, caller: Caller) -> QueueScope:
        """The queues whose webhooks the caller manages."""
        return await self._visibility.find_scope(caller, Verb.SUBMIT)

    async def require_any(self, caller: Caller) -> None:
        """Raises a 403 `Problem` for a caller that cannot manage any webhook."""
        scope = await self.find_scope(caller)
        if scope.only is not None and not scope.only and not is_operator(caller):
            raise Problem(
                "forbidden",
                "A webhook requires permission to submit to its queue, or the role operator."
                f" {caller.name} has the roles: {caller.titles()}.",
            )

    async def is_permitted(self, caller: Caller, queue: str | None) -> bool:
        """Whether the caller manages webhooks of this queue, or (None) of all queues."""
        if queue is None:
            return is_operator(caller)
        return queue in await self.find_scope(caller)

    async def require(self, caller: Caller, queue: str | None) -> None:
        """Raises a `Problem` unless the caller manages webhooks of this queue, or of all."""
        if queue is not None:
            await self._visibility.require(caller, queue, Verb.SUBMIT)
        elif not is_operator(caller):
            raise Problem(
                "forbidden",
                "A webhook for the events of all queues requires the role operator. Name a queue"
                " in `filter`. You need permission to submit to it.",
            )


def is_operator(caller: Caller) -> bool:
    """Whether the caller manages webhooks of all queues."""
    return caller.scope is None and not UNRESTRICTED_ROLES.isdisjoint(caller.roles)


def webhook_not_found(name: str) -> Problem:
    """The 404 for a webhook that does not exist or belongs to others."""
    return Problem("not-found", f"Webhook {name[:80]!r} does not exist.")
