"""What the contract needs of each cluster: to be opened, and jobs that do what a clause needs."""

import asyncio
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fairlead_common.domain.ids import JobId, RunId, run_id
from fairlead_common.domain.records.leases import Lease
from fairlead_common.service import clock
from fairlead_executor.backends.kubernetes.api_client import ApiClient
from fairlead_executor.backends.kubernetes.kubernetes_cluster import KubernetesCluster
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.backends.process import ProcessCluster
from fairlead_executor.backends.simulated import NodeKind, SimulatedCluster, Simulation, behaviour
from fairlead_executor.backends.simulated.settings import build_nodes
from fairlead_executor.domain.cluster_protocol import Cluster
from fairlead_executor.domain.pods import Pod
from fairlead_executor.service.settings import ExecutorSettings
from tests.fake_api_server import FakeApiServer

WAIT_S_MAX: Final = 120.0

SUCCEEDS, FAILS, LASTS, STUBBORN = "succeeds", "fails with 3", "lasts", "ignores SIGTERM"
"""What a job can do; the last two until they are stopped."""
RETURNED = "is returned by its node"
"""Not on `process`, which returns a run only when the machine can start no process."""


class Bed(Protocol):
    """One kind of cluster."""

    cluster: Cluster
    namespace: str

    def lease(self, name: str, does: str) -> Lease:
        """A lease of a job that does this."""
        ...

    async def clear(self) -> None:
        """Return when what was removed is gone."""
        ...

    async def open(self) -> None:
        """Open the cluster; a second time: as a new executor would, after the first was killed."""
        ...

    async def close(self) -> None:
        """Give it up."""
        ...


def run_of(name: str) -> RunId:
    """The id of the job's first run."""
    return run_id(_job(name), 1)


def _job(name: str) -> JobId:
    return JobId(name.ljust(28, "0"))


def _lease(name: str, node: str, command: list[str], annotations: dict[str, str]) -> Lease:
    return Lease(
        job_id=_job(name),
        run=1,
        queue="q",
        job_set="s",
        node=node,
        grace_s=20,
        annotations=annotations,
        spec=msgspec.Raw(json.dumps({"containers": [{"command": command}]}).encode()),
    )


class SimulatedBed:
    """Runs of a few milliseconds of real time."""

    cluster: Cluster
    namespace = "default"

    def __init__(self, folder: Path) -> None:
        pass

    async def open(self) -> None:
        """See `Bed`."""
        kinds = (NodeKind(count=3),)
        nodes = build_nodes(kinds, "e", "default", {})
        self.cluster = SimulatedCluster(nodes, Simulation(min_s=0.02), clock.now_ms)

    def lease(self, name: str, does: str) -> Lease:
        """See `Bed`."""
        said = {
            SUCCEEDS: {},
            FAILS: {behaviour.EXIT_CODE: "3"},
            LASTS: {behaviour.SECONDS: "3600"},
            STUBBORN: {behaviour.SECONDS: "3600", behaviour.STOP_SECONDS: "3600"},
            RETURNED: {behaviour.FAILURE: "returned"},
        }[does]
        return _lease(name, "n0", ["x"], said)

    async def clear(self) -> None:
        """See `Bed`."""

    async def close(self) -> None:
        """See `Bed`."""
        await self.cluster.close()


class ProcessBed:
    """Processes of this machine."""

    cluster: Cluster
    namespace = "default"

    def __init__(self, folder: Path) -> None:
        self._settings = ExecutorSettings(executor="e", data=str(folder))
        self._work: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """See `Bed`."""
        if self._work is not None:
            await self.close()
        self.cluster = await ProcessCluster.open(self._settings, "a log")
        self._work = asyncio.create_task(self.cluster.run())

    def lease(self, name: str, does: str) -> Lease:
        """See `Bed`."""
        command = {
            SUCCEEDS: ["true"],
            FAILS: ["sh", "-c", "exit 3"],
            LASTS: ["sleep", "3600"],
            STUBBORN: ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"],
        }[does]
        return _lease(name, self.cluster.nodes()[0].name, command, {})

    async def clear(self) -> None:
        """See `Bed`."""

    async def close(self) -> None:
        """See `Bed`."""
        assert self._work is not None
        self._work.cancel()
        await asyncio.wait((self._work,))
        await self.cluster.close()


