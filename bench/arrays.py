"""What an array costs: time to submit and to show it, bytes of log, memory and tables.

    python bench/arrays.py --tasks 1000000

It starts a `fairlead up` of its own, submits one array with one request, and waits until it is
shown. Memory is the share of each process (PSS), before and `SETTLE_S` after; its tasks sleep, so
nearly all of them wait. Then it cancels the array, and waits until lookout says so.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx2
import msgspec

from fairlead_common.log import topics
from fairlead_common.log.opening import open_log
from fairlead_standalone.data.data_folder import Holder
from fairlead_standalone.service.testing import StandaloneInstallation, memory_bytes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/arrays.py`

from bench import folders

SETTLE_S: Final = 15.0
POLL_S: Final = 0.01
PROCESSES: Final = ("web", "scheduler", "executor")
TABLES: Final = """
    SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'
"""


class Bench:
    """A running installation and how it is asked."""

    def __init__(self, standalone: StandaloneInstallation) -> None:
        self._standalone = standalone
        headers = {"Authorization": f"Bearer {standalone.token}"}
        self.client = httpx2.Client(
            base_url=f"{standalone.address}/api/v1", headers=headers, timeout=60
        )
        lock = (standalone.data / "lock").read_bytes()
        self._url = msgspec.json.decode(lock, type=Holder).database_url

    def memory(self) -> dict[str, int]:
        """Bytes of each process."""
        return {name: memory_bytes(self._standalone.child(name)) for name in PROCESSES}

    def tables(self) -> int:
        """Bytes of lookout's tables."""
        return asyncio.run(self._tables())

    async def _tables(self) -> int:
        connection = await asyncpg.connect(self._url)
        try:
            return int(await connection.fetchval(TABLES, "fairlead_lookout"))
        finally:
            await connection.close()

    def log(self) -> tuple[int, int]:
        """Records and bytes of `fairlead.jobs`."""
        return asyncio.run(self._log())

    async def _log(self) -> tuple[int, int]:
        log = await open_log(self._url)
        try:
            reader = await log.reader(topics.JOBS, await log.start_positions(topics.JOBS))
            ends, records, size = await log.end_positions(topics.JOBS), 0, 0
            positions = await log.start_positions(topics.JOBS)
            while any(positions.get(part, 0) < end for part, end in ends.items()):
                read = await reader.read()
                positions = read.positions
                records += len(read.entries)
                size += sum(len(entry.value or b"") for entry in read.entries)
            return records, size
        finally:
            await log.close()

    def array(self, array: str) -> dict[str, Any] | None:
        """The array as lookout answers it; None if it does not know it."""
        answer = self.client.get(f"/arrays/{array}")
        return answer.json() if answer.status_code == 200 else None

    def wait(self, array: str, is_so: Callable[[dict[str, Any]], bool]) -> float:
        """Seconds until lookout answers the array so."""
        begun = time.perf_counter()
        while True:
            found = self.array(array)
            if found is not None and is_so(found):
                return time.perf_counter() - begun
            time.sleep(POLL_S)


def measure(bench: Bench, tasks: int, running_max: int | None) -> None:
    """Submit an array, and print what it costs."""
    client = bench.client
    job: dict[str, object] = {"command": ["sleep", "3600"], "cpu": "1", "memory": "32Mi"}
    warm = {"queue": "default", "jobSet": "warm", "jobs": [job | {"command": ["true"]}]}
    client.post("/jobs", json=warm).raise_for_status()
    time.sleep(SETTLE_S)
    memory, tables, log = bench.memory(), bench.tables(), bench.log()
    array = {"count": tasks} | ({} if running_max is None else {"maxRunning": running_max})
    body = {"queue": "default", "jobSet": "array", "jobs": [{**job, "array": array}]}
    begun = time.perf_counter()
    answer = client.post("/jobs", json=body)
    submitted_s = time.perf_counter() - begun
    answer.raise_for_status()
    made = answer.json()["jobs"][0]["id"]
    visible_s = submitted_s + bench.wait(made, lambda found: found["tasks"] == tasks)
    counted = client.get("/jobsets/default/array").json()["jobs"]
    counted_s = time.perf_counter() - begun
    assert counted == tasks
    time.sleep(SETTLE_S)
    found = bench.array(made)
    assert found is not None
    records, size = (after - before for after, before in zip(bench.log(), log, strict=True))
    print(f"tasks {tasks:,}, waiting in the array {found['waiting']:,}, {found['states']}")
    print(f"submitted in {submitted_s:.3f} s, visible after {visible_s:.3f} s ({counted_s:.3f} s)")
    print(f"log: {records} records, {size:,} bytes, {size / tasks:.2f} per task")
    for name, after in bench.memory().items():
        more = after - memory[name]
        print(f"{name}: {after / 2**20:.1f} MiB, {more:+,} bytes, {more / tasks:+.2f} per task")
    more = bench.tables() - tables
    print(f"tables of lookout: {more:+,} bytes, {more / tasks:+.2f} per task")
    begun = time.perf_counter()
    client.post(f"/arrays/{made}/cancel", json={}).raise_for_status()
    requested_s = time.perf_counter() - begun
    bench.wait(made, lambda found: "ended" in found)
    ended_s = time.perf_counter() - begun
    print(f"cancellation requested in {requested_s:.3f} s, all tasks ended after {ended_s:.3f} s")


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--max-running", type=int)
    given = parser.parse_args()
    quotas = '{"queueJobsMax": null, "jobsMax": null}'
    with (
        folders.temporary_folder("arrays") as folder,
        StandaloneInstallation(Path(folder), environment={"FAIRLEAD_QUOTAS": quotas}) as standalone,
    ):
        standalone.start()
        measure(Bench(standalone), given.tasks, given.max_running)


if __name__ == "__main__":
    main()
