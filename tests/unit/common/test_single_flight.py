"""What many ask at the same time is asked once, and answered to each."""

import asyncio

import pytest

from fairlead_common.service.single_flight import SingleFlight


class Oracle:
    """Says how often it was asked, once it may speak."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_speak = asyncio.Event()
        self._once: SingleFlight[str, int] = SingleFlight()

    async def ask(self, key: str = "key") -> "asyncio.Task[int]":
        """Somebody who has asked and waits."""
        task = asyncio.create_task(self._once.run(key, self._answer))
        await asyncio.sleep(0)
        return task

    async def _answer(self) -> int:
        self.asked += 1
        answer = self.asked
        await self.may_speak.wait()
        if answer == 13:
            raise ConnectionError("the oracle is away")
        return answer


async def test_concurrent_calls_share_one_result() -> None:
    oracle = Oracle()
    first, second = await oracle.ask(), await oracle.ask()
    oracle.may_speak.set()
    assert (await first, await second) == (1, 1)


async def test_a_later_call_executes_again() -> None:
    oracle = Oracle()
    oracle.may_speak.set()
    assert [await (await oracle.ask()) for _ in range(2)] == [1, 2]


async def test_calls_with_other_keys_run_concurrently() -> None:
    oracle = Oracle()
    one, other = await oracle.ask("one"), await oracle.ask("other")
    oracle.may_speak.set()
    assert (await one, await other) == (1, 2)


async def test_a_cancelled_call_does_not_cancel_the_others() -> None:
    oracle = Oracle()
    first, second = await oracle.ask(), await oracle.ask()
    first.cancel()
    await asyncio.wait([first])
    oracle.may_speak.set()
    assert await second == 1


async def test_a_failure_is_raised_to_all_callers_and_not_cached() -> None:
    oracle = Oracle()
    oracle.asked = 12
    both = await oracle.ask(), await oracle.ask()
    oracle.may_speak.set()
    for each in both:
        with pytest.raises(ConnectionError, match="is away"):
            await each
    assert await (await oracle.ask()) == 14
