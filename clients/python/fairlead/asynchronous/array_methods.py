"""The methods for arrays: many tasks that are submitted as one job with `array`."""

from collections.abc import AsyncIterator

from fairlead.asynchronous.client_connection import AsyncConnection
from fairlead.calls import array_requests, request_building
from fairlead.models.array_models import ArrayActionResult, ArrayTask, ArrayView


class ArrayMethods(AsyncConnection):
    """The methods for arrays."""

    def arrays(
        self,
        *,
        queue: str | None = None,
        job_set: str | None = None,
        client_id: str | None = None,
        active: bool = False,
        after: str | None = None,
    ) -> AsyncIterator[ArrayView]:
        """Iterates over arrays, the newest first. `active`: only with tasks that have not ended."""
        query = request_building.make_query(
            {
                "queue": queue,
                "jobSet": job_set,
                "clientId": client_id,
                "active": "true" if active else None,
            }
        )
        query += self._make_position_query(after)
        return self._iterate_pages("/arrays", query, "arrays", ArrayView)

    async def array(self, array_id: str, *, after: str | None = None) -> ArrayView:
        """One array with its tasks by state. Raises `NotFound`."""
        query = self._make_position_query(after)
        request = request_building.build_get(array_requests.array_path(array_id), query)
        return await self._request(request, ArrayView)

    def array_tasks(
        self, array_id: str, *, state: str | None = None, after: str | None = None
    ) -> AsyncIterator[ArrayTask]:
        """Iterates over the tasks of an array by index, also those that are not released. Raises
        `NotFound`."""
        query = request_building.make_query({"state": state})
        query += self._make_position_query(after)
        path = f"{array_requests.array_path(array_id)}/tasks"
        return self._iterate_pages(path, query, "tasks", ArrayTask)

    async def cancel_array(
        self, array_id: str, *, indexes: str | None = None, reason: str = ""
    ) -> ArrayActionResult:
        """Cancel the tasks with these indexes ("0-9,20"; default: all). Raises `NotFound`."""
        request = array_requests.build_cancellation(array_id, indexes, reason)
        return await self._request_change(request, ArrayActionResult)

    async def resubmit_array(
        self, array_id: str, *, indexes: str | None = None, client_id: str | None = None
    ) -> ArrayActionResult:
        """Submit the tasks with these indexes (default: all) again, as a new array with this client
        id (default: a new one). Raises `NotFound`.
        """
        name = client_id or f"a{self._transport.random_bits():016x}"
        request = array_requests.build_resubmission(array_id, indexes, name)
        return await self._request_change(request, ArrayActionResult)
