"""How fast the event log is, encoding and decoding included.

    python bench/log.py --log postgres|kafka|URL [--events 300000] [--seconds 10] [--json]

Starts a Postgres (fsync on) or a Kafka broker of its own, unless a URL is given. Measures, one
after the other: events of 600 bytes in messages of 1,000, appended four messages at a time, and
read again; single records of 1 kB in appends of 1,000; and, at 1,000 events/s in an append every
10 ms, the time from the call of `append` and from its return to the reader, which has a
connection of its own. The last line is one JSON object (`--json`: nothing else is printed).
"""

import argparse
import asyncio
import json
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from fairlead_common.domain.ids import new_job_id
from fairlead_common.domain.records import events
from fairlead_common.log import EventLog, Reader, Record, Topic, caught_up, topics
from fairlead_common.log.opening import open_log
from fairlead_standalone.processes.child_process import RunningProcess
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.servers.embedded_postgres import Postgres

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import folders
from tests.kafka_broker import KafkaBroker

EVENT_BYTES: Final = 600
MESSAGES_PER_APPEND: Final = 4
SINGLES_PER_APPEND: Final = 1_000
SINGLE_BYTES: Final = 1_000
RATE_PER_S: Final = 1_000
APPENDS_PER_S: Final = 100


@contextmanager
def served(log: str) -> Iterator[str]:
    """The URL of a log of our own of this kind, or the one given."""
    with folders.temporary_folder("log") as name:
        folder = Path(name)
        match log:
            case "postgres":
                password = secrets.token_hex(8)
                postgres = Postgres(folder, password=password, port=free_port())
                with RunningProcess(postgres, folder / "log") as running:
                    running.start()
                    yield postgres.url()
            case "kafka":
                kafka = KafkaBroker(folder, heap_mib=1024)
                with RunningProcess(kafka, folder / "log") as running:
                    running.start()
                    yield kafka.url()
            case _:
                yield log


def submitted(number: int) -> events.JobSubmitted:
    """A job as submit writes it, about `EVENT_BYTES` when encoded."""
    spec = {
        "containers": [
            {
                "name": "main",
                "image": "registry.example.org/vision/train:2026-05",
                "command": ["python", "-m", "train", f"--trial={number}"],
                "resources": {"requests": {"cpu": "1", "memory": "4Gi"}},
            }
        ],
        "terminationGracePeriodSeconds": 30,
    }
    return events.JobSubmitted(
        job_id=new_job_id(7, 1_780_000_000_000 + number, number),
        shape=msgspec.Raw(b'{"requests":{"cpu":1000,"memory":4294967296}}'),
        spec=msgspec.Raw(msgspec.json.encode(spec)),
        digest=f"{number:032x}",
        client_id=f"trial-{number}",
        labels={"team": "vision", "experiment": "x" * 105},
        annotations={"example.org/trial": f"{number}"},
    )


class Figure(msgspec.Struct, rename="camel"):
    """A rate, and what of it was this process's own work."""

    per_s: int
    cpu_us_each: float


