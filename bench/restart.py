"""How long a scheduler takes to lead again after `kill -9`, and how much memory it holds.

    python bench/restart.py [--jobs 1000000] [--running 16000] [--turns 3] [--json]

Runs `fairlead up --backend simulated`, appends the submissions of a million jobs of 400 shapes to
the log (every job with a client id; some with dependencies, gangs, retries and maximum run times),
and waits until the cluster is full. Then it kills the scheduler: first the supervisor alone starts
it again (`embedded`), then a second scheduler process stands by and takes over (`standby`). A job
that only one free node tolerates waits each time. It kills when the checkpoint has caught up with
the log, with `--lagging` at once, and no child sooner than the supervisor takes for settled: before
it starts another it pauses, up to 3 s at the fifth early death. The last line of output is one JSON
object: seconds from the kill until the lease of that job is in the log, and the resident memory of
the process that was filled through the log and of those that loaded the checkpoint.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx2
import msgspec
import psutil

from fairlead import AsyncClient
from fairlead_common.domain.ids import client_job_ids, job_set_partition
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import EventLog, Producer, caught_up, topics
from fairlead_common.log.opening import open_log
from fairlead_standalone.processes.child_process import die_with_parent
from fairlead_standalone.processes.supervisor import SETTLED_S
from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service.testing import KERNELS, StandaloneInstallation, memory_bytes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/restart.py`

from bench import folders

CORES: Final = 16
SHAPES: Final = 400
QUEUES: Final = [f"restart-{number}" for number in range(10)]
SETS: Final = [(QUEUES[number % 10], f"set-{number:03}") for number in range(100)]
PER_MESSAGE: Final = 500
RUN_S: Final = 1_000_000
TAINT: Final = {"key": "reserved", "value": "probe", "effect": "NoSchedule"}
TOLERATION: Final = shapes.Toleration(key="reserved", value="probe", effect="NoSchedule")
BACKLOG_JOBS: Final = 50_000
WAIT_S_MAX: Final = 1_800.0
QUIET_S: Final = 20.0
POSITIONS: Final = "SELECT positions FROM fairlead_scheduler.progress"
ANNOTATIONS: Final = {"fairlead.dev/simulated-seconds": str(RUN_S)}
SPEC: Final = msgspec.Raw(
    b'{"containers":[{"name":"main","image":"registry.example/team/trainer:1.4.2","command":'
    b'["python","-m","trainer","--config","/etc/trainer/config.yaml"],"env":[{"name":"SEED",'
    b'"value":"12345"},{"name":"DATA","value":"/data/set"}],"resources":{"requests":{"cpu":"1",'
    b'"memory":"1Gi"},"limits":{"memory":"1Gi"}}}],"restartPolicy":"Never"}'
)


def main() -> None:
    """Start everything, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--running", type=int, default=16_000)
    parser.add_argument("--turns", type=int, default=3, help="restarts of each kind")
    parser.add_argument(
        "--lagging",
        action="store_true",
        help="kill as soon as all is folded, even if the checkpoint has not caught up yet",
    )
    parser.add_argument(
        "--folder", type=Path, help="keep the data here; a later run does not fill it again"
    )
    parser.add_argument("--json", action="store_true", help="for uniformity: always printed")
    given = parser.parse_args()
    kinds = [
        {"count": given.running // CORES, "resources": {"cpu": CORES, "memory": "256Gi"}},
        {
            "name": "probe",
            "count": 1,
            "resources": {"cpu": 64, "memory": "64Gi"},
            "taints": [TAINT],
        },
    ]
    environment = {"FAIRLEAD_SIMULATION": json.dumps({"nodes": kinds})}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start compiles all its modules
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(folders.temporary_folder("restart")))
        folder.mkdir(exist_ok=True)
        standalone = StandaloneInstallation(
            folder, "--backend", "simulated", environment=environment
        )
        stack.enter_context(standalone)
        standalone.start()
        found = asyncio.run(Bench(standalone, given).measure())
    print(json.dumps({"bench": "restart", "cores": os.cpu_count(), **found}))


