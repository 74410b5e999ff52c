"""How far open pages are behind the log, while lookout folds 2,000 events a second.

    python bench/live_pages.py [--jobs 200000] [--pages 200] [--rate 2000] [--updates 60] [--json]

Starts a Postgres, a Valkey and one lookout process of its own, fills the view, and lets a process
of its own append whole lives of jobs to the log at the rate given. `--pages` streams of live pages
are open: half of them are the overview, each of the others is one of the job sets of these jobs.
Then a job is appended to one more job set, whose page is open too, again and again at random
moments: an update takes from the call of append to the end of the message with the new number of
jobs. All of it shares two cores. What it does is written to stderr; the last line of output is one
JSON object.
"""

import argparse
import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/live_pages.py`

from bench import arguments, fold, lookout
from fairlead_common.domain import ids
from fairlead_common.domain.records import events
from fairlead_common.log.protocol import Producer
from fairlead_standalone.servers.addresses import free_port

GOAL_MS: Final = 1_000
UPDATE_S_MAX: Final = 30.0
PAUSE_S_MAX: Final = 1.0
SETTLE_S: Final = 5.0
QUEUE: Final = "marker"
JOB_SET: Final = "page"
UNLIMITED: Final = httpx2.Limits(max_connections=None)


def main() -> None:
    """Read the arguments, start everything, measure."""
    parser = arguments.make_parser(__doc__, jobs=200_000)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--updates", type=int, default=60, help="of the page that is measured")
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: lookout.CORES])
    with lookout.servers("live-pages") as (folder, database, redis):
        found = asyncio.run(run(given, database, redis, folder))
    arguments.print_found(given, found)


async def run(given: argparse.Namespace, database: str, redis: str, folder: Path) -> dict[str, Any]:
    """Fill the view, open the pages, measure updates of one."""
    _, log = await lookout.fill_view(database, given.jobs)
    producer = await log.producer("marker")
    address = f"http://127.0.0.1:{free_port()}"
    async with (
        lookout.serving(address, database, redis, folder) as client,
        lookout.writing(database, given.rate),
    ):
        await append_job(producer, 0)
        await asyncio.sleep(SETTLE_S)  # now each job set has jobs
        await lookout.lag_of(client, log)
        messages = [0] * given.pages
        async with (
            httpx2.AsyncClient(base_url=address, timeout=None, limits=UNLIMITED) as tabs,
            open_pages(tabs, messages),
            tabs.stream("GET", page_path()) as page,
        ):
            await asyncio.sleep(SETTLE_S)
            began_s, before, sent = time.perf_counter(), lookout.cpu_s(), sum(messages)
            took = await measure_updates(page, producer, given.updates)
            passed_s, after = time.perf_counter() - began_s, lookout.cpu_s()
            received = sum(messages) - sent
    await log.close()
    updates = lookout.percentiles(took)
    return {
        "pages": given.pages,
        "pagesWithoutMessages": messages.count(0),
        "eventsPerSecond": given.rate,
        "messagesPerSecond": round(received / passed_s, 1),
        "cores": {name: round((after[name] - before[name]) / passed_s, 2) for name in after},
        "goalMs": GOAL_MS,
        "met": updates["p99Ms"] < GOAL_MS and 0 not in messages,
        "updates": updates,
    }


def page_path(queue: str = QUEUE, job_set: str = JOB_SET) -> str:
    """The stream of the live page of a job set."""
    return f"/live/jobsets/{queue}/{job_set}"


async def append_job(producer: Producer, number: int) -> None:
    """Submit one more job of the job set that is measured."""
    partition = ids.job_set_partition(QUEUE, JOB_SET)
    job_id = ids.client_job_ids(partition, QUEUE, JOB_SET, [str(number)])[0]
    spec = msgspec.Raw(fold.SPEC)
    job = events.JobSubmitted(job_id=job_id, shape=lookout.SHAPE, spec=spec, digest="d" * 32)
    await producer.append(events.records(QUEUE, JOB_SET, "bench", [job]))


@contextlib.asynccontextmanager
async def open_pages(client: httpx2.AsyncClient, messages: list[int]) -> AsyncIterator[None]:
    """As many streams as `messages` has numbers, in which their messages are counted."""
    async with asyncio.TaskGroup() as tasks:
        readers = [
            tasks.create_task(count_messages(client, number, messages))
            for number in range(len(messages))
        ]
        yield
        for reader in readers:
            reader.cancel()


async def count_messages(client: httpx2.AsyncClient, number: int, messages: list[int]) -> None:
    """Read one stream; one that the server ends is an error."""
    job_set = number // 2 % fold.SETS
    of_job_set = page_path(f"queue-{job_set % fold.QUEUES}", f"set-{job_set}")
    path = of_job_set if number % 2 else "/live/jobsets"
    async with client.stream("GET", path) as answer:
        assert answer.status_code == 200, answer.status_code
        before = ""
        async for line in answer.aiter_lines():
            messages[number] += not line and before.startswith("data:")
            before = line
    raise RuntimeError(f"the server has ended the stream {path}")


async def measure_updates(page: httpx2.Response, producer: Producer, updates: int) -> list[float]:
    """How long each of these updates took, in ms."""
    chance = random.Random(1)
    lines = page.aiter_lines()
    await read_until(lines, "1 job")
    took: list[float] = []
    for number in range(1, updates + 1):
        await asyncio.sleep(chance.uniform(0, PAUSE_S_MAX))
        began_s = time.perf_counter()
        await append_job(producer, number)
        async with asyncio.timeout(UPDATE_S_MAX):
            await read_until(lines, f"{number + 1} jobs")
        took.append(1000 * (time.perf_counter() - began_s))
    return took


async def read_until(lines: AsyncIterator[str], text: str) -> None:
    """Read to the end of the message that contains this text."""
    found = False
    async for line in lines:
        found = found or text in line
        if found and not line:
            return
    raise RuntimeError("the server has ended the stream of the page that is measured")


if __name__ == "__main__":
    main()
