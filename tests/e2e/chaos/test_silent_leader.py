"""Two schedulers on one log: the leader is stopped, another one leads, and the first goes on."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead_common.domain.records import events as ev
from fairlead_common.service import clock
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service.testing import KERNELS
from tests.integration.scheduler.world import World, job_id, stands_by, submitted

PATIENCE_S = 120.0
JOBS = 20


@asynccontextmanager
async def scheduler(database: str, valkey: str) -> AsyncIterator[Process]:
    """A scheduler process; killed at the end of the block, if it is still there."""
    ours = {
        "FAIRLEAD_LOG_URL": database,
        "FAIRLEAD_DATABASE_URL": database,
        "FAIRLEAD_REDIS_URL": valkey,
        "FAIRLEAD_HTTP_PORT": str(free_port()),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "fairlead_scheduler"),
        env={**os.environ, **KERNELS, **ours},
        stderr=DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_stopped_leader_is_replaced_and_leases_nothing_afterwards(
    fresh_database: str, valkey_url: str
) -> None:
    async with (
        World.open(fresh_database) as world,
        scheduler(fresh_database, valkey_url) as first,
    ):
        await world.report_nodes(count=JOBS)
        await world.tell(submitted("before"))
        await world.first(ev.JobRunLeased, "before")
        async with scheduler(fresh_database, valkey_url) as second:
            await stands_by(fresh_database)
            first.send_signal(signal.SIGSTOP)
            began_s = clock.monotonic_s()
            names = [f"job-{number}" for number in range(JOBS)]
            await world.tell(*(submitted(name) for name in names))
            await world.first(ev.JobRunLeased, names[-1])
            sys.stdout.write(f"new leader's first lease: {clock.monotonic_s() - began_s:.1f} s\n")
            first.send_signal(signal.SIGCONT)
            async with asyncio.timeout(PATIENCE_S):
                assert await first.wait() != 0, "the deposed leader has to end by itself"
            await world.tell(submitted("after"))
            await world.first(ev.JobRunLeased, "after")
            assert second.returncode is None
        seen = await world.events(lambda events: bool(events))
        leased = [event.job_id for event in seen if isinstance(event, ev.JobRunLeased)]
        wanted = [job_id(name) for name in ("before", *names, "after")]
        assert sorted(leased) == sorted(wanted), "a job was leased twice, or not at all"