class Stopwatch:
    """Wall and CPU time of this process."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def figure(self, count: int) -> Figure:
        """The figure for this number of operations since the stopwatch was created."""
        wall_s = time.perf_counter() - self._wall_s
        cpu_s = time.process_time() - self._cpu_s
        return Figure(round(count / wall_s), round(1e6 * cpu_s / count, 2))


async def append_messages(log: EventLog, count: int) -> tuple[Figure, int]:
    """Append the events; also how many bytes one took, the share of its message included."""
    producer = await log.producer("bench")
    made = [submitted(number) for number in range(events.EVENTS_MAX)]
    sent = size = turn = 0
    watch = Stopwatch()
    while sent < count:
        records: list[Record] = []
        for _ in range(MESSAGES_PER_APPEND):
            records += events.records("bench", f"set-{turn}", "somebody", made)
            turn += 1
        await producer.append(records)
        sent += len(made) * MESSAGES_PER_APPEND
        size += sum(len(record.value or b"") for record in records)
    return watch.figure(sent), size // sent


async def read_messages(log: EventLog, topic: str) -> Figure:
    """Read and decode all that is there."""
    end = await log.end_positions(topic)
    reader = await log.reader(topic, await log.start_positions(topic))
    found = 0
    positions: dict[int, int] = {}
    watch = Stopwatch()
    while not positions or not caught_up(positions, end):
        batch = await reader.read()
        for entry in batch.entries:
            found += len(events.decode(entry.value or b"").events)
        positions = batch.positions
    figure = watch.figure(found)
    await reader.close()
    return figure


class Single(msgspec.Struct, frozen=True):
    """A record of its own, about `SINGLE_BYTES` when encoded."""

    id: str
    number: int
    text: str


async def append_singles(log: EventLog, topic: Topic, count: int) -> Figure:
    """Encode and append records of 1 kB, `SINGLES_PER_APPEND` at a time."""
    producer = await log.producer("bench-singles")
    text = "x" * (SINGLE_BYTES - 60)
    encode = msgspec.json.Encoder().encode
    sent = 0
    watch = Stopwatch()
    while sent < count:
        await producer.append(
            [
                Record(topic.name, f"run-{sent + n}", encode(Single(f"run-{sent + n}", n, text)))
                for n in range(SINGLES_PER_APPEND)
            ]
        )
        sent += SINGLES_PER_APPEND
    return watch.figure(sent)


async def read_singles(log: EventLog, topic: Topic) -> Figure:
    """Read and decode them again."""
    end = await log.end_positions(topic.name)
    reader = await log.reader(topic.name, await log.start_positions(topic.name))
    decode = msgspec.json.Decoder(Single).decode
    found = 0
    positions: dict[int, int] = {}
    watch = Stopwatch()
    while not positions or not caught_up(positions, end):
        batch = await reader.read()
        found += len([decode(entry.value or b"") for entry in batch.entries])
        positions = batch.positions
    figure = watch.figure(found)
    await reader.close()
    return figure


async def paced(log: EventLog, other: EventLog, topic: Topic, seconds: float) -> dict[str, float]:
    """Latencies in ms at a steady rate, the first second left out."""
    producer = await log.producer("bench-paced")
    reader = await other.reader(topic.name, await other.end_positions(topic.name))
    appends = round(seconds * APPENDS_PER_S)
    seen: dict[str, float] = {}
    reading = asyncio.create_task(_watch(reader, appends, seen))
    called: dict[str, float] = {}
    returned: dict[str, float] = {}
    made = [submitted(number) for number in range(RATE_PER_S // APPENDS_PER_S)]
    began = time.perf_counter()
    for turn in range(appends):
        await asyncio.sleep(max(0.0, began + turn / APPENDS_PER_S - time.perf_counter()))
        key = f"{turn}"
        called[key] = time.perf_counter()
        message = events.records("bench", key, "somebody", made)[0]
        await producer.append([Record(topic.name, key, message.value)])
        returned[key] = time.perf_counter()
    took_s = time.perf_counter() - began
    await reading
    steady = [f"{turn}" for turn in range(APPENDS_PER_S, appends)]
    figures = {"paced_events_per_s": round(appends * len(made) / took_s, 1)}
    for name, times in (
        ("append", [returned[key] - called[key] for key in steady]),
        ("call_to_reader", [seen[key] - called[key] for key in steady]),
        ("commit_to_reader", [max(0.0, seen[key] - returned[key]) for key in steady]),
    ):
        times.sort()
        for percent in (50, 99):
            value = times[min(len(times) - 1, len(times) * percent // 100)]
            figures[f"{name}_p{percent}_ms"] = round(1000 * value, 2)
    return figures


async def _watch(reader: Reader, count: int, seen: dict[str, float]) -> None:
    while len(seen) < count:
        for entry in (await reader.read()).entries:
            events.decode(entry.value or b"")
            seen[entry.key] = time.perf_counter()


async def run(url: str, count: int, seconds: float) -> dict[str, object]:
    """All figures of one log."""
    log, other = await open_log(url), await open_log(url)
    jobs, singles, steady = topics.jobs(), Topic("bench.singles"), Topic("bench.paced")
    for topic in (jobs, singles, steady):
        await log.create(topic)
    await append_messages(log, 20_000)  # warms everything up
    appended, event_bytes = await append_messages(log, count)
    read = await read_messages(other, jobs.name)
    singly = await append_singles(log, singles, count // 3)
    singly_read = await read_singles(other, singles)
    latencies = await paced(log, other, steady, seconds)
    await log.close()
    await other.close()
    return {
        "eventBytes": event_bytes,
        "eventsAppendedPerS": appended.per_s,
        "eventsAppendedCpuUs": appended.cpu_us_each,
        "eventsReadPerS": read.per_s,
        "eventsReadCpuUs": read.cpu_us_each,
        "singlesAppendedPerS": singly.per_s,
        "singlesAppendedCpuUs": singly.cpu_us_each,
        "singlesReadPerS": singly_read.per_s,
        "singlesReadCpuUs": singly_read.cpu_us_each,
        **{_camel(name): value for name, value in latencies.items()},
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description="How fast the event log is.")
    parser.add_argument("--log", default="postgres", help="postgres, kafka, or a URL")
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    arguments = parser.parse_args()
    with served(arguments.log) as url:
        found = uvloop.run(run(url, arguments.events, arguments.seconds))
    if not arguments.json:
        for name, value in found.items():
            print(f"{name:24} {value:>12}")
    print(json.dumps({"log": arguments.log.split(":")[0], **found}))


if __name__ == "__main__":
    main()
