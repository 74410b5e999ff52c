"""How many jobs one submit process takes, with a durable append to the log in Postgres.

    python bench/submit.py [--jobs 200000] [--singles 20000]

Starts a Postgres (fsync on) and `python -m fairlead_submit` of its own, and sends, one after the
other: batches of jobs that are equal but for their clientId; batches of jobs that each have a
command of their own; pod specs that each have arguments of their own; single-job requests over 64
connections. The last line is one JSON object. `PerCpuSecond` counts the CPU time of the web
process alone; clients, Postgres and the web process share this machine's cores. So the client is no
more than a protocol that sends requests made beforehand and looks at the status of each answer.
"""

import argparse
import asyncio
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import uvloop

from fairlead_common import db
from fairlead_standalone.processes.child_process import RunningProcess, die_with_parent
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import Postgres
from fairlead_submit.store import configuration_store, schema, token_store

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/submit.py`

from bench import folders

QUEUE = "bench"


class Server(NamedTuple):
    port: int
    token: str
    pid: int


class Measured(NamedTuple):
    wall_s: float
    cpu_s: float
    latencies_ms: list[float]


def equal_job(number: int) -> dict[str, object]:
    return {
        "clientId": f"trial-{number}",
        "image": "python:3.12",
        "command": ["python", "train.py"],
        "cpu": "1",
        "memory": "2Gi",
        "labels": {"team": "vision"},
    }


def own_command(number: int) -> dict[str, object]:
    return {
        "clientId": f"trial-{number}",
        "image": "python:3.12",
        "command": ["python", "train.py", "--seed", str(number)],
        "env": {"TRIAL": str(number)},
        "cpu": "1",
        "memory": "2Gi",
    }


def own_spec(number: int) -> dict[str, object]:
    requests = {"cpu": "1", "memory": "2Gi"}
    container = {
        "name": "main",
        "image": "python:3.12",
        "command": ["python", "train.py"],
        "args": ["--seed", str(number)],
        "env": [{"name": "TRIAL", "value": str(number)}],
        "resources": {"requests": requests, "limits": requests},
    }
    return {"clientId": f"trial-{number}", "podSpec": {"containers": [container]}}


def bodies(make: Callable[[int], dict[str, object]], jobs: int, batch: int) -> list[bytes]:
    """Bodies of `batch` jobs each, spread over 20 job sets, each job with its own clientId."""
    run = secrets.token_hex(3)
    return [
        json.dumps(
            {
                "queue": QUEUE,
                "jobSet": f"{run}-{start // batch % 20}",
                "jobs": [make(number) for number in range(start, start + batch)],
            }
        ).encode()
        for start in range(0, jobs, batch)
    ]


class Client(asyncio.Protocol):
    """One connection: each request is sent when the one before it was answered, with 200."""

    def __init__(self, requests: Iterator[bytes], latencies_ms: list[float]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._latencies_ms = latencies_ms
        self._answer = bytearray()
        self._answer_bytes = 0
        self._started_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if not self._answer_bytes:
            head, end, _ = bytes(self._answer).lower().partition(b"\r\n\r\n")
            if not end:
                return
            length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            self._answer_bytes = len(head) + len(end) + length
        if len(self._answer) < self._answer_bytes:
            return
        self._latencies_ms.append((time.perf_counter() - self._started_s) * 1000)
        if self._answer.startswith(b"HTTP/1.1 200"):
            self._ask()
        else:
            self.ended.set_exception(AssertionError(bytes(self._answer[:1_000])))
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(error or ConnectionError("the server closed a connection"))

    def _ask(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self.ended.set_result(None)
            self._transport.close()
            return
        self._answer.clear()
        self._answer_bytes = 0
        self._started_s = time.perf_counter()
        self._transport.write(request)


async def send(server: Server, contents: list[bytes], connections: int) -> Measured:
    """Send all over this number of connections; every answer must be 200."""
    head = (
        f"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\n"
        "Content-Length: "
    ).encode()
    requests = iter([head + b"%d\r\n\r\n" % len(content) + content for content in contents])
    latencies_ms: list[float] = []
    loop = asyncio.get_running_loop()
    process = psutil.Process(server.pid)
    before, started_s = process.cpu_times(), time.perf_counter()
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(
            lambda: Client(requests, latencies_ms), "127.0.0.1", server.port
        )
        clients.append(client)
    await asyncio.gather(*(client.ended for client in clients))
    wall_s, after = time.perf_counter() - started_s, process.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    return Measured(wall_s, cpu_s, latencies_ms)


def summary(measured: Measured, jobs: int) -> dict[str, float]:
    cuts = statistics.quantiles(measured.latencies_ms, n=100)
    return {
        "jobs": jobs,
        "jobsPerSecond": round(jobs / measured.wall_s),
        "jobsPerCpuSecond": round(jobs / measured.cpu_s),
        "p50Ms": round(cuts[49], 2),
        "p99Ms": round(cuts[98], 2),
    }


async def prepare(url: str) -> str:
    """The queue and a token."""
    pool = await db.open_pool(url, size_max=1)
    try:
        await schema.migrate(pool)
        await configuration_store.ensure_queue(pool, QUEUE)
        return await token_store.make_token(pool, "bench", ["submitter"])
    finally:
        await pool.close()


async def until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(300):
        assert process.poll() is None, "submit did not start"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
            continue
        writer.close()
        return
    raise AssertionError("submit did not answer within 30 s")


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    postgres = Postgres(folder, password=secrets.token_hex(8), port=free_port())
    with RunningProcess(postgres, folder / "postgres.log") as database:
        database.start()
        token, port = asyncio.run(prepare(postgres.url())), free_port()
        environment = {
            **os.environ,
            "FAIRLEAD_LOG_URL": postgres.url(),
            "FAIRLEAD_DATABASE_URL": postgres.url(),
            "FAIRLEAD_HTTP_PORT": str(port),
            "FAIRLEAD_LOG_LEVEL": "WARNING",
            "FAIRLEAD_REQUESTS": '{"perSecond": 1e7, "burst": 10000000}',  # one caller is all load
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlead_submit"],
            env=environment,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
        try:
            asyncio.run(until_ready(process, port))
            yield Server(port, token, process.pid)
        finally:
            process.terminate()
            process.wait(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=200_000, help="jobs of each kind of batch")
    parser.add_argument("--batch", type=int, default=1_000, help="jobs in a request")
    parser.add_argument("--connections", type=int, default=4, help="connections for batches")
    parser.add_argument("--singles", type=int, default=20_000, help="requests of a single job")
    given = parser.parse_args()
    kinds = {"alike": equal_job, "ownCommand": own_command, "ownPodSpec": own_spec}
    results: dict[str, object] = {}
    with (
        folders.temporary_folder("submit") as name,
        served(Path(name)) as server,
    ):
        uvloop.run(send(server, bodies(equal_job, 5_000, 1_000), 2))
        for kind, make in kinds.items():
            requests = bodies(make, given.jobs, given.batch)
            measured = uvloop.run(send(server, requests, given.connections))
            results[kind] = summary(measured, given.jobs)
            print(kind, results[kind], flush=True)
        measured = uvloop.run(send(server, bodies(equal_job, given.singles, 1), 64))
        results["singles"] = summary(measured, given.singles)
        print("singles", results["singles"])
    print(json.dumps({"bench": "submit", "batch": given.batch, **results}))


if __name__ == "__main__":
    main()
