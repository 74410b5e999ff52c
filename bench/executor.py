"""CPU that the executor takes per run of a burst, without the log: from its lease until its pod is
removed.

    python -m bench.executor [--runs 50000] [--live 20000] [--evict-mb 64]

Leases arrive as they are read from Postgres, in steps of 0.1 s of simulated time; each run lasts
2 s, is reported pending, running and succeeded, and its lease ends 0.3 s later. `--live` runs are
there at a time. Measured are decoding and folding leases, plans with their encoded reports, and
what is done on a simulated cluster. `--evict-mb` writes this much memory after each step, which is
not measured: in a burst, other processes use the caches of the processor meanwhile. The last line
is one JSON object: microseconds of processor time per run, of the whole and of each part, of the
repetition that took least.
"""

import argparse
import asyncio
import collections
import contextlib
import gc
import json
import random
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.ids import JobId, new_job_id, run_id
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_common.log import topics
from fairlead_common.log.compacted_view import CompactedReader
from fairlead_common.log.forwarding_log import ForwardingLog
from fairlead_common.log.memory_log import MemoryLog
from fairlead_common.log.postgres import record_batches
from fairlead_common.log.postgres.record_batches import NewBatch, StoredBatch
from fairlead_common.log.protocol import (
    READ_BYTES_MAX,
    Batch,
    Entry,
    Positions,
    Reader,
    Record,
)
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.topics import JOBS
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_executor.backends.simulated import NodeKind, SimulatedCluster, Simulation
from fairlead_executor.backends.simulated.behaviour import SECONDS
from fairlead_executor.backends.simulated.settings import build_nodes
from fairlead_executor.domain.executor_state import ExecutorState

NAME: Final = "local"
NODES: Final = 1_000
SETS: Final = [(f"bench-{number % 10}", f"set-{number:03}") for number in range(100)]
STEP_MS: Final = 100
RUN_S: Final = 2.0
DELETED_AFTER: Final = 3
"""Steps from the report of an end until the lease is deleted."""
STEPS_LIVE: Final = round(RUN_S * 1_000 / STEP_MS) + DELETED_AFTER + 1
SPEC: Final = (
    b'{"containers":[{"name":"main","image":"fairlead","command":["true"],"resources":{"requests":'
    b'{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}}],"restartPolicy":"Never"}'
)


class StoredReader:
    """A `Reader` of rows of the log's table, which the bench adds."""

    topic = topics.leases(NAME).name

    def __init__(self) -> None:
        self.position = 0
        self._stored: list[StoredBatch] = []

    def add(self, records: Sequence[Record], time_ms: int) -> None:
        """Store what one append adds; texts and values are new objects, as a driver makes them."""
        for packed in record_batches.pack({0: records}):
            self.position += len(packed.keys)
            copied = msgspec.msgpack.decode(msgspec.msgpack.encode(packed), type=NewBatch)
            keys: list[str | None] = list(copied.keys)
            self._stored.append(StoredBatch(0, self.position, time_ms, keys, copied.stored_values))

    async def read(
        self, *, records_max: int = 10_000, bytes_max: int = READ_BYTES_MAX, wait_s: float = 1.0
    ) -> Batch:
        """See `Reader`."""
        stored, self._stored = self._stored, []
        entries = list[Entry]()
        for batch in stored:
            entries += record_batches.unpack(batch, 0, 0)
        return Batch(record_batches.limit(entries, records_max, bytes_max), {0: self.position})

    async def close(self) -> None:
        """See `Reader`."""


class StoredLog(ForwardingLog):
    """A log with a reader of this bench."""

    def __init__(self, reader: StoredReader) -> None:
        super().__init__(MemoryLog(lambda: 0))
        self._reader = reader

    async def reader(self, topic: str, positions: Positions) -> Reader:
        """See `EventLog`."""
        return self._reader


