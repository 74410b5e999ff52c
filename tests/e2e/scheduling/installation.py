"""A running Fairlead, what is asked of it, and what its log says happened."""

import asyncio
import functools
import subprocess
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from fairlead import Client
from fairlead.models.job_models import JobDetail
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_common.log import EventLog, topics
from fairlead_common.log.opening import open_log
from fairlead_standalone.data.data_folder import Holder
from fairlead_standalone.service.testing import StandaloneInstallation

PATIENCE_S: Final = 120.0
E = TypeVar("E", bound=ev.JobEvent)
T = TypeVar("T")


class Installation:
    """Submits to one queue and job set at a time, and waits for facts in the log."""

    def __init__(self, standalone: StandaloneInstallation) -> None:
        self.standalone = standalone
        self.client = Client(standalone.address, token=standalone.token)
        self.ids: dict[str, str] = {}
        self._position = ""
        holder = msgspec.json.decode((standalone.data / "lock").read_bytes(), type=Holder)
        self.log_url = holder.database_url

    def close(self) -> None:
        """Hang up."""
        self.client.close()

    def submit(self, queue: str, job_set: str, *jobs: Mapping[str, object]) -> None:
        """Submit jobs; `clientId` is the name by which a test speaks of one."""
        done = self.client.submit(queue, job_set, [dict(job) for job in jobs])
        self._position = done.position
        self.ids |= {str(job.client_id): job.id for job in done.jobs}

    def ask(self, method: str, path: str, body: object = None) -> Any:  # whatever JSON it answers
        """One request to the API."""
        headers = {"authorization": f"Bearer {self.standalone.token}"}
        url = f"{self.standalone.address}/api/v1{path}"
        answer = httpx2.request(method, url, json=body, headers=headers, timeout=30)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def see(self, name: str, is_so: Callable[[JobDetail], bool]) -> JobDetail:
        """The job as lookout shows it, once it is so."""
        self.standalone.wait_for(lambda: is_so(self._job(name)))
        return self._job(name)

    def _job(self, name: str) -> JobDetail:
        return self.client.job(self.ids[name], after=self._position)

    def facts(self, enough: Callable[[list[ev.AnyEvent]], bool]) -> list[ev.AnyEvent]:
        """All events of the log, in the order of each job set, as soon as they are enough."""
        return _run(self._facts(enough))

    async def _facts(self, enough: Callable[[list[ev.AnyEvent]], bool]) -> list[ev.AnyEvent]:
        async with asyncio.timeout(PATIENCE_S):
            log = await open_log(self.log_url)
            try:
                reader = await log.reader(topics.JOBS, await log.start_positions(topics.JOBS))
                seen: list[ev.AnyEvent] = []
                while not enough(seen):
                    for entry in (await reader.read()).entries:
                        assert entry.value is not None
                        seen += ev.decode(entry.value).events
                return seen
            finally:
                await log.close()

    def of(self, name: str, kind: type[E], count: int = 1) -> list[E]:
        """The first so many events of this kind about this job, once they are there."""
        job_id = self.ids[name]

        def found(seen: Iterable[ev.AnyEvent]) -> list[E]:
            return [event for event in seen if isinstance(event, kind) and event.job_id == job_id]

        return found(self.facts(lambda seen: len(found(seen)) >= count))[:count]

    def first(self, name: str, kind: type[E]) -> E:
        """The first event of this kind about this job, once it is there."""
        return self.of(name, kind)[0]

    def leases_of(self, executor: str, name: str) -> list[leases.Lease]:
        """Every lease that the runs of this job ever had on this executor, in order."""
        return _run(self._leases(executor, self.ids[name]))

    async def _leases(self, executor: str, job_id: str) -> list[leases.Lease]:
        log: EventLog = await open_log(self.log_url)
        topic = topics.leases(executor).name
        try:
            reader = await log.reader(topic, await log.start_positions(topic))
            entries = (await reader.read(records_max=10_000)).entries
        finally:
            await log.close()
        found = [
            leases.decode(entry.value)
            for entry in entries
            if entry.value is not None and leases.group_of(entry.key) is None
        ]
        return [lease for lease in found if lease.job_id == job_id]


def _run(work: Coroutine[object, object, T]) -> T:
    return asyncio.run(work)


def lines(file: Path) -> list[str]:
    """What jobs wrote there until now."""
    return file.read_text().splitlines() if file.exists() else []


def wait_lines(standalone: StandaloneInstallation, file: Path, *wanted: str) -> None:
    """Until all these lines are there."""
    standalone.wait_for(functools.partial(_has, file, wanted))


def _has(file: Path, wanted: Iterable[str]) -> bool:
    return set(wanted) <= set(lines(file))


def shell(name: str, script: str, **fields: object) -> dict[str, object]:
    """A job that runs a script, of one core unless said otherwise."""
    made = {"clientId": name, "command": ["/bin/sh", "-c", script], "cpu": "1", "memory": "64Mi"}
    return {**made, **fields}


def idle(
    name: str, annotations: Mapping[str, str] | None = None, **fields: object
) -> dict[str, object]:
    """A job for the simulated cluster: it takes its time and does nothing."""
    said = {"fairlead.dev/simulated-seconds": "600", **(annotations or {})}
    made = {"clientId": name, "command": ["true"], "cpu": "1", "memory": "64Mi"}
    return {**made, "annotations": said, **fields}


def ended(process: subprocess.Popen[bytes]) -> None:
    """Make sure that a process that was started here is gone."""
    process.kill()
    process.wait()