class Bench:
    """A running Fairlead and what is measured of its scheduler."""

    def __init__(self, standalone: StandaloneInstallation, given: argparse.Namespace) -> None:
        self._standalone = standalone
        self._given = given
        self._environment = standalone.child("scheduler").environ()
        self._probes = 0
        self._log: EventLog
        self._producer: Producer

    async def measure(self) -> dict[str, Any]:
        """Fill the scheduler, then kill it again and again."""
        self._log = await open_log(self._environment["FAIRLEAD_LOG_URL"])
        try:
            self._producer = await self._log.producer("bench")
            began_s = time.monotonic()
            filled = None
            mark = self._standalone.data / "filled"
            if not mark.exists():
                await self._fill()
                mark.touch()
                filled = memory_of(self._standalone.child("scheduler"))
            filled_s = time.monotonic() - began_s
            say(f"filled after {filled_s:.0f} s: {filled}")
            if filled is not None and not self._given.lagging:
                await self._saved()
                saved_s = time.monotonic() - began_s
                say(
                    f"saved after {saved_s:.0f} s: {memory_of(self._standalone.child('scheduler'))}"
                )
            embedded, used, loaded = [], [], []
            for _ in range(self._given.turns):
                seconds, cpu_s = await self._kill_child()
                embedded.append(seconds)
                used.append(cpu_s)
                await asyncio.sleep(QUIET_S)
                loaded.append(memory_of(self._standalone.child("scheduler")))
                say(f"embedded: {embedded[-1]} s, {cpu_s} s of processor, {loaded[-1]}")
            standby, took_over = [], []
            for _ in range(self._given.turns):
                seconds, memory = await self._take_over()
                standby.append(seconds)
                took_over.append(memory)
                say(f"standby: {seconds} s, {memory}")
        finally:
            await self._log.close()
        return {
            "jobs": self._given.jobs,
            "running": self._given.running,
            "fillSeconds": round(filled_s, 1),
            "embeddedSeconds": embedded,
            "embeddedProcessorSeconds": used,
            "standbySeconds": standby,
            "filled": filled,
            "loaded": loaded,
            "tookOver": took_over,
        }

    async def _fill(self) -> None:
        async with AsyncClient(self._standalone.address, token=self._standalone.token) as client:
            for name in QUEUES:
                await client.create_queue(name)
        appended = 0
        for queue, job_set, events in submissions(self._given.jobs + self._given.running):
            await self._producer.append(ev.records(queue, job_set, "bench", events))
            appended += len(events)
            if appended % BACKLOG_JOBS < PER_MESSAGE:
                await self._folded(appended - BACKLOG_JOBS)
                say(f"{appended} appended, {memory_of(self._standalone.child('scheduler'))}")
        await self._folded(appended)
        async with httpx2.AsyncClient(
            base_url=self._standalone.address,
            headers={"authorization": f"Bearer {self._standalone.token}"},
            trust_env=False,
            timeout=60.0,
        ) as http:
            states: dict[str, int] = {}
            while states.get("RUNNING", 0) < self._given.running or sum(states.values()) < appended:
                await asyncio.sleep(2.0)
                answer = (await http.get("/api/v1/jobs", params={"groupBy": "state"})).json()
                states = {group["group"]["state"]: group["jobs"] for group in answer["groups"]}
        if not self._given.lagging:
            await asyncio.sleep(QUIET_S)  # checkpoints and reports that are under way

    async def _saved(self) -> None:
        """Return once the checkpoint has all of the log that there is now."""
        end = await self._log.end_positions(topics.JOBS)
        connection = await asyncpg.connect(self._environment["FAIRLEAD_DATABASE_URL"])
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while True:
                    saved = await connection.fetchval(POSITIONS)
                    if caught_up(dict(enumerate(saved)), end):
                        return
                    await asyncio.sleep(0.5)
        finally:
            await connection.close()

    async def _folded(self, jobs: int) -> None:
        """Return once the scheduler has that many live jobs."""
        deadline_s = time.monotonic() + WAIT_S_MAX
        while await asyncio.to_thread(self._jobs) < jobs:
            assert time.monotonic() < deadline_s, (
                f"it never had {jobs} jobs: {self._standalone.report}"
            )
            await asyncio.sleep(0.5)

    def _jobs(self) -> int:
        port = self._environment["FAIRLEAD_HTTP_PORT"]
        text = httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=60.0).text
        found = re.search(r"^fairlead_scheduler_jobs ([0-9.e+]+)$", text, re.MULTILINE)
        return 0 if found is None else int(float(found[1]))

    async def _kill_child(self) -> tuple[float, float]:
        """Seconds from the kill of the supervised scheduler to the next lease, and what processor
        time its successor had used by then: on a busy machine only that says much."""
        leader = self._standalone.child("scheduler")
        # A child that dies young waits for its next start, each time twice as long.
        await asyncio.sleep(max(0.0, leader.create_time() + SETTLED_S + 2.0 - time.time()))
        seconds = await self._lease_after(leader)
        used = self._standalone.child("scheduler").cpu_times()
        return seconds, round(used.user + used.system, 2)

    async def _take_over(self) -> tuple[float, dict[str, float]]:
        """A second process stands by, and is the leader's successor; it ends after that."""
        port = free_port()
        ours = {name: value for name, value in self._environment.items() if "FAIRLEAD" in name}
        standby = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-P", "-m", "fairlead_scheduler"],
            env={**os.environ, **KERNELS, **ours, "FAIRLEAD_HTTP_PORT": str(port)},
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent(signal.SIGTERM),
        )
        try:
            await asyncio.sleep(QUIET_S)
            seconds = await self._lease_after(self._standalone.child("scheduler"))
            await asyncio.sleep(QUIET_S)
            memory = memory_of(psutil.Process(standby.pid))
        finally:
            standby.kill()
            standby.wait()
        await self._probe(await self._log.end_positions(topics.JOBS))  # the child leads again
        return seconds, memory

    async def _lease_after(self, leader: psutil.Process) -> float:
        if not self._given.lagging:
            await self._saved()
        end = await self._log.end_positions(topics.JOBS)
        leader.send_signal(signal.SIGKILL)
        killed_s = time.monotonic()
        await self._probe(end)
        return round(time.monotonic() - killed_s, 2)

    async def _probe(self, end: dict[int, int]) -> None:
        """Submit one job; return once its lease is in the log."""
        self._probes += 1
        queue, job_set = SETS[0]
        name = f"probe-{self._probes}-{time.time_ns()}"
        shape = shapes.Shape(requests={"cpu": 10}, tolerations=(TOLERATION,))
        (job_id,) = client_job_ids(job_set_partition(queue, job_set), queue, job_set, [name])
        event = ev.JobSubmitted(
            job_id=job_id,
            client_id=name,
            shape=shapes.encode(shape),
            spec=SPEC,
            digest="0" * 32,
            priority=1_000,
            annotations=ANNOTATIONS,
        )
        await self._producer.append(ev.records(queue, job_set, "bench", [event]))
        reader = await self._log.reader(topics.JOBS, end)
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while True:
                    for entry in (await reader.read()).entries:
                        assert entry.value is not None
                        for found in ev.decode(entry.value).events:
                            if isinstance(found, ev.JobRunLeased) and found.job_id == job_id:
                                return
        finally:
            await reader.close()


