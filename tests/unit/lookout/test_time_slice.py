"""How the fold works beside others: it gives way to them, and outlasts what it needs being away."""

import asyncio

import asyncpg
import pytest

from fairlead_common.db.connection_pool import DatabaseUnavailable
from fairlead_common.domain.errors import LogUnavailable, PositionExpired
from fairlead_common.service import clock
from fairlead_lookout.store.fold.time_slice import ITEMS_PER_CHECK, SLICE_S, TimeSlice
from fairlead_lookout.store.outages import Outages


class Ended(Exception):
    """What is no outage."""


async def test_long_work_yields_to_other_tasks_and_keeps_its_order() -> None:
    turns_of_others = 0

    async def other() -> None:
        nonlocal turns_of_others
        while True:
            turns_of_others += 1
            await asyncio.sleep(0)

    def slow(number: int) -> int:
        if number % ITEMS_PER_CHECK == 0:
            over_s = clock.monotonic_s() + SLICE_S
            while clock.monotonic_s() < over_s:
                pass
        return -number

    beside = asyncio.create_task(other())
    made = await TimeSlice().map_all(slow, range(10 * ITEMS_PER_CHECK))
    beside.cancel()
    assert made == [-number for number in range(10 * ITEMS_PER_CHECK)]
    assert turns_of_others >= 9


async def test_an_outage_within_the_bound_is_waited_out() -> None:
    outages = Outages("the fold", away_s=60.0)
    failures: list[str | None] = []
    ends = iter(
        [
            LogUnavailable("no broker"),
            PositionExpired("fairlead.jobs", 0, 1, 2),
            OSError("refused"),
            Ended(),
        ]
    )

    async def session() -> None:
        failures.append(outages.problem)
        outages.report_progress()
        raise next(ends)

    with pytest.raises(Ended):
        await outages.run_sessions(session)
    assert failures == [
        "the fold has not started",
        "the fold waits: no broker",
        None,
        "the fold waits: refused",
    ]


@pytest.mark.parametrize(
    ("away", "raised"),
    [(LogUnavailable("no broker"), LogUnavailable), (OSError(), DatabaseUnavailable)],
)
async def test_an_outage_beyond_the_bound_ends_the_worker(
    away: Exception, raised: type[Exception]
) -> None:
    async def session() -> None:
        raise away

    with pytest.raises(raised, match="the fold: unavailable for"):
        await Outages("the fold", away_s=-1.0).run_sessions(session)


async def test_a_full_disk_is_waited_for_beyond_any_bound() -> None:
    outages = Outages("the fold", away_s=0.0)
    ends = iter([asyncpg.DiskFullError("could not extend file"), Ended()])
    found: list[str | None] = []

    async def session() -> None:
        found.append(outages.disk_full)
        raise next(ends)

    with pytest.raises(Ended):
        await outages.run_sessions(session)
    assert found == [
        None,
        "The disk of Postgres is full, nothing was written: could not extend file",
    ]
    outages.report_progress()
    assert outages.disk_full is None
