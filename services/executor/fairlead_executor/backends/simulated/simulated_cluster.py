"""The simulated cluster: timed events, no task per pod.

Its time advances only in `changes(now_ms)`, so it works in real time, faster, and in the virtual
time of a simulation. Methods inject failures: nodes and pods can be lost, starts can be paused.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.ids import GroupId, RunId, run_id
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.backends.simulated.behaviour import Behaviour, Behaviours
from fairlead_executor.backends.simulated.settings import Simulation
from fairlead_executor.domain import pods
from fairlead_executor.domain.cluster_protocol import GroupFile
from fairlead_executor.domain.pods import End, Phase, Pod
from fairlead_executor.domain.run_logs import LogEnd, LogEndRequest, LogRequest, NoLog

_NEXT_S_MAX: Final = 60.0
_CREATED: Final = Phase.CREATED
_RUNNING: Final = Phase.RUNNING
_ENDED: Final = Phase.ENDED
"""Members of enumerations are read three times as fast by these names."""


class _Run(msgspec.Struct, gc=False):
    """A pod and its behaviour, as long as it lives. Events for an older `version` are ignored."""

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
        self._speed = simulation.speed
        self._behaviours = Behaviours(simulation)
        self._clock_ms = clock_ms
        self._pods: dict[RunId, Pod] = {}
        self._runs: dict[RunId, _Run] = {}
        self._events: dict[int, list[tuple[_Run, int]]] = {}
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
            for live, version in self._events.pop(due_ms):
                if live.version == version:
                    self._apply(live, due_ms)
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
            behaviour = self._behaviours.decide(run, lease)
            pod = Pod(run, _CREATED, lease.node, grace_s=lease.grace_s)
            live = self._runs[run] = _Run(pod, behaviour, behaviour.end)
            self._put(pod)
            if not self.starts_paused:
                self._schedule(now_ms + behaviour.start_ms, live)
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
        grace_ms = round(grace_s * 1000 / self._speed)
        started = live.pod.phase is Phase.RUNNING
        due_ms = self._now_ms + (min(live.behaviour.stop_ms, grace_ms) if started else 0)
        if live.pod.stopping and due_ms >= live.stops_ms:
            return
        if not live.pod.stopping:
            live.end = end
            live.pod = msgspec.structs.replace(live.pod, stopping=True)
            self._put(live.pod)
        live.version += 1
        live.stops_ms = due_ms
        self._schedule(due_ms, live)
        self._changed_event.set()

    def prevent_start(self, run: RunId, end: End, now_ms: int, namespace: str = "default") -> None:
        """See `Cluster`."""
        if run not in self._pods:
            self._put_ended(run, end, now_ms)
            self._changed_event.set()

    def remove(self, runs: Sequence[RunId]) -> None:
        """See `Cluster`."""
        for run in runs:
            pod = self._pods.get(run)
            if pod is not None and not pod.live:
                del self._pods[run]

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
        for live in [live for live in self._runs.values() if live.pod.node == name]:
            self._end(live, end, self._now_ms)
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
        live = self._runs.get(run)
        if live is not None:
            self._end(live, end, self._now_ms)
            self._changed_event.set()

    def lose_pod(self, run: RunId) -> None:
        """Remove a pod, live or ended, without an end."""
        live = self._runs.pop(run, None)
        if live is not None:
            live.version += 1
        if self._pods.pop(run, None) is not None:
            self._changed[run] = None
            self._changed_event.set()

    def resume_starts(self) -> None:
        """Start the runs that were created while starts were paused."""
        self.starts_paused = False
        for live in self._runs.values():
            if live.pod.phase is Phase.CREATED and not live.pod.stopping:
                self._schedule(self._now_ms + live.behaviour.start_ms, live)
        self._changed_event.set()

    # Internal.

    def _apply(self, live: _Run, due_ms: int) -> None:
        pod = live.pod
        if live.behaviour.starts and not pod.stopping and pod.phase is _CREATED:
            live.pod = Pod(
                pod.run,
                _RUNNING,
                pod.node,
                started_ms=due_ms,
                grace_s=pod.grace_s,
                address=pod.node,
            )
            self._put(live.pod)
            self._schedule(due_ms + live.behaviour.run_ms, live)
        else:
            self._end(live, live.end, due_ms)

    def _end(self, live: _Run, end: End, now_ms: int) -> None:
        pod = live.pod
        del self._runs[pod.run]
        live.version += 1
        ended = Pod(
            pod.run,
            _ENDED,
            pod.node,
            started_ms=pod.started_ms,
            ended_ms=now_ms,
            stopping=pod.stopping,
            grace_s=pod.grace_s,
            end=end,
        )
        self._put(ended)

    def _put_ended(self, run: RunId, end: End, now_ms: int) -> None:
        self._put(Pod(run, _ENDED, ended_ms=now_ms, end=end))

    def _put(self, pod: Pod) -> None:
        self._pods[pod.run] = pod
        self._changed[pod.run] = None

    def _schedule(self, due_ms: int, live: _Run) -> None:
        event = live, live.version
        at_that_time = self._events.get(due_ms)
        if at_that_time is None:
            self._events[due_ms] = [event]
            heapq.heappush(self._times, due_ms)
        else:
            at_that_time.append(event)