class Meter:
    """Processor time by part of the work (s)."""

    def __init__(self) -> None:
        self.used_s: collections.defaultdict[str, float] = collections.defaultdict(float)

    @contextlib.contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the processor time of the block."""
        begun_s = time.process_time()
        yield
        self.used_s[part] += time.process_time() - begun_s


def make_lease(number: int, chance: random.Random) -> Record:
    """The lease of a run as the scheduler writes it."""
    job_id: JobId = new_job_id(number % 32, 1_700_000_000_000 + number, chance.getrandbits(80))
    queue, job_set = SETS[number % len(SETS)]
    lease = leases.Lease(
        job_id=job_id,
        run=1,
        queue=queue,
        job_set=job_set,
        node=f"n{number % NODES}",
        runtime_s_max=86_400,
        env={
            "FAIRLEAD_JOB_ID": job_id,
            "FAIRLEAD_QUEUE": queue,
            "FAIRLEAD_JOB_SET": job_set,
            "FAIRLEAD_RUN": "1",
        },
        annotations={SECONDS: str(RUN_S)},
        requests={"cpu": 1_000, "memory": 1 << 30},
        spec=msgspec.Raw(SPEC),
    )
    return leases.record(NAME, lease)


async def run_burst(records: Sequence[Record], per_step: int, other: bytearray) -> Meter:
    """Let the executor run all of these leases."""
    meter, stored = Meter(), StoredReader()
    log = ValidatingLog(StoredLog(stored), Quarantine("bench", frozenset()))
    reader = await CompactedReader.open(log, stored.topic, {0: 0}, ())
    now_ms = 1_000_000
    nodes = build_nodes((NodeKind(count=NODES),), NAME, "default", {})
    cluster = SimulatedCluster(nodes, Simulation(), lambda: now_ms)
    state = ExecutorState(NAME, cluster)
    state.take_over([], 0, None, ())
    ended = collections.deque[list[Record]]([[]] * DELETED_AFTER)
    first = removed = 0
    while removed < len(records) or cluster.pods:
        removed += len(ended[0])
        stored.add([*records[first : first + per_step], *ended.popleft()], now_ms)
        first += per_step
        with meter.measure("leases"):
            batch = await reader.read()
            state.fold_leases(batch.entries, batch.positions[0])
            del batch
        with meter.measure("plan"):
            plan = state.plan(now_ms)
        with meter.measure("apply"):
            state.apply(plan, now_ms)
            state.idle_s(now_ms)
        ended.append(
            [
                leases.deletion_record(NAME, run_id(event.job_id, event.run))
                for record in plan.records
                if record.topic == JOBS and record.value is not None
                for event in ev.decode(record.value).events
                if isinstance(event, ev.JobRunSucceeded)
            ]
        )
        with meter.measure("apply"):
            del plan
        other[:] = bytes(len(other))
        now_ms += STEP_MS
    assert not state.desired, f"{len(state.desired)} leases were not ended"
    return meter


def main() -> None:
    """Run the burst several times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50_000)
    parser.add_argument("--live", type=int, default=20_000, help="runs with a lease at a time")
    parser.add_argument("--evict-mb", type=int, default=64, help="memory written between steps")
    parser.add_argument("--repetitions", type=int, default=3)
    given = parser.parse_args()
    chance = random.Random(1)
    records = [make_lease(number, chance) for number in range(given.runs)]
    gc.set_threshold(100_000, 50, 100)  # as servers do
    other = bytearray(given.evict_mb << 20)
    per_step = given.live // STEPS_LIVE
    found = list[dict[str, float]]()
    for _ in range(given.repetitions):
        gc.collect()
        gc.freeze()
        meter = asyncio.run(run_burst(records, per_step, other))
        parts = {part: round(1e6 * s / given.runs, 2) for part, s in meter.used_s.items()}
        found.append({"cpuUs": round(sum(parts.values()), 2), **parts})
        print(found[-1])
    print(json.dumps({"runs": given.runs, **min(found, key=lambda each: each["cpuUs"])}))


if __name__ == "__main__":
    main()
