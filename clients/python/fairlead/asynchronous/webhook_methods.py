"""Methods for webhooks and their deliveries."""

from collections.abc import AsyncIterator

from fairlead.asynchronous.client_connection import AsyncConnection
from fairlead.calls import request_building
from fairlead.models.webhook_models import (
    Delivery,
    ReplayStart,
    SecretRotation,
    Webhook,
    WebhookChange,
)


class WebhookMethods(AsyncConnection):
    """The methods for webhooks."""

    async def create_webhook(self, webhook: WebhookChange, *, dry_run: bool = False) -> Webhook:
        """Create a webhook; if it signs, only this response contains its secret. Raises `Conflict`.

        With `dry_run` the server validates the request and creates nothing.
        """
        query = request_building.make_dry_run_query(dry_run)
        request = request_building.build_post("/webhooks", webhook, query=query, repeatable=dry_run)
        return await self._request(request, Webhook)

    def webhooks(self) -> AsyncIterator[Webhook]:
        """Iterates over the webhooks that the caller manages."""
        return self._iterate_pages("/webhooks", (), "webhooks", Webhook)

    async def webhook(self, name: str) -> Webhook:
        """One webhook. Raises `NotFound`."""
        return await self._request(request_building.build_get(_path(name)), Webhook)

    async def replace_webhook(self, webhook: WebhookChange, *, dry_run: bool = False) -> Webhook:
        """Replace the configuration of a webhook. Raises `NotFound`.

        With `dry_run` the server validates the request and changes nothing.
        """
        query = request_building.make_dry_run_query(dry_run)
        request = request_building.build_post(
            _path(webhook.name), webhook, query=query, method="PUT"
        )
        return await self._request(request, Webhook)

    async def delete_webhook(self, name: str) -> None:
        """Delete a webhook; pending deliveries are not sent. Raises `NotFound`."""
        await self._request_no_content(request_building.build_delete(_path(name), repeatable=False))

    async def rotate_webhook_secret(self, name: str, *, overlap_s: int | None = None) -> Webhook:
        """Add a secret, which only this response contains; the previous one stays valid for a
        while (default: a day).
        """
        body = SecretRotation(overlap_seconds=overlap_s)
        request = request_building.build_post(f"{_path(name)}/rotate", body, repeatable=False)
        return await self._request(request, Webhook)

    async def test_webhook(self, name: str) -> Delivery:
        """Send a test delivery and wait for its result."""
        request = request_building.build_post(f"{_path(name)}/test", {}, repeatable=False)
        return await self._request(request, Delivery)

    def webhook_deliveries(self, name: str, *, state: str | None = None) -> AsyncIterator[Delivery]:
        """Iterates over the deliveries of a webhook, the newest first."""
        query = request_building.make_query({"state": state})
        return self._iterate_pages(f"{_path(name)}/deliveries", query, "deliveries", Delivery)

    async def replay_delivery(self, name: str, delivery_id: str) -> Delivery:
        """Send a delivery again. Raises `Conflict` while it is pending."""
        path = f"{_path(name)}/deliveries/{request_building.escape_segment(delivery_id)}/replay"
        return await self._request(request_building.build_post(path, {}), Delivery)

    async def replay_webhook(
        self, name: str, *, since: str, until: str | None = None, everything: bool = False
    ) -> ReplayStart:
        """Send the failed deliveries of events of this time again, and those that wait for another
        attempt, or `everything`."""
        query = request_building.make_query(
            {"from": since, "to": until, "only": "all" if everything else "failed"}
        )
        path = f"{_path(name)}/replay"
        request = request_building.build_post(path, {}, query=query, repeatable=not everything)
        return await self._request(request, ReplayStart)


def _path(name: str) -> str:
    return f"/webhooks/{request_building.escape_segment(name)}"
