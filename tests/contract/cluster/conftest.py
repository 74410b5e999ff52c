"""`bed`: each kind of cluster in turn, opened; whatever still runs at the end is stopped."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fairlead_common.service import clock
from fairlead_executor.domain import pods
from tests.contract.cluster.beds import Bed, ProcessBed, SimulatedBed, until_run

KINDS: dict[str, Callable[[Path], Bed]] = {"simulated": SimulatedBed, "process": ProcessBed}


@pytest.fixture(params=KINDS)
async def bed(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bed]:
    """One cluster."""
    async for each in opened(KINDS[request.param](tmp_path)):
        yield each


@pytest.fixture
async def lasting_bed(tmp_path: Path) -> AsyncIterator[Bed]:
    """A cluster that outlives its executor."""
    async for each in opened(ProcessBed(tmp_path)):
        yield each


async def opened(a_bed: Bed) -> AsyncIterator[Bed]:
    """The bed open, and in the end empty and closed."""
    await a_bed.open()
    yield a_bed
    cluster = a_bed.cluster
    cluster.changes(clock.now_ms())
    for run, pod in list(cluster.pods.items()):
        if pod.live:
            cluster.stop(run, 0, pods.stopped("the test is over"))
            await until_run(cluster, run, lambda pod: not pod.live)
    await a_bed.close()
