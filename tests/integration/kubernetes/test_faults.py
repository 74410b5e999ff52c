"""Faults of the API server, of etcd, of the connection and of the executor, on a real API server.

Whatever fails: each job ends exactly once, each run starts at most once, and nothing is left in the
cluster.
"""

import asyncio
import json
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
import pytest

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.leases import Lease
from fairlead_standalone.processes.child_process import RunningProcess
from tests.faulty_proxy import FaultyProxy
from tests.integration.executor.executor_harness import ENDS, ExecutorHarness
from tests.kubernetes_control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes

NODES: Final = ("n0", "n1", "n2")
WATCH_S: Final = 2.0
WAIT_S_MAX: Final = 120.0
AWAY_S: Final = 30.0
STUCK_S: Final = 5
Away = Callable[[RunningProcess], AbstractContextManager[None]]


class FaultHarness:
    """Jobs in a namespace of their own, and a scheduler that starts lost runs again.

    Every tenth job exits with 3, every tenth is stopped once it is running, the others succeed.
    """

    def __init__(self, plane: ControlPlane, executors: ExecutorHarness) -> None:
        self.plane = plane
        self.executors = executors
        self.namespace = f"faults-{secrets.token_hex(4)}"
        self.open: dict[JobId, Lease] = {}
        self.ended: dict[JobId, ev.RunEvent] = {}
        self._leases: list[Lease] = []
        self._stopped: set[JobId] = set()
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        plane.request("POST", "/api/v1/namespaces", body)

    def settings(self, kubeconfig: Path | None = None, **more: Any) -> dict[str, str]:
        """Of an executor that retains no pods. `Any`: settings of the backend."""
        own = {"kubeconfig": str(kubeconfig or self.plane.kubeconfig), "endedPodsMax": 0, **more}
        return {"FAIRLEAD_BACKEND": "kubernetes", "FAIRLEAD_KUBERNETES": json.dumps(own)}

    async def submit(self, count: int, run_for: str = "1s") -> None:
        """Lease the first run of this number of jobs."""
        body = msgspec.json.encode({"containers": [{"name": "main", "image": "x"}]})
        for _ in range(count):
            number = len(self.open) + len(self.ended)
            annotations = {"fairlead.test/run-for": run_for}
            if number % 10 == 3:
                annotations["fairlead.test/exit-code"] = "3"
            if number % 10 == 7:
                annotations = {}
            lease = Lease(
                job_id=JobId(f"j{number:04}".ljust(28, "0")),
                run=1,
                queue="q",
                job_set="s",
                node=NODES[number % len(NODES)],
                namespace=self.namespace,
                grace_s=5,
                annotations=annotations,
                spec=msgspec.Raw(body),
            )
            self.open[lease.job_id] = lease
        await self._lease(list(self.open.values()))

    async def _lease(self, several: list[Lease]) -> None:
        self._leases += several
        await self.executors.lease(*several)

    async def read(self) -> None:
        """Read reports, and do what a scheduler does about them."""
        await self.executors.read()
        cleared: list[Lease] = []
        again: list[Lease] = []
        for job, lease in list(self.open.items()):
            ends = self.executors.of(lease, *ENDS)
            if ends:
                cleared.append(lease)
                del self.open[job]
                if isinstance(ends[0], ev.JobRunLost | ev.JobRunReturned):
                    again.append(msgspec.structs.replace(lease, run=lease.run + 1))
                    self.open[job] = again[-1]
                    self._stopped.discard(job)  # the stop was lost with the run
                else:
                    self.ended[job] = ends[0]
            elif self._is_to_be_stopped(lease):
                self._stopped.add(job)
                await self.executors.stop(lease, "a test says so", grace_s=5)
        if cleared:
            await self.executors.clear(*cleared)
        if again:
            await self._lease(again)

    def _is_to_be_stopped(self, lease: Lease) -> bool:
        runs = self.executors.of(lease, ev.JobRunRunning)
        return bool(runs) and not lease.annotations and lease.job_id not in self._stopped

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Read until it is as described."""
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while not is_so():
                    await self.read()
        except TimeoutError:
            pods = {
                pod["metadata"]["name"]: (pod["metadata"], pod["status"]["phase"])
                for pod in self.pods()
            }
            executors = self.executors.describe_executors()
            raise AssertionError(
                f"open: {list(self.open.values())}; pods: {pods}; {executors}"
            ) from None

    async def until_ended(self, count: int) -> None:
        """Read until this number of jobs has ended."""
        await self.until(lambda: len(self.ended) >= count)

    async def for_seconds(self, seconds: float) -> None:
        """Read for so long."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.read()
        except TimeoutError:
            pass

    async def finish(self, *, fails: bool = False) -> None:
        """Read until all has ended, and check it. `fails`: jobs may be refused by a fault."""
        await self.until(lambda: not self.open)
        await self.until(lambda: not self.pods())
        for job, end in self.ended.items():
            number = int(job[1:5])
            expected: type[ev.RunEvent] = ev.JobRunSucceeded
            if number % 10 == 3:
                expected = ev.JobRunFailed
            if job in self._stopped:
                expected = ev.JobRunStopped
            assert isinstance(end, expected) or (fails and isinstance(end, ev.JobRunFailed)), end
        for lease in self._leases:
            for kinds in ((ev.JobRunRunning,), ENDS):
                different = set(map(repr, self.executors.of(lease, *kinds)))
                assert len(different) <= 1, different

    def restart_nodes(self) -> None:
        """Start KWOK again when the API server can write again: KWOK gives up on a pod after an
        error of a server without etcd, which a kubelet does not."""
        self.plane.kwok.stop()
        self.plane.until_writable()
        self.plane.kwok.start()

    def pods(self) -> list[dict[str, Any]]:
        """All pods of the namespace. `Any`: JSON."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        found: list[dict[str, Any]] = self.plane.request("GET", path)["items"]
        return found


@contextmanager
def killed(server: RunningProcess) -> Iterator[None]:
    """The server is killed, and started again at the end; by this thread, which outlives it."""
    server.kill()
    try:
        yield
    finally:
        server.start()


@contextmanager
def frozen(server: RunningProcess) -> Iterator[None]:
    """The server does not answer, and continues at the end."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.fixture
