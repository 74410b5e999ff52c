"""An executor's Kubernetes cluster, and leases of jobs that do what their annotations say."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fairlead_common.domain.ids import JobId, RunId, run_id
from fairlead_common.domain.records.events import NetworkObject
from fairlead_common.domain.records.leases import Lease
from fairlead_common.service import clock
from fairlead_executor.backends.kubernetes.kubernetes_cluster import KubernetesCluster
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_executor.domain.pods import Pod
from fairlead_executor.domain.run_logs import LogEndRequest, LogRequest
from fairlead_executor.service.settings import ExecutorSettings

WAIT_S_MAX = 60.0


class World:
    """A cluster that can be opened again, with other settings. `executor`: its name."""

    cluster: KubernetesCluster

    def __init__(self, kubeconfig: Path, executor: str = "e") -> None:
        self.kubeconfig = kubeconfig
        self.executor = executor
        self._work: asyncio.Task[None] | None = None

    async def open(self, log_id: str = "a log", secrets_key: str = "", **settings: Any) -> None:
        """Open it as a new executor would, after the former one was killed.

        `Any`: settings of the backend.
        """
        await self.close()
        own = KubernetesSettings(kubeconfig=str(self.kubeconfig), **settings)
        whole = ExecutorSettings(
            executor=self.executor, backend="kubernetes", kubernetes=own, secrets_key=secrets_key
        )
        self.cluster = await KubernetesCluster.open(whole, log_id, lambda: 0.0)
        self._work = asyncio.create_task(self.cluster.run())

    async def close(self) -> None:
        """Kill the executor."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait((self._work,))
            self._work = None
            await self.cluster.close()

    def create(self, name: str = "a", node: str = "n0", **fields: Any) -> RunId:
        """Create a run; `fields` are of its lease. `Any`: those."""
        lease = make_lease(name, node, **fields)
        self.cluster.create([lease], clock.now_ms())
        return run_id(lease.job_id, 1)

    async def read_log(self, run: RunId, **request: Any) -> bytes:
        """The log of a run. `Any`: fields of the request."""
        parts = self.cluster.logs(run, LogRequest(**request))
        return b"".join([part async for part in parts])

    async def read_log_end(
        self, run: RunId, bytes_max: int, lines_max: int | None = None
    ) -> tuple[bytes, bool]:
        """The end of the log of a run, and whether the log begins before it."""
        end = await self.cluster.log_end(
            run, LogEndRequest(bytes_max=bytes_max, lines_max=lines_max)
        )
        return b"".join([chunk async for chunk in end.chunks]), end.part.is_cut

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for this; it is looked at whenever the cluster or the server can have changed."""
        async with asyncio.timeout(WAIT_S_MAX):
            while not is_so():
                self.cluster.changes(clock.now_ms())
                await asyncio.sleep(0.01)

    async def until_pod(self, run: RunId, is_so: Callable[[Pod], bool]) -> Pod:
        """Wait until the run's pod is as described; the pod."""

        def there() -> bool:
            pod = self.cluster.pods.get(run)
            return pod is not None and is_so(pod)

        await self.until(there)
        return self.cluster.pods[run]

    async def until_ended(self, run: RunId) -> Pod:
        """Wait until the run has ended; its pod."""
        return await self.until_pod(run, lambda pod: not pod.live)


SERVICE = NetworkObject(name="web", spec=msgspec.Raw(b'{"ports": [{"port": 80}]}'))
INGRESS = NetworkObject(
    name="web",
    annotations={"note": "x"},
    spec=msgspec.Raw(
        b'{"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}},'
        b' "rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType":'
        b' "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}'
    ),
)


def make_lease(name: str = "a", node: str = "n0", **fields: Any) -> Lease:
    """A lease; its `annotations` say what the node does with the pod. `Any`: fields of a lease."""
    annotations = fields.pop("annotations", {})
    spec = fields.pop("spec", {"containers": [{"name": "main", "image": "x"}]})
    return Lease(
        job_id=JobId(name.ljust(28, "0")),
        run=1,
        queue="q",
        job_set="s",
        node=node,
        annotations={f"fairlead.test/{key}": text for key, text in annotations.items()},
        spec=msgspec.Raw(json.dumps(spec).encode()),
        **fields,
    )


def class_object(name: str, *expressions: str) -> dict[str, Any]:
    """A device class; without expressions that of all devices of the driver. `Any`: JSON."""
    written = expressions or ('device.driver == "gpu.example.com"',)
    selectors = [{"cel": {"expression": each}} for each in written]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors},
    }


def slice_object(
    name: str,
    devices: int,
    node: str | None = None,
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    first: int = 0,
    **spec: Any,
) -> dict[str, Any]:
    """A slice with devices d0, d1, ... of a node, by default of the same name. `Any`: JSON."""
    numbers = range(first, first + devices)
    listed = [{"name": f"d{n}", "attributes": {"index": {"int": n}}} for n in numbers]
    of_pool = {"name": pool or name, "generation": generation, "resourceSliceCount": count}
    if node != "":
        spec["nodeName"] = node or name
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {"driver": "gpu.example.com", "pool": of_pool, "devices": listed, **spec},
    }


def claim_object(*devices: str, pod: str = "", pool: str = "n0", **metadata: Any) -> dict[str, Any]:
    """A claim that has these devices, for a pod. `Any`: JSON."""
    results = [
        {"driver": "gpu.example.com", "pool": pool, "device": device, "request": "r"}
        for device in devices
    ]
    reserved = [{"resource": "pods", "name": pod, "uid": "u"}] if pod else []
    return {
        "metadata": {"name": "claim", "namespace": "default", "uid": "claim", **metadata},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    }
