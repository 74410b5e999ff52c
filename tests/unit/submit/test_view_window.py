"""Requests with many jobs wait for the view; others do not."""

import asyncio
from collections.abc import Mapping

import pytest

from fairlead_common.domain.problems import Problem
from fairlead_submit.service.writers import view_window
from fairlead_submit.service.writers.view_window import ViewWindow

MANY = 10**6
SIZE = 1_000
BYTES_MAX = 3 * SIZE


class View:
    """The positions of a view that a test moves."""

    def __init__(self) -> None:
        self.position = 0
        self.reads = 0
        self.was_read = asyncio.Event()

    async def read(self) -> Mapping[int, int]:
        self.reads += 1
        self.was_read.set()
        return {0: self.position}

    async def next_read(self) -> None:
        self.was_read.clear()
        await self.was_read.wait()


async def _append(window: ViewWindow, jobs: int, position: int, queue: str = "a") -> int:
    async with window.admit(queue, jobs, SIZE) as admission:
        admission.positions = {0: position}
    return position


async def test_a_large_request_waits_until_the_view_shows_the_one_before() -> None:
    view = View()
    window = ViewWindow(view.read, 2.0, bytes_max=BYTES_MAX)
    await _append(window, MANY, 1)
    assert view.reads == 0
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_append(window, MANY, 2))
        await view.next_read()
        await _append(window, view_window.FEW_JOBS, 3)
        await view.next_read()
        assert not waiting.done()
        view.position = 1
    assert await waiting == 2


async def test_queues_take_turns() -> None:
    view = View()
    window = ViewWindow(view.read, 2.0, bytes_max=BYTES_MAX)
    await _append(window, MANY, 1)
    order: list[str] = []

    async def append(queue: str) -> None:
        async with window.admit(queue, MANY, SIZE) as admission:
            order.append(queue)
            view.position = admission_position = len(order) + 1
            admission.positions = {0: admission_position}

    async with asyncio.TaskGroup() as tasks:
        for queue in ("a", "a", "a", "b"):
            tasks.create_task(append(queue))
        await view.next_read()
        view.position = 1
    assert order == ["a", "b", "a", "a"]


async def test_nobody_waits_longer_than_the_bound() -> None:
    view = View()
    window = ViewWindow(view.read, 2.0, bytes_max=BYTES_MAX, wait_s_max=0.3)
    await _append(window, MANY, 1)
    async with asyncio.timeout(10.0):
        assert await asyncio.gather(*(_append(window, MANY, each) for each in (2, 3))) == [2, 3]


async def test_a_request_that_fails_leaves_no_trace() -> None:
    view = View()
    window = ViewWindow(view.read, 2.0, bytes_max=BYTES_MAX)
    with pytest.raises(RuntimeError):
        async with window.admit("a", MANY, SIZE):
            raise RuntimeError("the log refused it")
    async with asyncio.timeout(10.0):
        await _append(window, MANY, 1)


async def test_what_waits_for_a_queue_is_limited_in_bytes() -> None:
    view = View()
    window = ViewWindow(view.read, 2.0, bytes_max=BYTES_MAX)
    await _append(window, MANY, 1)
    async with asyncio.TaskGroup() as tasks:
        for _ in range(BYTES_MAX // SIZE):
            tasks.create_task(_append(window, MANY, 0))
        await view.next_read()
        with pytest.raises(Problem, match="Too many requests of queue 'a'") as refused:
            await _append(window, MANY, 2)
        assert refused.value.retry_after_s
        tasks.create_task(_append(window, MANY, 0, queue="b"))
        view.position = 1
    await _append(window, MANY, 2)