async def world(
    control_plane: ControlPlane, fresh_database: str, tmp_path: Path
) -> AsyncIterator[FaultHarness]:
    """A harness on the shared control plane, which works again afterwards."""
    async with ExecutorHarness.open(fresh_database, tmp_path) as executors:
        yield FaultHarness(control_plane, executors)


async def test_jobs_end_once_whenever_their_executor_is_killed(world: FaultHarness) -> None:
    await world.submit(40)
    for count in (8, 25):
        async with world.executors.executor(world.settings()) as executor:
            await world.until_ended(count)
            executor.kill()
    async with world.executors.executor(world.settings()):
        await world.finish()


async def test_jobs_end_once_although_etcd_is_killed(world: FaultHarness) -> None:
    # Etcd can be killed between the two writes of a deletion. Nobody else completes it then.
    settings = world.settings(stuckTerminatingS=STUCK_S)
    async with world.executors.executor(settings):
        await world.submit(40)
        for count in (5, 20):
            await world.until_ended(count)
            with killed(world.plane.etcd):
                await world.for_seconds(1)
            world.restart_nodes()
        await world.finish()


@pytest.mark.nightly
@pytest.mark.parametrize("away", [killed, frozen])
async def test_jobs_end_once_although_the_api_server_is_away_for_30_s(
    world: FaultHarness, away: Away
) -> None:
    async with world.executors.executor(world.settings()):
        await world.submit(60, run_for="5s")
        await world.until_ended(5)
        with away(world.plane.api_server):
            await world.for_seconds(AWAY_S)
        await world.finish()


async def test_requests_to_a_frozen_api_server_time_out_and_the_cluster_is_reported_as_silent(
    world: FaultHarness,
) -> None:
    settings = world.settings(requestTimeoutS=2, probeTimeoutS=1)
    async with world.executors.executor(settings) as executor, httpx2.AsyncClient() as client:

        async def read_check() -> str:
            answer = await client.get(f"http://127.0.0.1:{executor.port}/readyz", timeout=30)
            return str(answer.json()["checks"]["cluster"])

        async def until_check(expected: str) -> None:
            async with asyncio.timeout(WAIT_S_MAX):
                while expected not in await read_check():
                    await world.read()

        def has_timed_out() -> bool:
            return "the request CREATE" in executor.log.read_text()

        await world.submit(20, run_for="2s")
        await world.until_ended(5)
        with frozen(world.plane.api_server):
            await world.submit(10)
            await world.until(has_timed_out)
            await until_check("it did not answer within 1 s")
        await until_check("ok")
        await world.finish()
        assert len(world.ended) == 30


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
async def test_jobs_end_once_although_requests_are_refused_and_lost_and_watches_cut(
    world: FaultHarness, tmp_path: Path, seed: int
) -> None:
    async with FaultyProxy(world.plane, tmp_path / "proxy.yaml", seed) as proxy:
        proxy.watch_s = WATCH_S
        async with world.executors.executor(world.settings(proxy.kubeconfig)):
            await world.executors.until(lambda: world.executors.heartbeat is not None)
            proxy.refused_share, proxy.lost_share = 0.2, 0.1
            await world.submit(60, run_for="5s")
            await world.finish(fails=True)
        assert min(proxy.refused, proxy.lost, proxy.cut) > 0