def submissions(jobs: int) -> Iterator[tuple[str, str, list[ev.AnyEvent]]]:
    """Messages of jobs: queue, job set, events."""
    made = [
        shapes.encode(shapes.Shape(requests={"cpu": 1000, "memory": (512 + number) << 20}))
        for number in range(SHAPES)
    ]
    for first in range(0, jobs, PER_MESSAGE):
        numbers = range(first, min(first + PER_MESSAGE, jobs))
        queue, job_set = SETS[first // PER_MESSAGE % len(SETS)]
        partition = job_set_partition(queue, job_set)
        ids = client_job_ids(partition, queue, job_set, [f"j{number}" for number in numbers])
        events: list[ev.AnyEvent] = []
        for index, (number, job_id) in enumerate(zip(numbers, ids, strict=True)):
            more: dict[str, object] = {}
            if index % 50 == 49:  # dependencies
                more["after"] = (ids[index - 1],)
            if index % 100 in (10, 11, 12, 13):
                more["gang"] = ev.Gang(name=f"g{number // 100}", size=4, member=index % 100 - 10)
            if index % 20 == 5:
                more["retry"] = ev.RetryPolicy(limit=2, on=(ev.FailureCategory.OOM,))
            if index % 10 == 3:
                more["runtime_s_max"] = RUN_S
            event = ev.JobSubmitted(
                job_id=job_id,
                client_id=f"j{number}",
                shape=made[number * 7 // 4 % SHAPES if "gang" not in more else 0],
                spec=SPEC,
                digest=f"{number:032x}",
                annotations=ANNOTATIONS,
            )
            events.append(msgspec.structs.replace(event, **more))
        yield queue, job_set, events


def memory_of(process: psutil.Process) -> dict[str, float]:
    """Resident memory in MB: now, the share of this process (PSS), and the most it ever was."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return {
        "residentMb": round(process.memory_info().rss / 1e6, 1),
        "shareMb": round(memory_bytes(process) / 1e6, 1),
        "peakMb": 0.0 if peak is None else round(int(peak[1]) * 1024 / 1e6, 1),
    }


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
