"""The executor without waiting: folds leases, plans a turn, and does it once its reports are told.

    core.fold(entries, positions)
    turn = core.plan(now_ms)            # what to append
    ... append turn.records, again until it is done ...
    core.done(turn, now_ms)             # what was told is noted, what is to be done is done

Nothing here reads a clock or touches the log, so a simulation drives the same code in virtual time.
A turn looks only at runs that something happened to; now and then it looks at all of them.
"""

import itertools
import logging
from collections.abc import Iterable
from typing import Final, assert_never

import msgspec

from fairlead_common.domain.ids import RunId, run_id
from fairlead_common.domain.records import clusters, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat, Node
from fairlead_common.domain.records.leases import DesiredState, Lease
from fairlead_common.domain.timers import Timers
from fairlead_common.log.protocol import Entry, Record
from fairlead_common.service.json_logging import run_fields, runs_fields
from fairlead_executor import armada, environment, metrics, report
from fairlead_executor.backends.cluster import Cluster
from fairlead_executor.reconcile import (
    Action,
    Create,
    Remove,
    Report,
    RuleOut,
    Stop,
    Taken,
    Tell,
    Wanted,
    deadline_ms,
    reconcile,
)

FULL_MS: Final = 10_000
"""All runs are looked at as often as this."""
RUNS_PER_TURN_MAX: Final = 10_000
NODES_PER_TURN_MAX: Final = 5_000
WAITING_MAX: Final = 50_000
"""Most leases that a heartbeat names as not yet told pending."""

_logger = logging.getLogger("fairlead.executor")


