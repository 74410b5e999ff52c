"""The simulated cluster: timed events, no task per pod.

Its time advances only in `changes(now_ms)`, so it works in real time, faster, and in the virtual
time of a simulation. Methods inject failures: nodes and pods can be lost, starts can be paused.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, RunId, run_id
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.backends.simulated.behaviour import Behaviour, decide_behaviour
from fairlead_executor.backends.simulated.settings import Simulation
from fairlead_executor.domain import pods
from fairlead_executor.domain.cluster_protocol import GroupFile
from fairlead_executor.domain.pods import End, Phase, Pod
from fairlead_executor.domain.run_logs import LogEnd, LogEndRequest, LogRequest, NoLog

_NEXT_S_MAX: Final = 60.0


class _Run(msgspec.Struct, gc=False):
    """A live pod and its behaviour. Events for an older `version` are ignored."""

    pod: Pod
    behaviour: Behaviour
    end: End
    version: int = 0
    stops_ms: int = 0


class SimulatedCluster:
    """A `Cluster`; see `cluster_protocol.py`. `clock_ms` only decides how long to wait."""

    backend = "simulated"
    stops_with_executor = True

    def __init__(
        self, nodes: Sequence[Node], simulation: Simulation, clock_ms: Callable[[], int]
    ) -> None:
        self._nodes = list(nodes)
        self._names = {node.name for node in nodes}
        self._simulation = simulation
        self._clock_ms = clock_ms
        self._pods: dict[RunId, Pod] = {}
        self._runs: dict[RunId, _Run] = {}
        self._events: dict[int, list[tuple[RunId, int]]] = {}
        """By time (ms): runs, and the version for which their event is."""
        self._times: list[int] = []
        """A heap of these times."""
        self._changed: dict[RunId, None] = {}
        self._nodes_changed = False
        self._changed_event = asyncio.Event()
        self._now_ms = 0
        self.starts_paused = False
        """While True, created runs do not start."""

    @property
    def pods(self) -> Mapping[RunId, Pod]:
        """See `Cluster`."""
        return self._pods

    def nodes(self) -> Sequence[Node]:
        """See `Cluster`."""
        return self._nodes

    def problem(self) -> str | None:
        """See `Cluster`."""
        return None

    def changes(self, now_ms: int) -> Collection[RunId]:
        """See `Cluster`: applies all events that are due."""
        self._now_ms = max(self._now_ms, now_ms)
        while self._times and self._times[0] <= now_ms:
            due_ms = heapq.heappop(self._times)
            for run, version in self._events.pop(due_ms):
                live = self._runs.get(run)
                if live is not None and live.version == version:
                    self._apply(run, live, due_ms)
        self._changed_event.clear()
        self._nodes_changed = False
        changed, self._changed = self._changed, {}
        return changed.keys()

    def next_ms(self) -> int | None:
        """The time of the next event; None if no event is scheduled."""
        return self._times[0] if self._times else None

    async def changed(self) -> None:
        """See `Cluster`."""
        while not (self._changed or self._nodes_changed):
            next_ms = self.next_ms()
            wait_s = _NEXT_S_MAX if next_ms is None else (next_ms - self._clock_ms()) / 1000
            if wait_s <= 0:
                return
            try:
                async with asyncio.timeout(min(wait_s, _NEXT_S_MAX)):
                    await self._changed_event.wait()
            except TimeoutError:
                continue
            self._changed_event.clear()

    def create(self, leases: Sequence[Lease], now_ms: int) -> None:
        """See `Cluster`."""
        for lease in leases:
            run = run_id(lease.job_id, lease.run)
            if run in self._pods:
                continue
            if lease.node not in self._names:
                self._put_ended(run, pods.returned(f"there is no node {lease.node}"), now_ms)
                continue
            if lease.services or lease.ingresses:
                end = pods.failed(FailureCategory.ADMISSION, pods.NO_SERVICES)
                self._put_ended(run, end, now_ms)
                continue
            behaviour = decide_behaviour(run, lease, self._simulation)
            pod = Pod(run, Phase.CREATED, lease.node, grace_s=lease.grace_s)
            live = self._runs[run] = _Run(pod, behaviour, behaviour.end)
            self._put(run, pod)
            if not self.starts_paused:
                self._schedule(now_ms + behaviour.start_ms, run, live)
        self._changed_event.set()

    def write_group_file(self, group: GroupFile) -> None:
        """See `Cluster`: simulated runs read no files."""

    def retain_groups(self, groups: Collection[GroupId]) -> None:
        """See `Cluster`: nothing is made for groups."""

    def stop(self, run: RunId, grace_s: int, end: End) -> None:
        """See `Cluster`."""
        live = self._runs.get(run)
        if live is None:
            return
        grace_ms = round(grace_s * 1000 / self._simulation.speed)
        started = live.pod.phase is Phase.RUNNING
        due_ms = self._now_ms + (min(live.behaviour.stop_ms, grace_ms) if started else 0)
        if live.pod.stopping and due_ms >= live.stops_ms:
            return
        if not live.pod.stopping:
            live.end = end
            live.pod = msgspec.structs.replace(live.pod, stopping=True)
            self._put(run, live.pod)
        live.version += 1
        live.stops_ms = due_ms
        self._schedule(due_ms, run, live)
        self._changed_event.set()

    def prevent_start(self, run: RunId, end: End, now_ms: int, namespace: str = "default") -> None:
        """See `Cluster`."""
        if run not in self._pods:
            self._put_ended(run, end, now_ms)
            self._changed_event.set()

    def remove(self, runs: Sequence[RunId]) -> None:
        """See `Cluster`."""
        for run in runs:
            if run not in self._runs:
                self._pods.pop(run, None)
                self._changed.pop(run, None)

    async def logs(self, run: RunId, request: LogRequest) -> AsyncIterator[bytes]:
        """See `Cluster`."""
        raise self._explain_missing_log(run)
        yield b""  # type: ignore[unreachable]  # makes it a generator

    async def log_end(self, run: RunId, request: LogEndRequest) -> LogEnd:
        """See `Cluster`."""
        raise self._explain_missing_log(run)

    def _explain_missing_log(self, run: RunId) -> NoLog:
        if run in self._pods:
            return NoLog("a simulated run does no work and writes nothing")
        return NoLog("it has not started here, or has been removed")

    async def run(self) -> None:
        """See `Cluster`: this cluster has no work of its own."""

    async def close(self) -> None:
        """See `Cluster`."""

    # Failures.

    def lose_node(self, name: str) -> None:
        """Remove a node; its runs fail."""
        self._nodes = [node for node in self._nodes if node.name != name]
        self._names.discard(name)
        end = pods.failed(FailureCategory.NODE_LOST, f"the node {name} no longer exists")
        for run in [run for run, live in self._runs.items() if live.pod.node == name]:
            self._end(run, end, self._now_ms)
        self._nodes_changed = True
        self._changed_event.set()

    def add_node(self, node: Node) -> None:
        """Add or replace a node."""
        self._nodes = [*(other for other in self._nodes if other.name != node.name), node]
        self._names.add(node.name)
        self._nodes_changed = True
        self._changed_event.set()

    def fail(self, run: RunId, end: End) -> None:
        """End a live pod now, with this end."""
        if run in self._runs:
            self._end(run, end, self._now_ms)
            self._changed_event.set()

    def lose_pod(self, run: RunId) -> None:
        """Remove a pod, live or ended, without an end."""
        self._runs.pop(run, None)
        if self._pods.pop(run, None) is not None:
            self._changed[run] = None
            self._changed_event.set()

    def resume_starts(self) -> None:
        """Start the runs that were created while starts were paused."""
        self.starts_paused = False
        for run, live in self._created():
            self._schedule(self._now_ms + live.behaviour.start_ms, run, live)
        self._changed_event.set()

    # Internal.

    def _created(self) -> Iterator[tuple[RunId, _Run]]:
        for run, live in self._runs.items():
            if live.pod.phase is Phase.CREATED and not live.pod.stopping:
                yield run, live

    def _apply(self, run: RunId, live: _Run, due_ms: int) -> None:
        if live.pod.phase is Phase.CREATED and not live.pod.stopping and live.behaviour.starts:
            live.pod = msgspec.structs.replace(
                live.pod, phase=Phase.RUNNING, started_ms=due_ms, address=live.pod.node
            )
            self._put(run, live.pod)
            self._schedule(due_ms + live.behaviour.run_ms, run, live)
        else:
            self._end(run, live.end, due_ms)

    def _end(self, run: RunId, end: End, now_ms: int) -> None:
        pod = self._runs.pop(run).pod
        self._put(
            run,
            Pod(
                run,
                Phase.ENDED,
                pod.node,
                started_ms=pod.started_ms,
                ended_ms=now_ms,
                stopping=pod.stopping,
                grace_s=pod.grace_s,
                end=end,
            ),
        )

    def _put_ended(self, run: RunId, end: End, now_ms: int) -> None:
        self._put(run, Pod(run, Phase.ENDED, ended_ms=now_ms, end=end))

    def _put(self, run: RunId, pod: Pod) -> None:
        self._pods[run] = pod
        self._changed[run] = None

    def _schedule(self, due_ms: int, run: RunId, live: _Run) -> None:
        event = run, live.version
        at_that_time = self._events.get(due_ms)
        if at_that_time is None:
            self._events[due_ms] = [event]
            heapq.heappush(self._times, due_ms)
        else:
            at_that_time.append(event)
