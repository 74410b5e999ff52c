"""Two schedulers on one log: the leader is stopped, another one leads, and the first goes on."""

import asyncio
import signal
import sys

from fairlead_common.domain.records import events as ev
from fairlead_common.service import clock
from tests.e2e.chaos.scheduler_process import SCHEDULER, start_scheduler
from tests.integration.scheduler.world import World, job_id, stands_by, submitted

PATIENCE_S = 120.0
JOBS = 20


async def test_a_stopped_leader_is_replaced_and_leases_nothing_afterwards(
    fresh_database: str, valkey_url: str
) -> None:
    async with (
        World.open(fresh_database) as world,
        start_scheduler(SCHEDULER, fresh_database, valkey_url) as first,
    ):
        await world.report_nodes(count=JOBS)
        await world.tell(submitted("before"))
        await world.first(ev.JobRunLeased, "before")
        async with start_scheduler(SCHEDULER, fresh_database, valkey_url) as second:
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
