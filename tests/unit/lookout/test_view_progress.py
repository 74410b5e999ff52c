"""Waiting for the view: woken by what is new, never set back by what was read a while ago."""

import asyncio

from fairlead_lookout.store.view_progress import ViewProgress


class Table:
    """A pool that answers with the positions it is told, when it is told."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []
        self.read = asyncio.Event()
        self.answer = asyncio.Event()
        self.answer.set()

    async def fetch(self, _: str) -> list[tuple[int, int]]:
        """The rows as they were when it was asked."""
        rows = self.rows
        self.read.set()
        await self.answer.wait()
        return rows


async def test_a_waiter_is_woken_by_the_fold() -> None:
    progress = ViewProgress(Table())
    waiting = asyncio.create_task(progress.wait_for({3: 5}, 30.0))
    for position in (1, 4, 5):
        await asyncio.sleep(0)
        progress.advance({3: position})
    assert await waiting


async def test_a_wait_for_a_position_that_is_not_reached_ends() -> None:
    progress = ViewProgress(Table())
    progress.advance({3: 4})
    assert not await progress.wait_for({3: 5}, 0.01)
    assert await progress.wait_for({3: 4}, 0.0)
    assert await progress.wait_for({}, 0.0)


async def test_positions_read_before_a_batch_do_not_move_the_view_back() -> None:
    table = Table()
    progress = ViewProgress(table)
    table.rows = [(3, 1)]
    table.answer.clear()
    refreshing = asyncio.create_task(progress.refresh())
    await table.read.wait()
    progress.advance({3: 9})
    table.answer.set()
    await refreshing
    assert progress.positions == {3: 9}


async def test_positions_lost_in_a_database_crash_are_waited_for_again() -> None:
    progress = ViewProgress(Table())
    progress.advance({3: 9, 4: 7})
    progress.reset({3: 5})
    assert not await progress.wait_for({3: 9}, 0.0)
    assert await progress.wait_for({3: 5, 4: 7}, 0.0)


async def test_a_change_between_reading_and_waiting_is_not_missed() -> None:
    progress = ViewProgress(Table())
    progress.advance({3: 1})
    seen = progress.positions
    progress.advance({3: 2})
    async with asyncio.timeout(120):
        await progress.wait_for_change(seen, 3_600.0)
