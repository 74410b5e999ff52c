"""A lookout that sends webhooks to this machine, with a queue `q`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from fairlead_common.domain.records import configuration
from tests.integration.lookout.lookout_harness import LookoutHarness, running

WAIT_S = 60.0
SETTINGS = {
    "secrets_key": "a key of tests",
    "webhook_networks": ("127.0.0.0/8", "::1/128"),
    "public_url": "https://fairlead.example.org",
}


class WebhookHarness(LookoutHarness):
    """Adds the calls about webhooks."""

    async def post(self, path: str, body: Any = None, **query: Any) -> httpx2.Response:
        return await self.client.post(f"/api/v1{path}", json=body, params=query)

    async def create(self, url: str, name: str = "hook", **fields: Any) -> dict[str, Any]:
        """A new webhook."""
        given = {"name": name, "url": url, "filter": {"queue": "q"}, **fields}
        answer = await self.post("/webhooks", given)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    async def list_deliveries(self, name: str = "hook", **query: Any) -> list[dict[str, Any]]:
        """The newest first."""
        answer = await self.read(f"/webhooks/{name}/deliveries", **query)
        found: list[dict[str, Any]] = answer["deliveries"]
        return found

    async def wait_for_state(self, state: str, count: int, name: str = "hook") -> list[Any]:
        """The deliveries in this state, as soon as there are this many."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = await self.list_deliveries(name, state=state)
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.02)

    async def wait_until_disabled(self, name: str = "hook") -> Any:
        """The webhook, as soon as it is disabled."""
        async with asyncio.timeout(WAIT_S):
            while True:
                webhook = await self.read(f"/webhooks/{name}")
                if not webhook["enabled"]:
                    return webhook
                await asyncio.sleep(0.02)


@asynccontextmanager
async def delivering(database: str, redis: str, **settings: Any) -> AsyncIterator[WebhookHarness]:
    """A running lookout with webhooks."""
    async with running(database, redis, **{**SETTINGS, **settings}) as harness:
        await harness.append([configuration.record(configuration.Queue(name="q", version=1))])
        yield WebhookHarness(harness.service, harness.client, harness.log)