class Turn(msgspec.Struct, frozen=True):
    """What one turn wants appended, and what it does afterwards."""

    records: list[Record]
    actions: list[Action]
    nodes: dict[str, Node | None]
    heartbeat: Heartbeat | None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to tell or to do."""
        return not self.records and not self.actions


class Core:
    """What one executor knows. `position`: where it reads its leases next."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        *,
        instance: str = "",
        address: str = "",
        version: str = "",
        heartbeat_ms: int = 5_000,
        armada_names: bool = False,
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.desired: dict[RunId, Wanted] = {}
        self.position = 0
        self.closing_s: int | None = None
        self._instance = instance
        self._address = address
        self._version = version
        self._heartbeat_ms = heartbeat_ms
        self._armada_names = armada_names
        self._beat_ms: int | None = None
        self._full_ms: int | None = None
        self._dirty: dict[RunId, None] = {}
        self._untaken: dict[RunId, int] = {}
        self._waiting_for: dict[RunId, set[RunId]] = {}
        self._deadlines: Timers[RunId] = Timers()
        self._known_nodes: dict[str, Node] = {}
        self._nodes_seen: object = None

    # What comes in.

    def take_over(
        self,
        newest: Iterable[Entry],
        position: int,
        before: Heartbeat | None,
        nodes: Iterable[Node],
    ) -> None:
        """Begin where the executor before this one ended.

        `newest` are the live entries of the lease topic, `position` is where it is read next;
        `before` and `nodes` are what `fairlead.clusters` holds under this executor's name. Which
        leases were told pending follows from the heartbeat that went with the telling.
        """
        waiting = frozenset(before.leases_waiting) if before is not None else frozenset()
        taken_to = before.leases_position if before is not None else 0
        self.desired, self._untaken, self._waiting_for = {}, {}, {}
        self.fold(newest, position)
        for run, wanted in self.desired.items():
            if wanted.position < taken_to and wanted.position not in waiting:
                wanted.taken = Taken.BEFORE
                self._untaken.pop(run, None)
        self._known_nodes = {node.name: node for node in nodes}
        self._nodes_seen = None
        self._beat_ms = self._full_ms = None

    def read_again(self, newest: Iterable[Entry], position: int) -> None:
        """Fold a topic that was read from its start; leases that are no more in it are gone."""
        entries = list(newest)
        there = {entry.key for entry in entries}
        gone = [Entry(0, 0, run, None, 0) for run in self.desired if run not in there]
        if gone:
            _logger.warning(
                "%d leases ended unseen or are no longer in the log: their pods are stopped",
                len(gone),
                extra=runs_fields(entry.key for entry in gone),
            )
        self.fold([*entries, *gone], position)

    def fold(self, entries: Iterable[Entry], position: int) -> None:
        """Take in what the lease topic says. Repeats change nothing."""
        for entry in entries:
            run = RunId(entry.key)
            self._touch(run)
            if entry.value is None:
                self._forget(run)
                continue
            try:
                lease = leases.decode(entry.value)
            except msgspec.DecodeError as error:
                metrics.LEASES_UNREADABLE.inc()
                _logger.error(
                    "the lease of %s cannot be read: %s", run, error, extra=run_fields(run)
                )
                continue
            wanted = self.desired.get(run)
            if wanted is not None:
                self._wait_no_more(run, wanted.lease)
                wanted.lease, wanted.position = lease, entry.position
            else:
                wanted = self.desired[run] = Wanted(lease, entry.position)
            if lease.wish is DesiredState.STOP or wanted.taken is not Taken.NO:
                self._untaken.pop(run, None)
            else:
                self._untaken[run] = entry.position
                for other in lease.after:
                    self._waiting_for.setdefault(RunId(other), set()).add(run)
        self.position = position

    def _touch(self, run: RunId) -> None:
        self._dirty[run] = None
        waiting = self._waiting_for.get(run)
        if waiting:
            self._dirty |= dict.fromkeys(waiting)

    def _forget(self, run: RunId) -> None:
        wanted = self.desired.pop(run, None)
        self._untaken.pop(run, None)
        self._deadlines.unset([run])
        if wanted is not None:
            self._wait_no_more(run, wanted.lease)

    def _wait_no_more(self, run: RunId, lease: Lease) -> None:
        for other in lease.after:
            waiting = self._waiting_for.get(RunId(other))
            if waiting is not None:
                waiting.discard(run)
                if not waiting:
                    del self._waiting_for[other]

    # What goes out.

    def plan(self, now_ms: int) -> Turn:
        """What is to be told and done now."""
        for run in self.cluster.changes(now_ms):
            self._touch(run)
        actions = reconcile(
            self.desired,
            self.cluster.pods,
            now_ms,
            only=self._due(now_ms),
            closing_s=self.closing_s,
        )
        tells = [action for action in actions if isinstance(action, Tell)]
        creates = [action for action in actions if isinstance(action, Create)]
        records = report.records(self.name, tells, self.desired)
        nodes = self._changed_nodes()
        records += [
            clusters.node_gone_record(self.name, name)
            if node is None
            else clusters.node_record(node)
            for name, node in nodes.items()
        ]
        heartbeat = None
        if creates or nodes or self._beat_is_due(now_ms):
            heartbeat = self._heartbeat(now_ms, creates)
            records.append(clusters.heartbeat_record(heartbeat))
        return Turn(records, actions, nodes, heartbeat)

    def _due(self, now_ms: int) -> list[RunId]:
        """The runs to look at; the others that are due come with the next turns."""
        self._dirty |= dict.fromkeys(self._deadlines.due(now_ms))
        if self._full_ms is None or not 0 < self._full_ms - now_ms <= FULL_MS:
            self._full_ms = now_ms + FULL_MS
            self._dirty |= dict.fromkeys(self.desired)
            self._dirty |= dict.fromkeys(self.cluster.pods)
        due = list(self._dirty)
        if len(due) <= RUNS_PER_TURN_MAX:
            self._dirty = {}
            return due
        self._dirty = dict.fromkeys(due[RUNS_PER_TURN_MAX:])
        return due[:RUNS_PER_TURN_MAX]

    def _changed_nodes(self) -> dict[str, Node | None]:
        """Nodes that are not as they were last reported; None: gone."""
        nodes = self.cluster.nodes()
        if nodes is self._nodes_seen:
            return {}
        there = {node.name: node for node in nodes}
        changed: dict[str, Node | None] = {
            name: node for name, node in there.items() if self._known_nodes.get(name) != node
        }
        changed |= {name: None for name in self._known_nodes if name not in there}
        if len(changed) > NODES_PER_TURN_MAX:
            return dict(itertools.islice(changed.items(), NODES_PER_TURN_MAX))
        self._nodes_seen = nodes
        return changed

    def _beat_is_due(self, now_ms: int) -> bool:
        """Also when the clock was set back: an executor that waits for it would fall silent."""
        return self._beat_ms is None or not 0 <= now_ms - self._beat_ms < self._heartbeat_ms

    def _heartbeat(self, now_ms: int, creates: Iterable[Create]) -> Heartbeat:
        """With what a successor must know: which leases are told pending by this append."""
        told = {run_id(create.lease.job_id, create.lease.run) for create in creates}
        waiting = sorted(at for run, at in self._untaken.items() if run not in told)
        return Heartbeat(
            executor=self.name,
            leases_position=self.position,
            # What is beyond the bound counts as told: a successor would have it queued again.
            leases_waiting=tuple(waiting[:WAITING_MAX]),
            instance=self._instance,
            address=self._address,
            backend=self.cluster.backend,
            version=self._version,
            at_ms=now_ms,
        )

    def done(self, turn: Turn, now_ms: int) -> None:
        """The records of the turn are in the log: note that, and do the rest of it."""
        creates: list[Lease] = []
        removes: list[RunId] = []
        for action in turn.actions:
            match action:
                case Tell(run, event):
                    self._told(run, event, now_ms)
                case Create(lease):
                    creates.append(self._with_environment(lease))
                    self._without_spec(lease)
                case Stop(run, grace_s, end):
                    self.cluster.stop(run, grace_s, end)
                case RuleOut(run, end):
                    self.cluster.rule_out(run, end, now_ms)
                case Remove(run):
                    removes.append(run)
                case _:
                    assert_never(action)
        if creates:
            self.cluster.create(creates, now_ms)
        if removes:
            self.cluster.remove(removes)
        for name, node in turn.nodes.items():
            if node is None:
                self._known_nodes.pop(name, None)
            else:
                self._known_nodes[name] = node
        if turn.heartbeat is not None:
            self._beat_ms = now_ms

    def _told(self, run: RunId, event: Report, now_ms: int) -> None:
        wanted = self.desired.get(run)
        if wanted is None:
            return
        match event:
            case ev.JobRunPending():
                wanted.taken = Taken.NOW
                self._untaken.pop(run, None)
            case ev.JobRunRunning():
                wanted.running_told = True
                pod = self.cluster.pods.get(run)
                due_ms = None if pod is None else deadline_ms(wanted, pod)
                if due_ms is not None:
                    self._deadlines.set([(due_ms, run)])
            case _:
                wanted.end_told_ms = now_ms
                self._deadlines.unset([run])

    def _with_environment(self, lease: Lease) -> Lease:
        lease = environment.on_node(lease, self._known_nodes.get(lease.node))
        return armada.named(lease) if self._armada_names else lease

    def _without_spec(self, lease: Lease) -> None:
        """Give the memory of a pod spec back: nobody needs it after the pod was created."""
        wanted = self.desired.get(run_id(lease.job_id, lease.run))
        if wanted is not None:
            wanted.lease = msgspec.structs.replace(wanted.lease, spec=msgspec.Raw(b""))

    def close(self, grace_s: int) -> None:
        """From now on create nothing, and stop all that lives within this grace at most."""
        self.closing_s = grace_s
        self._full_ms = None

    def again(self) -> None:
        """A planned turn was given up: look at everything again."""
        self._full_ms = None
        self._nodes_seen = None

    @property
    def busy(self) -> bool:
        """Whether more runs are due than one turn takes."""
        return len(self._dirty) >= RUNS_PER_TURN_MAX

    def idle_s(self, now_ms: int) -> float:
        """How long nothing is due if nothing happens, in seconds."""
        due_ms = now_ms + self._heartbeat_ms
        if self._beat_ms is not None:
            due_ms = min(due_ms, self._beat_ms + self._heartbeat_ms)
        if self._full_ms is not None:
            due_ms = min(due_ms, self._full_ms)
        deadline = self._deadlines.next_ms()
        if deadline is not None:
            due_ms = min(due_ms, deadline)
        return max(0.0, (due_ms - now_ms) / 1000) if not self._dirty else 0.0

    @property
    def living(self) -> int:
        """How many pods live."""
        return sum(pod.live for pod in self.cluster.pods.values())
