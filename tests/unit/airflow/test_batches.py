"""Calls that are made together."""

import asyncio

import pytest

from fairlead_airflow.jobs.batches import Batch


class Doubling:
    """Work that doubles numbers when it is allowed to, and records its calls."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.called = asyncio.Event()
        self.allowed = asyncio.Event()

    async def work(self, items: list[int]) -> list[int]:
        self.calls.append(items)
        self.called.set()
        await self.allowed.wait()
        if 0 in items:
            raise ValueError("zero")
        return [2 * item for item in items]


async def test_items_that_are_given_at_the_same_time_need_one_call() -> None:
    doubling = Doubling()
    doubling.allowed.set()
    batch = Batch(doubling.work, collect_s=0)
    assert await asyncio.gather(*(batch.run(n) for n in (3, 1, 2))) == [6, 2, 4]
    assert doubling.calls == [[3, 1, 2]]


async def test_an_item_that_is_given_during_a_call_waits_for_the_next_one() -> None:
    doubling = Doubling()
    batch = Batch(doubling.work, collect_s=0)
    first = asyncio.create_task(batch.run(1))
    await doubling.called.wait()
    second = asyncio.create_task(batch.run(2))
    await asyncio.sleep(0)
    doubling.allowed.set()
    assert [await first, await second] == [2, 4]
    assert doubling.calls == [[1], [2]]


async def test_an_item_whose_caller_was_cancelled_is_left_out() -> None:
    doubling = Doubling()
    doubling.allowed.set()
    batch = Batch(doubling.work, collect_s=0)
    cancelled, other = (asyncio.create_task(batch.run(n)) for n in (1, 2))
    asyncio.get_running_loop().call_soon(cancelled.cancel)
    assert await other == 4
    assert doubling.calls == [[2]]


async def test_each_caller_gets_the_error_and_the_next_call_is_made() -> None:
    doubling = Doubling()
    doubling.allowed.set()
    batch = Batch(doubling.work, collect_s=0)
    found = await asyncio.gather(batch.run(0), batch.run(1), return_exceptions=True)
    assert [type(each) for each in found] == [ValueError, ValueError]
    assert await batch.run(1) == 2
    with pytest.raises(ValueError, match="zero"):
        await batch.run(0)
