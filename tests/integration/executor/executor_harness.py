"""A log in Postgres, a scheduler's pen, and executors as processes of their own that can be killed.

The log is a real one because executors are: they read it from another process.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from fairlead_common.domain.ids import JobId, RunId, run_id
from fairlead_common.domain.records import clusters, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat, Node
from fairlead_common.domain.records.leases import DesiredState, GroupMembers, Lease
from fairlead_common.log import topics
from fairlead_common.log.opening import open_log
from fairlead_common.log.protocol import EventLog, Producer, Reader, Record
from fairlead_standalone.servers.addresses import free_port

WAIT_S_MAX: Final = 120.0
LOG_CHARACTERS_MAX: Final = 5_000
KEY: Final = "a signing key of tests"
ENDS: Final = (
    ev.JobRunSucceeded,
    ev.JobRunFailed,
    ev.JobRunReturned,
    ev.JobRunStopped,
    ev.JobRunLost,
)


class ExecutorHarness:
    """The leases of the executor named `local`, and its reports."""

    def __init__(self, log: EventLog, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.reported: list[ev.RunEvent] = []
        self.node = ""
        self.heartbeat: Heartbeat | None = None
        self._log = log
        self._scheduler: Producer | None = None
        self._jobs: Reader | None = None
        self._clusters: Reader | None = None
        self._executors: list[Executor] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, folder: Path) -> AsyncIterator["ExecutorHarness"]:
        """The harness, with all topics made."""
        log = await open_log(url)
        harness = cls(log, url, folder)
        try:
            for topic in (topics.jobs(), topics.clusters(), topics.leases("local")):
                await log.create(topic)
            harness._scheduler = await log.producer("scheduler")
            harness._jobs = await log.reader(topics.JOBS, await log.start_positions(topics.JOBS))
            start = await log.start_positions(topics.CLUSTERS)
            harness._clusters = await log.reader(topics.CLUSTERS, start)
            yield harness
        finally:
            await log.close()

    async def lease(self, *several: Lease) -> None:
        """What a scheduler does to start these runs."""
        await self._append([leases.record("local", each) for each in several])

    async def announce(self, members: GroupMembers) -> None:
        """What a scheduler does when the members of a group have changed."""
        await self._append([leases.group_record("local", members.group, members)])

    async def stop(self, a_lease: Lease, reason: str, grace_s: int = 30) -> None:
        """What a scheduler does to end a run."""
        stopping = Lease(
            job_id=a_lease.job_id,
            run=a_lease.run,
            queue=a_lease.queue,
            job_set=a_lease.job_set,
            node=a_lease.node,
            desired_state=DesiredState.STOP,
            reason=reason,
            grace_s=grace_s,
        )
        await self._append([leases.record("local", stopping)])

    async def clear(self, *several: Lease) -> None:
        """What a scheduler does once runs have ended."""
        runs = [run_id(each.job_id, each.run) for each in several]
        await self._append([leases.deletion_record("local", run) for run in runs])

    async def _append(self, records: list[Record]) -> None:
        assert self._scheduler is not None
        await self._scheduler.append(records)

    async def read(self) -> None:
        """Read new reports, waiting briefly for them."""
        assert self._jobs is not None
        assert self._clusters is not None
        for entry in (await self._jobs.read(wait_s=0.1)).entries:
            assert entry.value is not None
            for event in ev.decode(entry.value).events:
                assert isinstance(event, ev.RunEvent)
                self.reported.append(event)
        for entry in (await self._clusters.read(wait_s=0)).entries:
            match clusters.decode(entry.value or b""):
                case Heartbeat() as heartbeat:
                    self.heartbeat = heartbeat
                case Node() as node:
                    self.node = node.name

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Read until it is as described."""
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while not is_so():
                    await self.read()
        except TimeoutError:
            raise AssertionError(self.describe_executors()) from None

    def describe_executors(self) -> str:
        """The exit codes of all executors so far, and the ends of their logs."""
        return "\n".join(executor.describe() for executor in self._executors)

    async def until_ready(self) -> None:
        """Read until the executor has reported its node."""
        await self.until(lambda: self.heartbeat is not None and bool(self.node))

    async def until_reported(self, a_lease: Lease, *kinds: type[ev.RunEvent]) -> ev.RunEvent:
        """Read until the run was reported as one of these; returns the report."""
        await self.until(lambda: bool(self.of(a_lease, *kinds)))
        return self.of(a_lease, *kinds)[0]

    async def until_ended(self, a_lease: Lease) -> ev.RunEvent:
        """Read until the end of the run was reported; returns the report."""
        return await self.until_reported(a_lease, *ENDS)

    def of(self, a_lease: Lease, *kinds: type[ev.RunEvent]) -> list[ev.RunEvent]:
        """The reports of this run, in order."""
        return [
            event
            for event in self.reported
            if (event.job_id, event.run) == (a_lease.job_id, a_lease.run)
            and (not kinds or isinstance(event, kinds))
        ]

    def job(self, name: str, command: Sequence[str] | str, **fields: object) -> Lease:
        """A lease of a command; a text is a script for `sh`. `container`: more of its container."""
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        container = {"command": argv} | dict(fields.pop("container", {}))  # type: ignore[call-overload]
        spec = msgspec.json.encode({"containers": [container]})
        job_id = JobId(name.ljust(28, "0"))
        lease = Lease(job_id=job_id, run=1, queue="q", job_set="s", node=self.node, grace_s=5)
        return msgspec.structs.replace(lease, spec=msgspec.Raw(spec), **fields)

    def run_folder(self, a_lease: Lease, kind: str = "runs") -> Path:
        """Where the executor keeps this run."""
        return self.folder / "executor" / "local" / kind / run_id(a_lease.job_id, a_lease.run)

    def output(self, a_lease: Lease, stream: str = "stdout") -> str:
        """What the run wrote so far."""
        for kind in ("runs", "kept"):
            path = self.run_folder(a_lease, kind) / stream
            if path.exists():
                return path.read_text()
        return ""

    def errors(self, a_lease: Lease) -> str:
        """What the run wrote to its standard error so far."""
        return self.output(a_lease, "stderr")

    @asynccontextmanager
    async def executor(
        self, settings: Mapping[str, str] | None = None, *, lifeline: int | None = None
    ) -> AsyncIterator["Executor"]:
        """An executor process; ended at the end, with its runs, if it is still there."""
        executor = Executor(self, settings or {}, lifeline)
        self._executors.append(executor)
        try:
            yield executor
        finally:
            await executor.terminate()


