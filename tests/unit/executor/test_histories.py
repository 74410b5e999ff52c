"""Whatever is lost, late, repeated or killed: no run starts twice, and each end has one meaning.

A history is a list of steps over one lease log, one executor and one cluster that, like real ones,
outlives its executor. After the history nothing is disturbed any more, and everything must come to
rest: each lease is cleared after its end was told, and nothing is left on the cluster.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.domain.ids import GroupId, RunId, run_id
from fairlead_common.domain.records import clusters, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat
from fairlead_common.domain.records.leases import DesiredState, Lease
from fairlead_common.log.protocol import Entry
from fairlead_common.log.topics import CLUSTERS, JOBS
from fairlead_executor.domain import pods
from fairlead_executor.domain.cluster_protocol import GroupFile
from fairlead_executor.domain.executor_state import ExecutorState, ReconcilePlan
from fairlead_executor.domain.pods import SUCCEEDED, End, Phase, Pod
from fairlead_executor.domain.reconciliation import REPEAT_REPORT_MS
from fairlead_executor.domain.run_logs import LogEnd, LogEndRequest, LogRequest, NoLog
from tests.example_numbers import EXAMPLES
from tests.unit.executor.build import lease, run

JOBS_MAX: Final = 4
NAMES: Final = "abcdefgh"[:JOBS_MAX]


class DurableCluster:
    """Pods that outlive executors; commands can be lost on the way, as when a caller is killed."""

    backend = "durable"
    stops_with_executor = False

    def __init__(self) -> None:
        self.there: dict[RunId, Pod] = {}
        self.starts: dict[RunId, int] = {}
        self.may_start: set[RunId] = set()
        """What the executor of the moment has told pending."""
        self._changed: set[RunId] = set()

    @property
    def pods(self) -> Mapping[RunId, Pod]:
        return self.there

    def nodes(self) -> Sequence[clusters.Node]:
        return ()

    def problem(self) -> None:
        """Nothing fails in a history."""

    def changes(self, now_ms: int) -> Collection[RunId]:
        changed, self._changed = self._changed, set()
        return changed

    def retain_groups(self, groups: Collection[GroupId]) -> None:
        """Nothing is made for groups."""

    def write_group_file(self, group: GroupFile) -> None:
        """No run of a history reads one."""

    def create(self, several: Sequence[Lease], now_ms: int) -> None:
        for each in several:
            name = run_id(each.job_id, each.run)
            assert name in self.may_start, f"{name} was not told pending by who starts it"
            self.starts[name] = self.starts.get(name, 0) + 1
            self._put(Pod(name, Phase.CREATED, each.node))

    def stop(self, name: RunId, grace_s: int, end: End) -> None:
        pod = self.there.get(name)
        if pod is not None and pod.live:
            self._put(msgspec.structs.replace(pod, stopping=True))

    def prevent_start(self, name: RunId, end: End, now_ms: int, namespace: str = "default") -> None:
        if name not in self.there:
            self._put(Pod(name, Phase.ENDED, ended_ms=now_ms, end=end))

    def remove(self, several: Sequence[RunId]) -> None:
        for name in several:
            if not self.there[name].live:
                del self.there[name]

    def _put(self, pod: Pod) -> None:
        self.there[pod.run] = pod
        self._changed.add(pod.run)

    async def changed(self) -> None:
        """Nobody waits in a history."""

    async def logs(self, name: RunId, request: LogRequest) -> AsyncIterator[bytes]:
        raise NoLog("nothing is written in a history")
        yield b""  # type: ignore[unreachable]  # makes it a generator

    async def log_end(self, name: RunId, request: LogEndRequest) -> LogEnd:
        raise NoLog("nothing is written in a history")

    async def run(self) -> None:
        """Everything happens in `step`."""

    async def close(self) -> None:
        """Nothing was opened."""

    # What happens on the cluster by itself.

    def lose_pod(self, name: RunId) -> None:
        """Delete a live pod."""
        pod = self.there.get(name)
        if pod is not None and pod.live:
            del self.there[name]
            self._changed.add(name)

    def step(self, name: RunId, now_ms: int) -> None:
        """The pod goes one step on."""
        pod = self.there.get(name)
        if pod is None or not pod.live:
            return
        if pod.stopping:
            end = pods.stopped("asked to")
            self._put(Pod(name, Phase.ENDED, started_ms=pod.started_ms, ended_ms=now_ms, end=end))
        elif pod.phase is Phase.CREATED:
            self._put(Pod(name, Phase.RUNNING, started_ms=now_ms))
        else:
            self._put(
                Pod(name, Phase.ENDED, started_ms=pod.started_ms, ended_ms=now_ms, end=SUCCEEDED)
            )


class History:
    """A lease log, what was told, a cluster, and the executor of the moment."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.log: list[Entry] = []
        self.live: dict[RunId, Lease] = {}
        self.cleared: set[RunId] = set()
        self.cluster = DurableCluster()
        self.heartbeat: Heartbeat | None = None
        self.pending: set[RunId] = set()
        self.ends: dict[RunId, set[type]] = {}
        self.restart()

    def write(self, name: RunId, value: Lease | None) -> None:
        record = (
            leases.record("e", value) if value is not None else leases.deletion_record("e", name)
        )
        self.log.append(Entry(0, len(self.log) * 3, record.key, record.value, self.now_ms))

    def position(self) -> int:
        return len(self.log) * 3

    def restart(self) -> None:
        """`kill -9` and a new executor, which reads back what an executor reads back."""
        newest: dict[str, Entry] = {}
        for entry in self.log:
            newest.pop(entry.key, None)
            if entry.value is not None:
                newest[entry.key] = entry
        self.cluster.may_start.clear()
        self.core = ExecutorState("e", self.cluster)
        self.core.take_over(list(newest.values()), self.position(), self.heartbeat, ())
        self.read_to = len(self.log)

    def lease(self, name: str, after: tuple[str, ...]) -> None:
        a_lease = lease(name, after=after)
        if run(name) not in self.live and run(name) not in self.cleared:
            self.live[run(name)] = a_lease
            self.write(run(name), a_lease)

    def stop(self, name: str) -> None:
        if run(name) in self.live:
            a_lease = lease(name, desired_state=DesiredState.STOP, reason="asked to")
            self.live[run(name)] = a_lease
            self.write(run(name), a_lease)

    def clear_ended(self) -> None:
        """What the scheduler does about ends."""
        for name in list(self.live):
            if name in self.ends:
                del self.live[name]
                self.cleared.add(name)
                self.write(name, None)

    def read(self, count: int) -> None:
        entries = self.log[self.read_to : self.read_to + count]
        self.read_to += len(entries)
        self.core.fold_leases(entries, self.read_to * 3)

    def replace_leases(self) -> None:
        """The same entries twice."""
        self.core.fold_leases(self.log[max(0, self.read_to - 2) : self.read_to], self.read_to * 3)

    def turn(self, failure: str) -> None:
        turn = self.core.plan(self.now_ms)
        if failure == "refused":
            self.core.discard_plan()
            return
        self.told(turn)
        if failure == "killed after telling":
            self.restart()
        else:
            self.core.apply(turn, self.now_ms)

    def told(self, turn: ReconcilePlan) -> None:
        for record in turn.records:
            assert record.value is not None
            if record.topic == CLUSTERS:
                beat = clusters.decode(record.value)
                assert isinstance(beat, Heartbeat)
                self.heartbeat = beat
            assert record.topic in (CLUSTERS, JOBS)
            if record.topic == JOBS:
                for event in ev.decode(record.value).events:
                    self._happened(event)

    def _happened(self, event: ev.AnyEvent) -> None:
        assert isinstance(event, ev.RunEvent)
        name = run_id(event.job_id, event.run)
        if isinstance(event, ev.JobRunPending):
            assert name not in self.pending, f"{name} was told pending twice"
            self.pending.add(name)
            self.cluster.may_start.add(name)
        elif not isinstance(event, ev.JobRunRunning):
            self.ends.setdefault(name, set()).add(type(event))

    def check(self) -> None:
        for name, starts in self.cluster.starts.items():
            assert starts == 1, f"{name} was started {starts} times"
        for name, kinds in self.ends.items():
            assert len(kinds) == 1, f"{name} ended as {kinds}"

    def come_to_rest(self) -> None:
        for _ in range(40):
            self.read(len(self.log))
            self.turn("")
            for name in NAMES:
                self.cluster.step(run(name), self.now_ms)
            self.clear_ended()
            self.now_ms += REPEAT_REPORT_MS // 4
            self.check()
        assert not self.live, f"never ended: {set(self.live)}"
        assert not self.cluster.there, f"left behind: {set(self.cluster.there)}"
        assert self.cleared == self.ends.keys()


