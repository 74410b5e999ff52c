"""A scheduler without compiled kernels works at once, and with them later, in the same process."""

import asyncio
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

import psutil
import pytest

from fairlead_common.domain.records import events as ev
from fairlead_scheduler.engine.compiler.decorators import is_compiled
from fairlead_scheduler.kernels import kernel_cache
from tests.e2e.chaos.scheduler_process import SCHEDULER, start_scheduler
from tests.integration.scheduler.world import PATIENCE_S, World, submitted


async def logged(process: asyncio.subprocess.Process, text: str) -> None:
    """Read what the process logs until it contains this text."""
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_S):
        while text not in (line := (await process.stderr.readline()).decode()):
            assert line, f"the scheduler ended and has not logged {text!r}"


@pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")
async def test_a_scheduler_begins_in_python_and_goes_on_with_compiled_kernels(
    fresh_database: str, valkey_url: str, tmp_path: Path
) -> None:
    folder = kernel_cache.folder()
    assert folder is not None
    shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("ready"))
    kernels = {"NUMBA_CACHE_DIR": str(tmp_path)}
    async with (
        World.open(fresh_database) as world,
        start_scheduler(SCHEDULER, fresh_database, valkey_url, kernels, stderr=PIPE) as process,
    ):
        await world.report_nodes()
        await logged(process, "half a minute, once per version")
        (compiler,) = await asyncio.to_thread(psutil.Process(process.pid).children)
        compiler.suspend()
        await world.tell(submitted("a"))
        await world.first(ev.JobRunLeased, "a")
        leader = await world.next_leaders(1)
        compiler.resume()
        await logged(process, "kernels are compiled")
        await world.tell(submitted("b"))
        await world.first(ev.JobRunLeased, "b")
        assert await world.next_leaders(1) == leader