class Executor:
    """`python -m fairlead_executor` with the process backend."""

    def __init__(
        self, harness: ExecutorHarness, settings: Mapping[str, str], lifeline: int | None
    ) -> None:
        self.port = free_port()
        ours = {
            "FAIRLEAD_LOG_URL": harness.url,
            "FAIRLEAD_DATA": str(harness.folder),
            "FAIRLEAD_HTTP_PORT": str(self.port),
            "FAIRLEAD_SIGNING_KEY": KEY,
            "FAIRLEAD_RESOURCES": '{"cpu": "64", "memory": "64Gi"}',
            "FAIRLEAD_SHUTDOWN_S": "30",
            **settings,
        }
        if lifeline is not None:
            ours["FAIRLEAD_SUPERVISOR_FD"] = str(lifeline)
        self.log = harness.folder / f"executor-{self.port}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fairlead_executor"],
                env={**os.environ, **ours},
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=() if lifeline is None else (lifeline,),
                start_new_session=True,
            )

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait()

    async def terminate(self) -> int:
        """Ask it to end, as a supervisor does; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    def describe(self) -> str:
        """Its exit code, None while it runs, and the end of its log."""
        log = self.log.read_text(errors="replace")[-LOG_CHARACTERS_MAX:]
        return f"executor {self.port}: exit code {self.process.poll()}\n{log}"

    async def ended(self) -> int:
        """Wait until it has ended; its exit code."""
        return await asyncio.to_thread(self.process.wait, WAIT_S_MAX)


def is_alive(number: int) -> bool:
    """Whether there is a process of this number that is no zombie."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # it may end between opening and reading
        return False
    return state != "Z"


def kill(number: int) -> None:
    """`kill -9`."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


def run_of(a_lease: Lease) -> RunId:
    """The run of a lease."""
    return run_id(a_lease.job_id, a_lease.run)