names = st.sampled_from(NAMES)
steps = st.one_of(
    st.tuples(st.just("lease"), names, st.lists(names, max_size=2, unique=True)),
    st.tuples(st.just("stop"), names),
    st.tuples(st.just("clear")),
    st.tuples(st.just("read"), st.integers(1, 4)),
    st.tuples(st.just("read again")),
    st.tuples(st.just("turn"), st.sampled_from(["", "", "refused", "killed after telling"])),
    st.tuples(st.just("pod"), names),
    st.tuples(st.just("vanish"), names),
    st.tuples(st.just("wait"), st.sampled_from([100, 20_000, 70_000])),
    st.tuples(st.just("kill")),
)


@settings(max_examples=EXAMPLES or 120)
@given(st.lists(steps, max_size=40))
def test_no_run_starts_twice_and_each_lease_ends_once(history: list[tuple[object, ...]]) -> None:
    world = History()
    for step in history:
        match step:
            case ("lease", str(name), list(after)):
                # A run waits for earlier ones only, as the scheduler writes it.
                world.lease(name, tuple(other for other in after if other < name))
            case ("stop", str(name)):
                world.stop(name)
            case ("clear",):
                world.clear_ended()
            case ("read", int(count)):
                world.read(count)
            case ("read again",):
                world.replace_leases()
            case ("turn", str(failure)):
                world.turn(failure)
            case ("pod", str(name)):
                world.cluster.step(run(name), world.now_ms)
            case ("vanish", str(name)):
                world.cluster.lose_pod(run(name))
            case ("wait", int(ms)):
                world.now_ms += ms
            case ("kill",):
                world.restart()
        world.check()
    world.come_to_rest()
