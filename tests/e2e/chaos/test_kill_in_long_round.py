"""The leader is killed (`SIGKILL`) in the middle of a round that lasts: a standby takes over."""

import asyncio
import signal
import sys
from asyncio.subprocess import Process

from fairlead_common.domain.records import events as ev
from fairlead_common.service import clock
from tests.e2e.chaos import long_round_leader
from tests.e2e.chaos.scheduler_process import SCHEDULER, start_scheduler
from tests.integration.scheduler.world import World, job_id, stands_by, submitted

PATIENCE_S = 120.0
JOBS = 20
TAKEOVER_S_MAX = 15.0
"""What docs/operating.md says of a leader that is killed, frozen or cut off."""


async def wait_for_long_round(leader: Process) -> None:
    """Return once the leader is in its long round."""
    assert leader.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        async for line in leader.stdout:
            if line.decode().strip() == long_round_leader.BEGUN:
                return
    raise AssertionError("the leader ended before its long round")


async def test_a_leader_killed_in_a_long_round_is_replaced_and_each_job_runs_once(
    fresh_database: str, valkey_url: str
) -> None:
    names = [f"job-{number}" for number in range(JOBS)]
    async with (
        World.open(fresh_database) as world,
        start_scheduler(long_round_leader.__name__, fresh_database, valkey_url) as first,
    ):
        await world.report_nodes(count=JOBS)
        await world.tell(submitted("before"))
        await world.first(ev.JobRunLeased, "before")
        async with start_scheduler(SCHEDULER, fresh_database, valkey_url) as second:
            await stands_by(fresh_database)
            await world.tell(*(submitted(name) for name in names))
            await wait_for_long_round(first)
            killed = await world.next_leaders(1)
            first.kill()
            began_s = clock.monotonic_s()
            async with asyncio.timeout(TAKEOVER_S_MAX):
                while await world.next_leaders(1) == killed:
                    pass
            assert await first.wait() == -signal.SIGKILL
            sys.stdout.write(f"new leader after {clock.monotonic_s() - began_s:.1f} s\n")
            await world.first(ev.JobRunLeased, names[-1])
            assert second.returncode is None
            runs = [*names, "before"]
            await world.tell(*(ev.JobRunSucceeded(job_id=job_id(name), run=1) for name in runs))
            seen = await world.events(
                lambda events: (
                    sum(isinstance(event, ev.JobSucceeded) for event in events) >= len(runs)
                )
            )
    wanted = sorted(job_id(name) for name in runs)
    for kind in (ev.JobRunLeased, ev.JobSucceeded):
        assert sorted(event.job_id for event in seen if isinstance(event, kind)) == wanted
    assert not any(isinstance(event, ev.JobRequeued) for event in seen)
