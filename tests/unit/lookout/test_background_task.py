"""Work behind other work: in its order, and never lost sight of."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from fairlead_lookout.service.background_task import BackgroundTask


class Trouble(Exception):
    """What a piece of work may end with."""


async def test_a_task_starts_when_the_previous_one_has_ended() -> None:
    messages: list[str] = []
    gate = asyncio.Event()

    async def work(name: str) -> None:
        messages.append(f"{name} begins")
        await gate.wait()
        messages.append(f"{name} ends")

    async with BackgroundTask() as background:
        await background.start(work("one"))
        await asyncio.sleep(0)
        assert messages == ["one begins"]
        gate.set()
        await background.start(work("two"))
        assert messages == ["one begins", "one ends"]
    assert messages == ["one begins", "one ends", "two begins", "two ends"]


async def test_an_error_of_the_task_is_raised_when_the_next_one_starts() -> None:
    messages: list[str] = []

    async def fail() -> None:
        raise Trouble

    async def work() -> None:
        messages.append("begun")

    async def all_of_it(*pieces: Coroutine[Any, Any, None]) -> None:
        async with BackgroundTask() as background:
            for piece in pieces:
                await background.start(piece)

    with pytest.raises(Trouble):
        await all_of_it(fail(), work())
    assert not messages
    with pytest.raises(Trouble):
        await all_of_it(work(), fail())
    assert messages == ["begun"]


async def test_an_error_in_the_block_cancels_the_task() -> None:
    messages: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            messages.append("ended")

    async def fails_meanwhile() -> None:
        async with BackgroundTask() as background:
            await background.start(work())
            await asyncio.sleep(0)
            raise Trouble

    with pytest.raises(Trouble):
        await fails_meanwhile()
    assert messages == ["ended"]


async def test_cancelling_the_wait_cancels_the_task() -> None:
    messages: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            messages.append("ended")

    async def waits() -> None:
        async with BackgroundTask() as background:
            await background.start(work())

    waiting = asyncio.create_task(waits())
    for _ in range(3):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert messages == ["ended"]
