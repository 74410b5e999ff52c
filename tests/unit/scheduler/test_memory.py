"""Memory that was freed goes back to the system."""

import asyncio

from fairlead_scheduler import memory


async def test_giving_memory_back_goes_on_or_ends_at_once_where_it_cannot() -> None:
    task = asyncio.create_task(memory.give_back_regularly())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None
