"""What one greedy caller takes from another: how long a patient caller waits for a list of jobs.

    python bench/callers.py [--jobs 200000] [--seconds 10] [--kinds tabs,exports] [--json] [--check]

Starts a Postgres, a Valkey and one web process (submit and lookout), fills the view by COPY, and
appends 200 events a second to the log. Then, for each kind of load in turn, processes of their own
put that load on the server with one token, while this process asks for one list of jobs after the
other with another token. The last line of output is one JSON object; `--check` fails when the goal
is missed: with 300 live tabs and 8 exports of one token, another's list has a p99 below 300 ms.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/callers.py`

from bench import arguments, lookout
from fairlead_standalone.servers.addresses import free_port

GOAL_MS: Final = 300
GOAL_KIND: Final = "tabs+exports"
WEB: Final = "fairlead_standalone.service.web"
LOADER: Final = "--load"
READY: Final = "ready"
TABS: Final = 300
GROUPS: Final = 8
EXPORTS: Final = 8
SUBMITS: Final = 4
COUNTS: Final = 8
FOLLOWERS: Final = 100
FAULTY_JOBS: Final = 10_000
RATE: Final = 200.0
SETTLE_S: Final = 3.0
PAUSE_S_MAX: Final = 0.05
REFUSED_PAUSE_S: Final = 0.2
"""A client that was refused waits at least so long, as clients with `Retry-After` do."""

Load = Callable[[httpx2.AsyncClient], Awaitable[None]]


async def nothing(_: httpx2.AsyncClient) -> None:
    """The list alone."""
    await asyncio.Event().wait()


async def open_tabs(client: httpx2.AsyncClient) -> None:
    """Half of the tabs show the overview, the others a job set each."""
    paths = [
        "/live/jobsets"
        if number % 2
        else f"/live/jobsets/queue-{number % lookout.QUEUES}/set-{number % lookout.SETS}"
        for number in range(TABS)
    ]
    await all_of(read_stream(client, path) for path in paths)


async def follow_events(client: httpx2.AsyncClient) -> None:
    """Event streams of a queue."""
    paths = [f"/api/v1/events?queue=queue-{n % lookout.QUEUES}" for n in range(FOLLOWERS)]
    await all_of(read_stream(client, f"{path}&follow=true") for path in paths)


async def group(client: httpx2.AsyncClient) -> None:
    """Groups that take a look at many rows each."""
    paths = ("groupBy=node", "groupBy=label.team", "groupBy=cluster,class&q=a")
    await all_of(repeat(client, f"/api/v1/jobs?{paths[n % 3]}") for n in range(GROUPS))


async def count(client: httpx2.AsyncClient) -> None:
    """Lists that count what a filter finds, and find little."""
    path = "/api/v1/jobs?include=count&label.team=nobody&limit=1"
    await all_of(repeat(client, path) for _ in range(COUNTS))


async def export(client: httpx2.AsyncClient) -> None:
    """All jobs, again and again."""
    await all_of(repeat(client, "/api/v1/jobs/export.csv") for _ in range(EXPORTS))


async def submit_faulty(client: httpx2.AsyncClient) -> None:
    """10,000 jobs with something wrong with each."""
    job = {"command": ["true"], "cpu": 1, "memory": "1Gi", "priority": "high", "labels": {"a": "b"}}
    body = json.dumps({"queue": "default", "jobSet": "s", "jobs": [job] * FAULTY_JOBS}).encode()
    await all_of(repeat(client, "/api/v1/jobs", body) for _ in range(SUBMITS))


async def submit_dry(client: httpx2.AsyncClient) -> None:
    """10,000 jobs that are right, each time."""
    job = {"command": ["true"], "cpu": "1", "memory": "1Gi", "labels": {"a": "b"}}
    body = json.dumps({"queue": "default", "jobSet": "s", "jobs": [job] * FAULTY_JOBS}).encode()
    await all_of(repeat(client, "/api/v1/jobs?dryRun=true", body) for _ in range(SUBMITS))


async def mix(client: httpx2.AsyncClient) -> None:
    """The goal's."""
    await all_of((open_tabs(client), export(client)))


KINDS: Final[Mapping[str, Load]] = {
    "nothing": nothing,
    "tabs": open_tabs,
    "events": follow_events,
    "groups": group,
    "counts": count,
    "exports": export,
    "faultySubmits": submit_faulty,
    "dryRuns": submit_dry,
    GOAL_KIND: mix,
}


async def all_of(loads: Any) -> None:
    """All of these at once; the first to fail ends the others."""
    async with asyncio.TaskGroup() as tasks:
        for load in loads:
            tasks.create_task(load)


async def repeat(client: httpx2.AsyncClient, path: str, body: bytes | None = None) -> None:
    """The same request for ever."""
    while True:
        with contextlib.suppress(httpx2.TransportError):
            method = "GET" if body is None else "POST"
            async with client.stream(method, path, content=body) as answer:
                async for _ in answer.aiter_bytes():
                    pass
                if answer.status_code in (429, 503):
                    await asyncio.sleep(REFUSED_PAUSE_S)
                else:
                    assert answer.status_code in (200, 422), answer.status_code


async def read_stream(client: httpx2.AsyncClient, path: str) -> None:
    """A stream for ever; refused or ended, it is opened again as browsers do."""
    while True:
        with contextlib.suppress(httpx2.TransportError):
            async with client.stream("GET", path) as answer:
                async for _ in answer.aiter_bytes():
                    pass
        await asyncio.sleep(1.0)


