"""Waiting for something that nobody reports: asked again and again, for at most two minutes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

WAIT_S_MAX: Final = 120.0
POLL_S: Final = 0.02


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until the condition is true."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110 (nothing reports it)
            await asyncio.sleep(POLL_S)


async def until_read(
    read: Callable[[], Awaitable[T]], is_so: Callable[[T], object] = bool, *, poll_s: float = POLL_S
) -> T:
    """Read until what is read is as described, or true; what was read last."""
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            if is_so(found := await read()):
                return found
            await asyncio.sleep(poll_s)
