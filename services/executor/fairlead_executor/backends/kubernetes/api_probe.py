"""Finds an API server that does not answer sooner than its watches do.

A watch on which nothing happens looks like one to a server that is frozen or cut off, until a
bookmark is due. A small request that is repeated every few seconds shows the difference.
"""

import asyncio
from typing import Final

from fairlead_executor.backends.kubernetes.api_client import ApiClient, ApiRefused, ApiUnavailable

_PATH: Final = "/api/v1/nodes"
_FROM_CACHE: Final = {"limit": "1", "resourceVersion": "0"}
"""One node, as the API server has it in memory."""


class ApiProbe:
    """Requests one node again and again. `problem`: why that fails; None: it succeeds."""

    def __init__(self, client: ApiClient, period_s: float, answer_s_max: float) -> None:
        self.problem: str | None = None
        self._client = client
        self._period_s = period_s
        self._answer_s_max = answer_s_max

    async def run(self) -> None:
        """Send requests until cancelled."""
        while True:
            await asyncio.sleep(self._period_s)
            try:
                async with asyncio.timeout(self._answer_s_max):
                    await self._client.get(_PATH, _FROM_CACHE)
                self.problem = None
            except TimeoutError:
                self.problem = f"it did not answer within {self._answer_s_max:g} s"
            except (ApiUnavailable, ApiRefused) as error:
                self.problem = str(error)
