"""Places that callers are given in turn."""

import asyncio
from collections.abc import Callable

import pytest

from fairlead_common.domain.problems import Problem
from fairlead_common.web.fair_semaphore import CALLER, FairSemaphore, OpenRequestLimit


class Work:
    """Requests of callers that hold a place until they are told to end; `order`: who was served."""

    def __init__(self, shares: FairSemaphore) -> None:
        self._shares = shares
        self._ends: list[asyncio.Event] = []
        self.order: list[str] = []

    def begin(self, caller: str) -> "asyncio.Task[None]":
        """One more request of this caller."""
        return asyncio.create_task(self._hold(caller))

    async def end_one(self) -> None:
        """The request that was served first ends, and the next one is served."""
        self._ends.pop(0).set()
        await settled()

    async def _hold(self, caller: str) -> None:
        CALLER.set(caller)
        async with self._shares.place():
            self.order.append(caller)
            end = asyncio.Event()
            self._ends.append(end)
            await end.wait()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_caller_with_one_request_comes_before_the_many_of_another() -> None:
    work = Work(FairSemaphore("queries", places=2, per_caller=2, waiting_max=100))
    tasks = [work.begin("greedy") for _ in range(20)]
    await settled()
    tasks.append(work.begin("patient"))
    await settled()
    assert work.order == ["greedy", "greedy"]
    await work.end_one()
    assert work.order == ["greedy", "greedy", "patient"]
    while work.order.count("greedy") < 20:
        await work.end_one()
    await work.end_one()
    await work.end_one()
    await asyncio.gather(*tasks)


async def test_a_caller_never_has_more_than_its_share() -> None:
    work = Work(FairSemaphore("queries", places=3, per_caller=2, waiting_max=100))
    tasks = [work.begin("greedy") for _ in range(5)]
    await settled()
    assert work.order == ["greedy", "greedy"]
    tasks.append(work.begin("patient"))
    await settled()
    assert work.order == ["greedy", "greedy", "patient"]
    for _ in tasks:
        await work.end_one()
    await asyncio.gather(*tasks)


async def test_a_caller_with_too_many_waiting_requests_is_refused_alone() -> None:
    work = Work(FairSemaphore("exports", places=1, per_caller=1, waiting_max=2))
    tasks = [work.begin("greedy") for _ in range(3)]
    await settled()
    with pytest.raises(Problem) as refused:
        await work.begin("greedy")
    assert refused.value.slug == "too-many-requests"
    assert "greedy has 2 waiting exports" in refused.value.detail
    tasks.append(work.begin("patient"))
    for _ in range(4):
        await settled()
        await work.end_one()
    await asyncio.gather(*tasks)
    assert work.order == ["greedy", "patient", "greedy", "greedy"]


@pytest.mark.parametrize("is_served", [False, True])
async def test_a_cancelled_request_releases_its_slot(is_served: bool) -> None:
    shares = FairSemaphore("queries", places=1, per_caller=1, waiting_max=10)
    work = Work(shares)
    async with shares.place():
        given_up, other = work.begin("b"), work.begin("c")
        await settled()
        if not is_served:
            given_up.cancel()
            await settled()
    given_up.cancel()  # served, it cannot have gone on yet
    await settled()
    assert work.order == ["c"]
    await work.end_one()
    await other


def test_open_places_are_limited_per_caller_and_in_all() -> None:
    shares = OpenRequestLimit("streams", "streamsPerCallerMax", places=3, per_caller=2)

    def refusal(open_one: Callable[[], object]) -> str:
        with pytest.raises(Problem) as refused:
            open_one()
        return refused.value.slug

    CALLER.set("greedy")
    held = [shares.take(), shares.take()]
    assert refusal(shares.take) == "too-many-requests"
    CALLER.set("patient")
    held.append(shares.take())
    assert refusal(shares.check) == "unavailable"
    for caller in held:
        shares.give_back(caller)
    assert shares.taken == 0
