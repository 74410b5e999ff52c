"""Several processes share the work and add to the same rows, and any of them answers alike."""

import asyncio
import random
import re

import asyncpg
import msgspec

from fairlead_common.domain.records import events
from fairlead_common.log.memory_log import MemoryCore
from fairlead_lookout.store.fold.partition_locks import BALANCE_S
from tests.integration.lookout.lookout_harness import WAIT_S, running
from tests.unit.lookout.builders import job_id, submitted

ASKED = (
    "/jobs?limit=1000",
    "/jobs?state=CANCELLED&queue=q1",
    "/jobs?groupBy=queue,state",
    "/jobs?groupBy=label.odd",
    "/jobs?include=count&label.odd=1",
    "/jobsets?limit=1000",
    "/jobsets/q1/set-1",
    "/jobsets/q1/set-1/events",
    "/events?queue=q1",
    f"/jobs/{job_id('j1', 'set-1', 'q1')}",
)
ETA = re.compile(r',"eta":"[^"]*"')
"""When a job set may be done: reckoned from the moment of asking."""
AGREES = """
SELECT * FROM fairlead_lookout.queue_counts q
FULL JOIN (SELECT queue, class, state, count(*) AS jobs FROM fairlead_lookout.jobs
           GROUP BY queue, class, state) j USING (queue, class, state)
WHERE coalesce(q.jobs, 0) <> coalesce(j.jobs, 0)
"""


async def test_two_processes_share_counters_and_give_equal_responses(
    fresh_database: str, valkey_url: str
) -> None:
    chance = random.Random(5)
    core = MemoryCore()
    async with (
        running(fresh_database, valkey_url, core) as one,
        running(fresh_database, valkey_url, core) as two,
    ):
        async with asyncio.timeout(WAIT_S):
            one_moves, two_moves = one.service.deps.progress, two.service.deps.progress
            while not (one_moves.own_partitions and two_moves.own_partitions):  # noqa: ASYNC110
                await asyncio.sleep(BALANCE_S / 10)
        known: dict[tuple[str, str], int] = {}
        states: dict[tuple[str, str], str] = {}
        for number in range(150):
            queue, name = f"q{chance.randrange(3)}", f"set-{chance.randrange(12)}"
            begin = known.get((queue, name), 0)
            known[queue, name] = begin + chance.randint(1, 5)
            new = [
                msgspec.structs.replace(
                    submitted(f"j{each}", labels={"odd": "1"} if each % 2 else {}),
                    job_id=job_id(f"j{each}", name, queue),
                )
                for each in range(begin, known[queue, name])
            ]
            which = job_id(f"j{chance.randrange(known[queue, name])}", name, queue)
            gone = events.JobCancelRequested(job_id=which)
            after = states[queue, name] = await one.append_events(
                *new, gone, queue=queue, job_set=name
            )
            if number % 10 == 0:
                await two.read("/jobsets", after)
        for after in states.values():
            await one.read("/jobsets", after)
            await two.read("/jobsets", after)
        for path in ASKED:
            first, second = [
                ETA.sub("", (await harness.client.get(f"/api/v1{path}")).text)
                for harness in (one, two)
            ]
            assert first == second, path
    connection = await asyncpg.connect(fresh_database)
    try:
        assert not await connection.fetch(AGREES)
    finally:
        await connection.close()