async def load(kind: str, address: str) -> None:
    """Be greedy until killed. The token comes from the environment: argv is for all to see."""
    headers = {"authorization": f"Bearer {os.environ['BENCH_TOKEN']}"}
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=address, headers=headers, timeout=120.0, limits=limits
    ) as client:
        assert (await client.get("/api/v1/jobs?limit=1")).status_code == 200
        print(READY, flush=True)
        await KINDS[kind](client)


async def patient(client: httpx2.AsyncClient, seconds: float) -> dict[str, Any]:
    """Percentiles of a list of jobs, asked for one after the other; refusals count as failures."""
    pauses = random.Random(3)
    took: list[float] = []
    refused = 0
    deadline_s = time.perf_counter() + seconds
    while time.perf_counter() < deadline_s or not took:
        number = len(took) % lookout.QUEUES
        began_s = time.perf_counter()
        answer = await client.get(f"/api/v1/jobs?queue=queue-{number}&state=SUCCEEDED,FAILED")
        took.append(1000 * (time.perf_counter() - began_s))
        refused += answer.status_code != 200
        await asyncio.sleep(pauses.uniform(0, PAUSE_S_MAX))
    return lookout.percentiles(took) | {"refused": refused}


async def run(given: argparse.Namespace, folder: Path, database: str, redis: str) -> dict[str, Any]:
    """Fill the view, start the server, and put every kind of load on it."""
    _, log = await lookout.fill_view(database, given.jobs)
    await log.close()
    found: dict[str, Any] = {}
    async with serving(folder, database, redis) as (address, admin):
        tokens = [await make_token(address, admin, name) for name in ("greedy", "patient")]
        headers = {"authorization": f"Bearer {tokens[1]}"}
        async with (
            lookout.writing(database, RATE),
            httpx2.AsyncClient(base_url=address, headers=headers, timeout=120.0) as client,
        ):
            for kind in given.kinds:
                lookout.log_progress(kind)
                argv = (str(Path(__file__)), LOADER, kind, "--address", address)
                environment = {**os.environ, "BENCH_TOKEN": tokens[0]}
                async with loading(argv, environment) as greedy:
                    await asyncio.sleep(SETTLE_S)
                    found[kind] = await patient(client, given.seconds)
                    assert greedy.returncode is None, f"the load {kind} has failed"
                lookout.log_progress(json.dumps(found[kind]))
                await asyncio.sleep(1.0)
    return {"jobs": given.jobs, "kinds": found}


@contextlib.asynccontextmanager
async def loading(
    words: Sequence[str], environment: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that puts load on the server, once it has had its first answer."""
    read, write = os.pipe()
    with os.fdopen(read, "rb") as answers, os.fdopen(write, "wb") as output:
        async with lookout.running(words, environment, output) as child:
            line = await asyncio.to_thread(answers.readline)
            if line.strip() != READY.encode():
                await child.wait()
                raise RuntimeError((line + os.read(answers.fileno(), 65_536)).decode())
            yield child


async def make_token(address: str, admin: str, name: str) -> str:
    """A token of this name that may look at everything and submit."""
    headers = {"authorization": f"Bearer {admin}"}
    async with httpx2.AsyncClient(base_url=address, headers=headers) as client:
        answer = await client.post(
            "/api/v1/tokens", json={"name": name, "roles": ["viewer", "submitter"]}
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])


@contextlib.asynccontextmanager
async def serving(folder: Path, database: str, redis: str) -> AsyncIterator[tuple[str, str]]:
    """The address of one web process, and the first token."""
    address = f"http://127.0.0.1:{free_port()}"
    data = folder / "data"
    data.mkdir()
    environment = {
        **os.environ,
        "FAIRLEAD_DATABASE_URL": database,
        "FAIRLEAD_LOG_URL": database,
        "FAIRLEAD_REDIS_URL": redis,
        "FAIRLEAD_DATA": str(data),
        "FAIRLEAD_SIGNING_KEY": secrets.token_hex(16),
        "FAIRLEAD_HTTP_PORT": address.rpartition(":")[2],
    }
    with (folder / "web.log").open("wb") as output:
        async with (
            lookout.running(("-m", WEB), environment, output) as child,
            httpx2.AsyncClient(base_url=address) as client,
        ):
            while True:
                assert child.returncode is None, (folder / "web.log").read_text()
                with contextlib.suppress(httpx2.TransportError):
                    if (await client.get("/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.1)
            yield address, (data / "token").read_text().strip()


def main() -> None:
    """Read the arguments, start everything, measure."""
    parser = arguments.make_parser(__doc__, jobs=200_000, writes=False)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each kind of load")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of load, with commas")
    parser.add_argument("--check", action="store_true", help="fail when the goal is missed")
    parser.add_argument(LOADER, metavar="KIND", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load:
        asyncio.run(load(given.load, given.address))
        return
    given.kinds = given.kinds.split(",")
    with lookout.servers("callers") as (folder, database, redis):
        found = asyncio.run(run(given, folder, database, redis))
    reached = found["kinds"].get(GOAL_KIND)
    found |= {"goalMs": GOAL_MS, "met": reached is not None and reached["p99Ms"] < GOAL_MS}
    arguments.print_found(given, found)
    if given.check and not found["met"]:
        sys.exit(f"{GOAL_KIND}: the p99 of the list is not below {GOAL_MS} ms")


if __name__ == "__main__":
    main()
