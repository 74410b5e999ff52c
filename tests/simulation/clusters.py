"""A cluster in virtual time that checks, at every step, what must never happen.

It outlives its executor. Runs take a while, some fail, some take long to stop.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fairlead_common.domain.ids import GroupId, JobId, RunId
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import FailureCategory
from fairlead_common.domain.records.leases import Lease
from fairlead_executor.domain import pods
from fairlead_executor.domain.cluster_protocol import GroupFile
from fairlead_executor.domain.pods import End, Phase, Pod
from fairlead_executor.domain.run_logs import LogEnd, LogEndRequest, LogRequest, NoLog
from tests.simulation.world import World

NODE = {"cpu": 4000, "memory": 6000}
NEEDS = "needs"
"""Annotation: the memory that a run uses (bytes); with less than that it fails."""


class _Due(msgspec.Struct):
    """When a live pod starts and ends, and how."""

    lease: Lease
    starts_ms: int
    ends_ms: int
    end: End


def _never_starts(end: End) -> bool:
    return end.kind is pods.EndKind.RETURNED or end.category is FailureCategory.START


class Span(NamedTuple):
    """When a pod was created and when it ended; virtual time, `None` while it lives."""

    begin_ms: int
    end_ms: int | None


class VirtualCluster:
    """Nodes of four cores and 6,000 bytes. `spans` and `succeeded` are for the checkers."""

    backend = "virtual"
    stops_with_executor = False

    def __init__(self, world: World, executor: str, nodes: int) -> None:
        self._world = world
        self._nodes = [
            Node(
                executor=executor,
                name=f"{executor}-n{number}",
                allocatable=dict(NODE),
                labels={"zone": executor, "rack": f"r{number}"},
            )
            for number in range(nodes)
        ]
        self._pods: dict[RunId, Pod] = {}
        self._due: dict[RunId, _Due] = {}
        self._changed: set[RunId] = set()
        self._unwanted: set[RunId] = set()
        self.spans: dict[RunId, Span] = {}
        """Of every pod that there ever was."""
        self.succeeded: dict[JobId, int] = {}

    @property
    def pods(self) -> Mapping[RunId, Pod]:
        """All pods."""
        return self._pods

    def nodes(self) -> Sequence[Node]:
        """Always the same."""
        return self._nodes

    def problem(self) -> None:
        """Nobody asks in a simulation."""

    def changes(self, now_ms: int) -> Collection[RunId]:
        """What changed since the last call; a fresh executor looks at everything anyway."""
        self.advance(now_ms)
        changed, self._changed = self._changed, set()
        return changed

    async def changed(self) -> None:
        """Nobody waits in a simulation."""
        raise AssertionError("a simulation asks, it does not wait")

    def retain_groups(self, groups: Collection[GroupId]) -> None:
        """Nothing is made for groups."""

    def write_group_file(self, group: GroupFile) -> None:
        """Nothing reads it in a simulation."""

    def create(self, leases: Sequence[Lease], now_ms: int) -> None:
        """Start these runs: never one that was here before."""
        chance = self._world.chance
        for lease in leases:
            run = RunId(f"{lease.job_id}-{lease.run}")
            if run in self._pods:
                continue
            assert run not in self.spans, f"{run} was started twice"
            self.spans[run] = Span(now_ms, None)
            self._pods[run] = Pod(run, Phase.CREATED, lease.node, grace_s=lease.grace_s)
            starts_ms = now_ms + chance.randint(0, 2_000)
            self._due[run] = _Due(
                lease, starts_ms, starts_ms + chance.randint(500, 30_000), self._fate(lease)
            )
            self._check_memory(lease)
            self._changed.add(run)
            self._check_room(lease.node)

    def _check_memory(self, lease: Lease) -> None:
        """What is scheduled for is what the pod may use."""
        asked = msgspec.json.decode(bytes(lease.spec))["containers"][0]["resources"]
        want = str(lease.requests["memory"])
        assert asked == {"requests": {"memory": want}, "limits": {"memory": want}}

    def _fate(self, lease: Lease) -> End:
        if lease.requests["memory"] < int(lease.annotations[NEEDS]):
            return pods.failed(FailureCategory.OOM, "out of memory", 137)
        roll = self._world.chance.random()
        if roll < 0.8:
            return pods.SUCCEEDED
        if roll < 0.9:
            return pods.failed(FailureCategory.EXIT_CODE, "exit code 3", 3)
        if roll < 0.93:
            return pods.failed(FailureCategory.START, "there is no such command")
        return pods.returned("the node was full")

    def _check_room(self, node: str) -> None:
        """Stopping pods hold their room too, but for those that were given up and are unwanted."""
        there = [
            due.lease.requests
            for run, due in self._due.items()
            if self._pods[run].node == node and run not in self._unwanted
        ]
        for resource, most in NODE.items():
            held = sum(requests[resource] for requests in there)
            assert held <= most, f"{node} was given {held} of its {most} {resource}"

    def advance(self, now_ms: int) -> None:
        """Let pods start and end whose time has come."""
        for run, due in list(self._due.items()):
            pod = self._pods[run]
            if pod.phase is Phase.CREATED and _never_starts(due.end):
                self._end(run, due.end, due.starts_ms, now_ms)
            elif pod.phase is Phase.CREATED and due.starts_ms <= now_ms:
                self._set(run, msgspec.structs.replace(pod, phase=Phase.RUNNING, started_ms=now_ms))
            elif due.ends_ms <= now_ms:
                self._end(run, due.end, due.ends_ms, now_ms)

    def _end(self, run: RunId, end: End, at_ms: int, now_ms: int) -> None:
        if at_ms > now_ms:
            return
        due = self._due.pop(run)
        pod = self._pods[run]
        self.spans[run] = self.spans[run]._replace(end_ms=at_ms)
        ended = msgspec.structs.replace(pod, phase=Phase.ENDED, ended_ms=at_ms, end=end)
        self._set(run, ended)
        if end.kind is pods.EndKind.SUCCEEDED:
            job_id = due.lease.job_id
            self.succeeded[job_id] = self.succeeded.get(job_id, 0) + 1

    def _set(self, run: RunId, pod: Pod) -> None:
        self._pods[run] = pod
        self._changed.add(run)

    def stop(self, run: RunId, grace_s: int, end: End) -> None:
        """The pod ends within its grace, if it lives."""
        pod = self._pods.get(run)
        if pod is None or not pod.live or pod.stopping:
            return
        if end.reason == "no lease requires this run" or "stopped reporting" in end.reason:
            self._unwanted.add(run)
        due = self._due[run]
        due.ends_ms = self._world.now_ms + self._world.chance.randint(0, 1000 * grace_s)
        due.starts_ms = min(due.starts_ms, due.ends_ms)
        due.end = end
        self._set(run, msgspec.structs.replace(pod, stopping=True))

    def prevent_start(self, run: RunId, end: End, now_ms: int, namespace: str = "default") -> None:
        """It never starts; it looks like one that ended at once."""
        if run not in self._pods:
            self._set(run, Pod(run, Phase.ENDED, ended_ms=now_ms, end=end))

    def remove(self, runs: Collection[RunId]) -> None:
        """Forget pods that ended."""
        for run in runs:
            pod = self._pods.pop(run, None)
            assert pod is None or not pod.live, f"{run} was removed while it lived"

    async def run(self) -> None:
        """Nothing: time passes by `advance`."""

    async def close(self) -> None:
        """Nothing to give up."""

    def logs(self, run: RunId, request: LogRequest) -> AsyncIterator[bytes]:
        """There are none."""
        raise NoLog(f"{run} wrote nothing: {request}")

    async def log_end(self, run: RunId, request: LogEndRequest) -> LogEnd:
        """There are none."""
        raise NoLog(f"{run} wrote nothing: {request}")
