"""Large submissions wait for a view that falls behind."""

import asyncio

import asyncpg
from prometheus_client import REGISTRY

from fairlead_submit.domain import view_pace
from fairlead_submit.service.writers.view_window import FEW_JOBS
from tests.integration.submit.submit_and_lookout import watched

RUN = {"command": ["true"]}


async def test_a_large_request_waits_for_the_view_and_small_ones_do_not(
    fresh_database: str, valkey_url: str
) -> None:
    settings = {"view_lag_s_max": 0.01}
    waited, ended = _waited(), _ended()
    async with watched(fresh_database, valkey_url, submit_settings=settings) as submit:
        connection = await asyncpg.connect(fresh_database)
        try:
            async with connection.transaction():
                # The fold cannot store its position until this transaction ends.
                await connection.execute("SELECT FROM fairlead_lookout.progress FOR UPDATE")
                first = await submit.submit([RUN] * view_pace.JOBS_MIN)
                assert first.status_code == 200, first.text
                async with asyncio.TaskGroup() as tasks:
                    large = tasks.create_task(submit.submit([RUN] * (FEW_JOBS + 1)))
                    for jobs in (1, FEW_JOBS):
                        assert (await submit.submit([RUN] * jobs)).status_code == 200
                    array = {**RUN, "array": {"count": 100_000}}
                    submitted = await submit.submit([array])
                    assert submitted.status_code == 200, submitted.text
                    assert not large.done()
                    await connection.execute("ROLLBACK AND CHAIN")
                    answer = await large
            assert answer.status_code == 200, answer.text
        finally:
            await connection.close()
    assert _waited() == waited + 1
    assert _ended() == ended


def _waited() -> float:
    """How many requests have waited in this process."""
    return REGISTRY.get_sample_value("fairlead_submit_view_wait_seconds_count") or 0.0


def _ended() -> float:
    """How many of them until the bound."""
    return REGISTRY.get_sample_value("fairlead_submit_view_waits_ended_total") or 0.0
