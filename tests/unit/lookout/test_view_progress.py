"""Waiting for the view: woken by what is new, never set back by what was read a while ago."""

import asyncio

import pytest

from fairlead_common.domain import ids
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
    with progress.watch(None) as watch:
        watch.forget()
        progress.advance({3: 2})
        async with asyncio.timeout(120):
            await progress.wait_for_change(seen, 3_600.0)
            await progress.wait_for_watch(watch, 3_600.0)


SET = ("q", "s")
PARTITION = ids.job_set_partition(*SET)


@pytest.mark.parametrize(
    ("positions", "job_sets", "noticed"),
    [
        ({PARTITION: 2}, {SET}, True),
        ({PARTITION: 1}, {SET}, True),  # a part of a bulk request: the position stays
        ({PARTITION: 2}, {("q", "another")}, False),
        ({PARTITION: 2}, None, True),  # another process has folded it
        ({PARTITION: 1}, None, False),
        ({PARTITION + 1: 2}, None, False),
    ],
)
async def test_a_watch_of_a_job_set_notices_what_can_have_changed_it(
    positions: dict[int, int], job_sets: set[tuple[str, str]] | None, *, noticed: bool
) -> None:
    progress = ViewProgress(Table())
    progress.advance({PARTITION: 1})
    with progress.watch(SET) as watch:
        progress.advance(positions, job_sets)
        assert watch.has_changed is noticed
        watch.forget()
        assert not watch.has_changed
