"""Deliveries per second of one process to a local receiver, and with one dead among 50 webhooks.

    python bench/webhooks.py --webhooks 50 --deliveries 20000 --dead 1

Deliveries are rows of the table, as the fan-out writes them; the process that is measured sends
them and writes the results. The receiver is a process of its own; a dead webhook's receiver accepts
connections and never answers. The last line is JSON.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import asyncpg

from fairlead_common.db import open_pool
from fairlead_common.domain.secret_values import Keyring
from fairlead_common.domain.timestamps import find_day
from fairlead_lookout.domain.webhooks.target_addresses import parse_networks
from fairlead_lookout.domain.webhooks.webhook_requests import WebhookConfiguration
from fairlead_lookout.domain.webhooks.webhook_types import EventFilter, Kind, KindOptions
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.service.webhooks.delivery_loop import DeliveryLoop, Sender
from fairlead_lookout.service.webhooks.http_client import HttpClient
from fairlead_lookout.service.webhooks.request_sender import RequestSender
from fairlead_lookout.store.view_schema import migrate_schema
from fairlead_lookout.store.webhooks.fan_out_store import NewDelivery
from fairlead_lookout.store.webhooks.webhook_schema import create_delivery_day, migrate_webhooks
from fairlead_lookout.store.webhooks.webhook_store import WebhookStore
from fairlead_standalone.processes.child_process import RunningProcess
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import Postgres

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/webhooks.py`

from bench import folders

KEY = "a key of a bench"
BODY = json.dumps({"type": "succeeded", "data": {"jobId": "x" * 28, "filler": "y" * 250}})


class _Answering(asyncio.Protocol):
    """Answers every request with 200, or none."""

    def __init__(self, is_dead: bool) -> None:
        self._is_dead = is_dead
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while not self._is_dead:
            head, end, rest = self._received.partition(b"\r\n\r\n")
            if not end:
                return
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def receive(port: int, dead_port: int) -> None:
    """The receiver: one port that answers, one that does not."""

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(lambda: _Answering(False), "127.0.0.1", port)
        await loop.create_server(lambda: _Answering(True), "127.0.0.1", dead_port)
        await asyncio.Event().wait()

    asyncio.run(serve())


async def prepare(options: argparse.Namespace, url: str, ports: tuple[int, int]) -> int:
    """Webhooks and pending deliveries; returns how many of them can be delivered."""
    pool = await open_pool(url)
    await migrate_schema(pool)
    await migrate_webhooks(pool)
    store = WebhookStore(pool, Keyring(KEY))
    now_ms = time.time_ns() // 1_000_000
    rows = []
    each = options.deliveries // options.webhooks
    for number in range(options.webhooks):
        is_dead = number < options.dead
        webhook = await store.create(
            WebhookConfiguration(
                name=f"hook-{number}",
                url=f"http://127.0.0.1:{ports[is_dead]}/hook",
                filter=EventFilter(),
                format="fairlead",
                ordered=False,
                concurrency=8,
                headers=None,
                kind="webhook",
                options=KindOptions(),
                credentials=None,
                enabled=True,
            ),
            "whsec_" + "c2VjcmV0" * 5,
            now_ms,
            "bench",
        )
        assert webhook is not None
        rows += [
            NewDelivery(
                day=find_day(now_ms),
                webhook=webhook.number,
                message_id=f"evt_{number}_{index}",
                type="succeeded",
                queue="q",
                job_set="s",
                job_id=None,
                chain=None,
                event_ms=now_ms,
                created_ms=now_ms,
                state="PENDING",
                due_ms=now_ms,
                body=BODY,
                content_type="application/json",
            )
            for index in range(each)
        ]
    random.Random(1).shuffle(rows)
    async with pool.acquire() as connection:
        async with connection.transaction():
            await create_delivery_day(connection, find_day(now_ms))
        await connection.copy_records_to_table(
            "deliveries",
            schema_name="fairlead_webhooks",
            columns=NewDelivery._fields,
            records=rows,
        )
    await pool.close()
    expected: int = each * (options.webhooks - options.dead)
    return expected


async def measure(url: str, expected: int) -> dict[str, float]:
    """Send everything; the figures."""
    settings = Settings(database_url=url)
    http = HttpClient(parse_networks(["127.0.0.0/8"]))
    senders: Mapping[Kind, Sender] = {"webhook": RequestSender(Keyring(KEY), http)}
    loop = DeliveryLoop(settings, senders, random.random, lambda: random.randrange(2**31))
    connection = await asyncpg.connect(url)
    started_s, started_cpu_s = time.monotonic(), time.process_time()
    running = asyncio.create_task(loop.run())
    count = "SELECT count(*) FROM fairlead_webhooks.deliveries WHERE state = 'DELIVERED'"
    while await connection.fetchval(count) < expected:
        await asyncio.sleep(0.1)
        if running.done():
            running.result()
    took_s, cpu_s = time.monotonic() - started_s, time.process_time() - started_cpu_s
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await connection.close()
    await http.close()
    return {
        "deliveries": expected,
        "seconds": round(took_s, 2),
        "deliveries_per_s": round(expected / took_s),
        "cpu_ms_each": round(cpu_s / expected * 1000, 3),
    }


def main() -> None:
    """Start the servers, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--webhooks", type=int, default=50)
    parser.add_argument("--deliveries", type=int, default=20_000)
    parser.add_argument("--dead", type=int, default=0)
    options = parser.parse_args()
    ports = (free_port(), free_port())
    receiver = multiprocessing.get_context("spawn").Process(target=receive, args=ports, daemon=True)
    receiver.start()
    with folders.temporary_folder("webhooks") as folder:
        program = Postgres(Path(folder), password="bench", port=free_port())
        with RunningProcess(program, Path(folder) / "postgres.log") as running:
            running.start()
            expected = asyncio.run(prepare(options, program.url(), ports))
            figures = asyncio.run(measure(program.url(), expected))
    receiver.terminate()
    print(json.dumps({"webhooks": options.webhooks, "dead": options.dead, **figures}))


if __name__ == "__main__":
    main()
