"""Many jobs on real API servers: from submission to success, on nodes of KWOK.

    python bench/kubernetes.py --nodes 2000 --jobs 10000 [--clusters 2] [--json]
    ... --binding direct     pods name their node; kube-scheduler is stopped
    ... --alone              before, kube-scheduler alone binds pods without Fairlead
    ... --retained 10000     the executors retain this number of ended pods: for their memory
    ... --hold               jobs run until all do at once: memory of the executors by running pods
    ... --split              control planes on the first half of the processors, the rest on the
                             other: what Fairlead costs them as if it ran on another machine

Starts one control plane per cluster (`make kubernetes`; they share an etcd) and a whole Fairlead by
`fairlead up --kubeconfig`, with one executor per cluster and all nodes in one pool. A watch of the
bench records when it sees each pod created, bound and ended. `reportSeconds` is the time from then
until the executor's report of the success is in the log: the lag of the executor's watch and of its
plan. The processes share the machine, so rates are lower bounds; `cpuMsPerPod` is what one pod
costs the executor, `cpuS` what each program used from the first job to the end (s), and
`requestsPerPod` what the API servers answered. The last line of output is one JSON object.
"""

import argparse
import asyncio
import contextlib
import datetime
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
import psutil

from fairlead import AsyncClient, Job
from fairlead_executor.backends.kubernetes.api_client import ApiClient, ApiUnavailable
from fairlead_executor.backends.kubernetes.domain import api_objects
from fairlead_executor.backends.kubernetes.settings import KubernetesSettings
from fairlead_standalone.service.testing import StandaloneInstallation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/kubernetes.py`

from bench import e2e, folders
from tests.kubernetes_control_plane import ControlPlane

POOL: Final = "bench"
ALONE: Final = "alone-"
"""How the names of pods begin that are created without Fairlead."""
QUEUE: Final = "bench"
JOBS_PER_REQUEST: Final = 500
REQUESTS_MAX: Final = 32
REQUEST_S_MAX: Final = 600
"""The deletion of all pods of a namespace is one request."""
BEST_S: Final = 5.0
"""The best rate is that of the best interval of this length (s)."""
DRAIN_S_MAX: Final = 1_800.0
POLL_S: Final = 1.0
ANNOTATIONS: Final = {"fairlead.test/run-for": "1s"}
HELD_CPU: Final = "100m"
HELD_STEP: Final = 2_000
"""With `--hold` the memory is read each time that this number of pods more is running."""
CONTAINER: Final = {
    "name": "main",
    "image": "busybox",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
}

REQUESTS_METRIC: Final = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


class Seen(msgspec.Struct):
    """When the bench saw what happened to a pod (s since 1970); 0: not yet."""

    created_s: float = 0.0
    bound_s: float = 0.0
    ended_s: float = 0.0


class PodWatch:
    """Follows the pods of one cluster, except those whose names begin with `skipped`."""

    def __init__(self, client: ApiClient, skipped: str) -> None:
        self.seen: dict[str, Seen] = {}
        self._client = client
        self._skipped = skipped

    async def run(self) -> None:
        """Until cancelled; begins again when the server ends the watch."""
        while True:
            with contextlib.suppress(ApiUnavailable):
                async with self._client.stream("/api/v1/pods", {"watch": "1"}, None) as lines:
                    async for line in lines:
                        self._note(line)

    def _note(self, line: bytes) -> None:
        event = api_objects.event_decoder.decode(line)
        pod = api_objects.pod_decoder.decode(event.object)
        if event.type == "DELETED" or pod.metadata.name.startswith(self._skipped):
            return
        seen = self.seen.setdefault(pod.metadata.name, Seen())
        now_s = time.time()
        seen.created_s = seen.created_s or now_s
        if pod.spec.node_name:
            seen.bound_s = seen.bound_s or now_s
        if pod.status.phase in ("Succeeded", "Failed"):
            seen.ended_s = seen.ended_s or now_s


class Cluster(msgspec.Struct, frozen=True):
    """A control plane and what the bench has of it."""

    name: str
    plane: ControlPlane
    client: ApiClient
    watch: PodWatch


def main() -> None:
    """Read the arguments and run the bench."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=2_000, help="of all clusters")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--binding", choices=("affinity", "direct"), default="affinity")
    parser.add_argument("--alone", action="store_true", help="kube-scheduler alone, before")
    parser.add_argument("--hold", action="store_true", help="jobs run until all do at once")
    parser.add_argument("--split", action="store_true", help="control planes on half the machine")
    parser.add_argument("--retained", type=int, default=1_000, help="ended pods per executor")
    parser.add_argument("--json", action="store_true", help="nothing but the JSON on stdout")
    given = parser.parse_args()
    with folders.temporary_folder("kubernetes") as folder:
        found = run(given, Path(folder))
    if not given.json:
        print(json.dumps(found, indent=2))
    print(json.dumps(found))


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start everything, run the bench, end everything. `Any`: JSON."""
    processors = sorted(os.sched_getaffinity(0))
    half = max(1, len(processors) // 2)
    with contextlib.ExitStack() as stack:
        planes: list[ControlPlane] = []
        if given.split:
            os.sched_setaffinity(0, processors[:half])
        for number in range(given.clusters):
            place = folder / f"c{number}"
            place.mkdir()
            beside = planes[0] if planes else None
            planes.append(stack.enter_context(ControlPlane(place, beside)))
        if given.split:
            os.sched_setaffinity(0, processors[half:])
        for number, plane in enumerate(planes):
            count = given.nodes // given.clusters
            names = [f"c{number}-n{index}" for index in range(count)]
            plane.add_nodes(*names, labels={"fairlead.dev/pool": POOL})
        e2e.say(f"{given.nodes} nodes are ready")
        options = [f"--kubeconfig=c{n}={plane.kubeconfig}" for n, plane in enumerate(planes)]
        own = {"binding": given.binding, "endedPodsMax": given.retained}
        standalone = StandaloneInstallation(
            folder, *options, environment={"FAIRLEAD_KUBERNETES": json.dumps(own)}
        )
        return asyncio.run(bench(given, planes, stack.enter_context(standalone)))


async def bench(
    given: argparse.Namespace, planes: Sequence[ControlPlane], standalone: StandaloneInstallation
) -> dict[str, Any]:
    """Kube-scheduler alone if wanted, then Fairlead. `Any`: JSON."""
    found: dict[str, Any] = {
        "bench": "kubernetes",
        "cores": os.cpu_count(),
        "clusters": given.clusters,
        "nodes": given.nodes,
        "jobs": given.jobs,
        "binding": given.binding,
    }
    if given.alone:
        async with watched(planes) as clusters:
            share = given.jobs // given.clusters
            before, answered = read_cpu_s(planes), await count_requests(clusters)
            await asyncio.gather(*(run_alone(cluster, share) for cluster in clusters))
            found["alone"] = {each.name: rates(each.watch.seen.values()) for each in clusters}
            found["alone"]["cpuS"] = subtract(read_cpu_s(planes), before)
            answers = subtract(await count_requests(clusters), answered)
            found["alone"]["requestsPerPod"] = per_pod(answers, given.jobs)
    if given.binding == "direct":
        for plane in planes:
            plane.scheduler.kill()
    standalone.start()
    headers = {"authorization": f"Bearer {standalone.token}"}
    async with (
        watched(planes, skipped=ALONE) as clusters,
        AsyncClient(standalone.address, token=standalone.token) as client,
        httpx2.AsyncClient(
            base_url=standalone.address, headers=headers, trust_env=False, timeout=60.0
        ) as http,
    ):
        await client.create_queue(QUEUE)
        while not await knows_nodes(http, given.nodes):  # noqa: ASYNC110 (another process)
            await asyncio.sleep(POLL_S)
        before, answered = read_cpu_s(planes, standalone), await count_requests(clusters)
        run_all = hold_jobs if given.hold else run_jobs
        ran = await run_all(given, standalone, clusters, client, http)
        found["cpuS"] = subtract(read_cpu_s(planes, standalone), before)
        answers = subtract(await count_requests(clusters), answered)
        return {**found, **ran, "requestsPerPod": per_pod(answers, given.jobs)}


@contextlib.asynccontextmanager
async def watched(
    planes: Sequence[ControlPlane], skipped: str = "-"
) -> AsyncIterator[list[Cluster]]:
    """The clusters while their pods are watched; `skipped`: how names begin that do not count."""
    clusters: list[Cluster] = []
    for number, plane in enumerate(planes):
        settings = KubernetesSettings(
            kubeconfig=str(plane.kubeconfig), request_timeout_s=REQUEST_S_MAX
        )
        client = await ApiClient.open(settings, time.monotonic)
        clusters.append(Cluster(f"c{number}", plane, client, PodWatch(client, skipped)))
    async with asyncio.TaskGroup() as tasks:
        watches = [tasks.create_task(each.watch.run()) for each in clusters]
        yield clusters
        for task in watches:
            task.cancel()
    for each in clusters:
        await each.client.close()


async def run_alone(cluster: Cluster, count: int) -> None:
    """Create pods without a node, and wait until kube-scheduler has bound all; delete them."""
    path = "/api/v1/namespaces/default/pods"
    free = asyncio.Semaphore(REQUESTS_MAX)

    async def create(number: int) -> None:
        name = f"{ALONE}{number}"
        metadata = {"name": name, "annotations": ANNOTATIONS}
        body = {"metadata": metadata, "spec": {"containers": [CONTAINER]}}
        async with free:
            response = await cluster.client.request("POST", path, body)
            assert response.code == 201, response.body

    await asyncio.gather(*map(create, range(count)))
    seen = cluster.watch.seen
    while sum(each.ended_s > 0 for each in seen.values()) < count:  # noqa: ASYNC110 (a watch)
        await asyncio.sleep(POLL_S)
    parameters = {"fieldSelector": "status.phase=Succeeded"}
    await cluster.client.request("DELETE", path, {"gracePeriodSeconds": 0}, parameters=parameters)


async def run_jobs(
    given: argparse.Namespace,
    standalone: StandaloneInstallation,
    clusters: Sequence[Cluster],
    client: AsyncClient,
    http: httpx2.AsyncClient,
) -> dict[str, Any]:
    """All jobs from their submission to their success. `Any`: JSON."""
    executors = {each.name: find_executor(standalone, each.name) for each in clusters}
    before = {name: cpu_s(process) for name, process in executors.items()}
    idle_mb = {name: peak_mb(process) for name, process in executors.items()}
    began_s = time.monotonic()
    await submit(client, given.jobs, {"cpu": "1", "annotations": ANNOTATIONS})
    while not await have_succeeded(http, given.jobs):
        assert time.monotonic() - began_s < DRAIN_S_MAX, standalone.report
        await asyncio.sleep(POLL_S)
    seconds = time.monotonic() - began_s
    reported = await read_successes(http, -(-given.jobs // JOBS_PER_REQUEST))
    found: dict[str, Any] = {
        "seconds": round(seconds, 1),
        "jobsPerSecond": round(given.jobs / seconds, 1),
    }
    for cluster in clusters:
        seen = cluster.watch.seen
        used_s = cpu_s(executors[cluster.name]) - before[cluster.name]
        lags = [
            reported[run.rpartition("-")[0]] - each.ended_s
            for run, each in seen.items()
            if run.rpartition("-")[0] in reported and each.ended_s
        ]
        found[cluster.name] = {
            **rates(seen.values()),
            "reportSeconds": e2e.summary(lags),
            "executorCpuS": round(used_s, 2),
            "cpuMsPerPod": round(1_000 * used_s / max(1, len(seen)), 2),
            "executorIdleMb": idle_mb[cluster.name],
            "executorPeakMb": peak_mb(executors[cluster.name]),
        }
    return found


async def submit(client: AsyncClient, count: int, more: dict[str, object]) -> None:
    """Submit this number of jobs; `more`: fields of each."""
    began_s = time.monotonic()
    defaults = {"pool": POOL, "image": "busybox", "command": ["true"], "memory": "100Mi", **more}
    for first in range(0, count, JOBS_PER_REQUEST):
        several = range(first, min(count, first + JOBS_PER_REQUEST))
        jobs = [Job(client_id=f"j{number}") for number in several]
        await client.submit(QUEUE, f"set-{first // JOBS_PER_REQUEST}", jobs, defaults=defaults)
    e2e.say(f"{count} jobs accepted after {time.monotonic() - began_s:.1f} s")


async def hold_jobs(
    given: argparse.Namespace,
    standalone: StandaloneInstallation,
    clusters: Sequence[Cluster],
    client: AsyncClient,
    http: httpx2.AsyncClient,
) -> dict[str, Any]:
    """All jobs until they run at the same time; what the executors have then. `Any`: JSON."""
    executors = {each.name: find_executor(standalone, each.name) for each in clusters}
    before = {name: cpu_s(process) for name, process in executors.items()}
    began_s = time.monotonic()
    await submit(client, given.jobs, {"cpu": HELD_CPU})
    steps: list[dict[str, Any]] = []
    running = 0
    while running < given.jobs:
        assert time.monotonic() - began_s < DRAIN_S_MAX, standalone.report
        await asyncio.sleep(POLL_S)
        running = (await e2e.counts(http)).get("RUNNING", 0)
        if running >= min(given.jobs, HELD_STEP * (len(steps) + 1)):
            memory = {name: resident_mb(process) for name, process in executors.items()}
            steps.append({"running": running, "executorMb": memory})
            e2e.say(f"  {steps[-1]}")
    found: dict[str, Any] = {"seconds": round(time.monotonic() - began_s, 1), "held": steps}
    for cluster in clusters:
        process, seen = executors[cluster.name], cluster.watch.seen
        used_s = cpu_s(process) - before[cluster.name]
        found[cluster.name] = {
            **rates(seen.values()),
            "cpuMsPerPod": round(1_000 * used_s / max(1, len(seen)), 2),
            "executorPeakMb": peak_mb(process),
        }
    return found


def rates(pods: Iterable[Seen]) -> dict[str, float]:
    """Pods a second, created and bound: over all, and in the best interval."""
    listed = list(pods)
    created = sorted(each.created_s for each in listed)
    bound = sorted(each.bound_s for each in listed if each.bound_s)
    return {
        "pods": len(listed),
        "createdPerSecond": rate(created),
        "createdPerSecondBest": best_rate(created),
        "boundPerSecond": rate(bound),
        "boundPerSecondBest": best_rate(bound),
    }


def rate(times_s: Sequence[float]) -> float:
    """Per second, from the first to the last."""
    if len(times_s) < 2:
        return 0.0
    return round((len(times_s) - 1) / max(times_s[-1] - times_s[0], 1e-3), 1)


def best_rate(times_s: Sequence[float]) -> float:
    """Per second, in the best interval of `BEST_S`."""
    best, first = 0, 0
    for last, time_s in enumerate(times_s):
        while time_s - times_s[first] > BEST_S:
            first += 1
        best = max(best, last - first + 1)
    return round(best / BEST_S, 1)


async def knows_nodes(http: httpx2.AsyncClient, count: int) -> bool:
    """Whether all nodes are known."""
    answer = (await http.get("/api/v1/clusters")).json()
    return bool(sum(cluster["nodes"] for cluster in answer["clusters"]) >= count)


async def have_succeeded(http: httpx2.AsyncClient, count: int) -> bool:
    """Whether this number of jobs has succeeded."""
    states = await e2e.counts(http)
    e2e.say(f"  {states}")
    return states.get("SUCCEEDED", 0) >= count


async def read_successes(http: httpx2.AsyncClient, sets: int) -> dict[str, float]:
    """When the success of each job came into the log (s since 1970)."""
    found: dict[str, float] = {}
    for number in range(sets):
        async for event in e2e.events(http, QUEUE, f"set-{number}", "succeeded"):
            time_s = datetime.datetime.fromisoformat(event.time).timestamp()
            found.setdefault(event.job_id, time_s)
    return found


def find_executor(standalone: StandaloneInstallation, name: str) -> psutil.Process:
    """The process of the executor of this name."""
    for process in standalone.supervisor.children():
        if process.environ().get("FAIRLEAD_EXECUTOR") == name:
            return process
    raise AssertionError(f"no executor {name}")


def read_cpu_s(
    planes: Sequence[ControlPlane], standalone: StandaloneInstallation | None = None
) -> dict[str, float]:
    """What each program has used until now, in all clusters, and this bench itself (s)."""
    found = {"bench": cpu_s(psutil.Process())}
    servers = {each for p in planes for each in (p.etcd, p.api_server, p.scheduler, p.kwok)}
    for server in servers:  # clusters can share an etcd
        with contextlib.suppress(psutil.NoSuchProcess):  # a scheduler that was killed
            process = psutil.Process(server.pid)
            found[process.name()] = found.get(process.name(), 0.0) + cpu_s(process)
    if standalone is not None:
        found["postgres"] = found["fairlead"] = found["executors"] = 0.0
        for process in standalone.supervisor.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # a backend of Postgres ends
                found[_program(process)] += cpu_s(process)
    return found


async def count_requests(clusters: Sequence[Cluster]) -> dict[str, float]:
    """How many requests of each kind all API servers have answered, by their own metrics."""
    counts: defaultdict[str, float] = defaultdict(float)
    for cluster in clusters:
        text = (await cluster.client.get("/metrics")).decode()
        for labels, count in REQUESTS_METRIC.findall(text):
            of = dict(LABEL.findall(labels))
            resource = "/".join(filter(None, (of["resource"], of["subresource"])))
            counts[f"{of['verb']} {resource}"] += float(count)
    return dict(counts)


def per_pod(counts: dict[str, float], pods: int) -> dict[str, float]:
    """The kinds with at least one request per 20 pods."""
    found = {kind: round(count / pods, 2) for kind, count in counts.items()}
    return {kind: each for kind, each in sorted(found.items()) if each >= 0.05}


def _program(process: psutil.Process) -> str:
    if process.name() == "postgres":
        return "postgres"
    return "executors" if "FAIRLEAD_EXECUTOR" in process.environ() else "fairlead"


def subtract(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """What was used, or counted, between two readings."""
    return {name: round(used - before.get(name, 0.0), 1) for name, used in after.items()}


def cpu_s(process: psutil.Process) -> float:
    """What it has used until now."""
    times = process.cpu_times()
    return float(times.user + times.system)


def resident_mb(process: psutil.Process) -> float:
    """Its resident memory now, in MB."""
    return round(process.memory_info().rss / 1e6, 1)


def peak_mb(process: psutil.Process) -> float:
    """The greatest resident memory that it has had, in MB."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    raise AssertionError("no VmHWM")


if __name__ == "__main__":
    main()