class KubernetesBed:
    """Pods of a real API server, on nodes of KWOK or real ones.

    Each bed is an executor with a name of its own in a namespace of its own.
    """

    cluster: Cluster

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = f"contract-{secrets.token_hex(4)}"
        self._settings = ExecutorSettings(
            executor=self.namespace,
            backend="kubernetes",
            kubernetes=KubernetesSettings(
                kubeconfig=str(kubeconfig), namespaces="create", ended_pods_max=0
            ),
        )
        self._work: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """See `Bed`."""
        if self._work is not None:
            await self.close()
        self.cluster = await KubernetesCluster.open(self._settings, "a log", lambda: 0.5)
        self._work = asyncio.create_task(self.cluster.run())

    def lease(self, name: str, does: str) -> Lease:
        """See `Bed`: a command for real nodes, and what nodes of KWOK do instead."""
        run_for, stubborn = "fairlead.test/run-for", "fairlead.test/stubborn"
        command, annotations = {
            SUCCEEDS: (["true"], {run_for: "10ms"}),
            FAILS: (
                ["sh", "-c", "exit 3"],
                {run_for: "10ms", "fairlead.test/exit-code": "3"},
            ),
            LASTS: (["sleep", "3600"], {run_for: "3600s"}),
            STUBBORN: (["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], {stubborn: "1"}),
            RETURNED: (["true"], {"fairlead.test/refused": "cpu"}),
        }[does]
        container = {"name": "main", "image": "busybox:1.37", "command": command}
        node = next(node for node in self.cluster.nodes() if not node.unschedulable)
        lease = _lease(name, node.name, command, annotations)
        return msgspec.structs.replace(
            lease,
            namespace=self.namespace,
            spec=msgspec.Raw(json.dumps({"containers": [container]}).encode()),
        )

    async def clear(self) -> None:
        """See `Bed`: wait until its pods are gone, and remove its namespace."""
        client = await ApiClient.open(self._settings.kubernetes, clock.monotonic_s)
        path = f"/api/v1/namespaces/{self.namespace}"
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                while json.loads(await client.get(f"{path}/pods"))["items"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await client.request("DELETE", path)
        finally:
            await client.close()

    async def close(self) -> None:
        """See `Bed`."""
        assert self._work is not None
        self._work.cancel()
        await asyncio.wait((self._work,))
        await self.cluster.close()


class FakeKubernetesBed(KubernetesBed):
    """The same on an API server in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "kubeconfig.yaml")
        self._server: FakeApiServer | None = None

    async def open(self) -> None:
        """See `Bed`."""
        if self._server is None:
            self._server = await FakeApiServer(self.kubeconfig).__aenter__()
        await super().open()

    async def clear(self) -> None:
        """See `Bed`; this is the end of the server, too."""
        await super().clear()
        assert self._server is not None
        await self._server.__aexit__()


async def until(cluster: Cluster, name: str, is_so: Callable[[Pod], bool]) -> Pod:
    """Wait until the job's pod is as described; the pod."""
    return await until_run(cluster, run_of(name), is_so)


async def until_run(cluster: Cluster, run: RunId, is_so: Callable[[Pod], bool]) -> Pod:
    """Wait until this pod is as described; the pod."""
    async with asyncio.timeout(WAIT_S_MAX):
        while True:
            cluster.changes(clock.now_ms())
            pod = cluster.pods.get(run)
            if pod is not None and is_so(pod):
                return pod
            await cluster.changed()
