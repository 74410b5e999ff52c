"""The simulated cluster: one heap of what happens when, no task per pod.

It moves only in `changes(now_ms)`, so it runs in real time, faster, or in a simulation's virtual
time alike. Faults are methods: nodes and pods can be lost, starts held back.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.ids import RunId, run_id
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.backends.simulated.behaviour import Behaviour, behaviour
from fairlead_executor.backends.simulated.settings import Simulation
from fairlead_executor.domain import pods
from fairlead_executor.domain.cluster_protocol import LogRequest, NoLog
from fairlead_executor.domain.pods import End, Phase, Pod

_NEXT_S_MAX: Final = 60.0


class _Run(msgspec.Struct, gc=False):
    """A pod that lives, and what it will do; `version` outdates what the heap holds of it."""

    pod: Pod
    behaviour: Behaviour
    end: End
    version: int = 0
    stops_ms: int = 0


class SimulatedCluster:
    """A `Cluster`; see `cluster.py`. `clock` (ms) is only asked how long to wait."""

    backend = "simulated"
    stops_with_executor = True

    def __init__(
        self, nodes: Sequence[Node], simulation: Simulation, clock: Callable[[], int]
    ) -> None:
        self._nodes = list(nodes)
        self._names = {node.name for node in nodes}
        self._simulation = simulation
        self._clock = clock
        self._pods: dict[RunId, Pod] = {}
        self._runs: dict[RunId, _Run] = {}
        self._heap: list[tuple[int, int, RunId, int]] = []
        self._count = itertools.count()
        self._changed: dict[RunId, None] = {}
        self._nodes_changed = False
        self._bell = asyncio.Event()
        self._now_ms = 0
        self.held_back = False
        """While True nothing that is created starts."""

    @property
    def pods(self) -> Mapping[RunId, Pod]:
        """See `Cluster`."""
        return self._pods

    def nodes(self) -> Sequence[Node]:
        """See `Cluster`."""
        return self._nodes

    def changes(self, now_ms: int) -> Collection[RunId]:
        """See `Cluster`: everything that is due happens here."""
        self._now_ms = max(self._now_ms, now_ms)
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, _, run, version = heapq.heappop(self._heap)
            there = self._runs.get(run)
            if there is not None and there.version == version:
                self._happens(run, there, due_ms)
        self._bell.clear()
        self._nodes_changed = False
        changed, self._changed = self._changed, {}
        return changed.keys()

    def next_ms(self) -> int | None:
        """When something happens next, if nobody does anything."""
        return self._heap[0][0] if self._heap else None

    async def changed(self) -> None:
        """See `Cluster`."""
        while not (self._changed or self._nodes_changed):
            next_ms = self.next_ms()
            wait_s = _NEXT_S_MAX if next_ms is None else (next_ms - self._clock()) / 1000
            if wait_s <= 0:
                return
            try:
                async with asyncio.timeout(min(wait_s, _NEXT_S_MAX)):
                    await self._bell.wait()
            except TimeoutError:
                continue
            self._bell.clear()

    def create(self, leases: Sequence[Lease], now_ms: int) -> None:
        """See `Cluster`."""
        for lease in leases:
            run = run_id(lease.job_id, lease.run)
            if run in self._pods:
                continue
            if lease.node not in self._names:
                self._put_ended(run, pods.returned(f"there is no node {lease.node}"), now_ms)
                continue
            does = behaviour(run, lease, self._simulation)
            pod = Pod(run, Phase.CREATED, lease.node, grace_s=lease.grace_s)
            there = self._runs[run] = _Run(pod, does, does.end)
            self._put(run, pod)
            if not self.held_back:
                self._at(now_ms + does.start_ms, run, there)
        self._ring()

    def stop(self, run: RunId, grace_s: int, end: End) -> None:
        """See `Cluster`."""
        there = self._runs.get(run)
        if there is None:
            return
        grace_ms = round(grace_s * 1000 / self._simulation.speed)
        started = there.pod.phase is Phase.RUNNING
        due_ms = self._now_ms + (min(there.behaviour.stop_ms, grace_ms) if started else 0)
        if there.pod.stopping and due_ms >= there.stops_ms:
            return
        if not there.pod.stopping:
            there.end = end
            there.pod = msgspec.structs.replace(there.pod, stopping=True)
            self._put(run, there.pod)
        there.version += 1
        there.stops_ms = due_ms
        self._at(due_ms, run, there)
        self._ring()

    def rule_out(self, run: RunId, end: End, now_ms: int) -> None:
        """See `Cluster`."""
        if run not in self._pods:
            self._put_ended(run, end, now_ms)
            self._ring()

    def remove(self, runs: Sequence[RunId]) -> None:
        """See `Cluster`."""
        for run in runs:
            if run not in self._runs:
                self._pods.pop(run, None)
                self._changed.pop(run, None)

    async def logs(self, run: RunId, request: LogRequest) -> AsyncIterator[bytes]:
        """See `Cluster`."""
        if run in self._pods:
            raise NoLog("a simulated run does no work and writes nothing")
        raise NoLog("it has not started here, or has been removed")
        yield b""  # type: ignore[unreachable]  # makes it a generator

    async def run(self) -> None:
        """See `Cluster`: there is nothing to be done."""

    async def close(self) -> None:
        """See `Cluster`."""

    # Faults.

    def lose_node(self, name: str) -> None:
        """The node is gone, and all that ran there."""
        self._nodes = [node for node in self._nodes if node.name != name]
        self._names.discard(name)
        end = pods.failed(FailureCategory.NODE_LOST, f"the node {name} is gone")
        for run in [run for run, there in self._runs.items() if there.pod.node == name]:
            self._end(run, end, self._now_ms)
        self._nodes_changed = True
        self._ring()

    def add_node(self, node: Node) -> None:
        """A node appears, or changes."""
        self._nodes = [*(other for other in self._nodes if other.name != node.name), node]
        self._names.add(node.name)
        self._nodes_changed = True
        self._ring()

    def fail(self, run: RunId, end: End) -> None:
        """A live pod ends like this, now."""
        if run in self._runs:
            self._end(run, end, self._now_ms)
            self._ring()

    def vanish(self, run: RunId) -> None:
        """Somebody else removes the pod, live or not, without a trace."""
        self._runs.pop(run, None)
        if self._pods.pop(run, None) is not None:
            self._changed[run] = None
            self._ring()

    def let_start(self) -> None:
        """What was held back starts."""
        self.held_back = False
        for run, there in self._created():
            self._at(self._now_ms + there.behaviour.start_ms, run, there)
        self._ring()

    # Inside.

    def _created(self) -> Iterator[tuple[RunId, _Run]]:
        for run, there in self._runs.items():
            if there.pod.phase is Phase.CREATED and not there.pod.stopping:
                yield run, there

    def _happens(self, run: RunId, there: _Run, due_ms: int) -> None:
        if there.pod.phase is Phase.CREATED and not there.pod.stopping and there.behaviour.starts:
            there.pod = Pod(
                run, Phase.RUNNING, there.pod.node, started_ms=due_ms, grace_s=there.pod.grace_s
            )
            self._put(run, there.pod)
            self._at(due_ms + there.behaviour.run_ms, run, there)
        else:
            self._end(run, there.end, due_ms)

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

    def _at(self, due_ms: int, run: RunId, there: _Run) -> None:
        heapq.heappush(self._heap, (due_ms, next(self._count), run, there.version))

    def _ring(self) -> None:
        self._bell.set()
