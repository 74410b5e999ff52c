"""What one executor knows: it folds leases, plans reports and actions, and notes what was done.

    state.fold_leases(entries, position)
    plan = state.plan(now_ms)           # what to append
    ... append plan.records, repeated until it succeeds ...
    state.apply(plan, now_ms)           # notes what was reported, and acts on the cluster

Nothing here reads a clock or the log, so a simulation drives the same code in virtual time. A plan
covers only runs that changed or are due; every `FULL_PASS_MS` it covers all of them.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from fairlead_common.domain.ids import RunId
from fairlead_common.domain.records import clusters, leases
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Avoidance, Heartbeat, LeaderHeartbeat, Node
from fairlead_common.domain.records.leases import GroupMembers, Lease
from fairlead_common.domain.timers import Timers
from fairlead_common.log.protocol import Entry, Record
from fairlead_executor.domain import armada_names as armada
from fairlead_executor.domain import environment, report_records
from fairlead_executor.domain.cluster_protocol import Cluster
from fairlead_executor.domain.group_members import Groups
from fairlead_executor.domain.reconciliation import (
    FULL_PASS_MS,
    Actions,
    Create,
    DesiredRun,
    PendingReported,
    Report,
    reconcile,
)
from fairlead_executor.domain.start_failures import JobSet, StartFailures, mark_avoided

RUNS_PER_PASS_MAX: Final = 10_000
NODES_PER_PASS_MAX: Final = 5_000
WAITING_LEASES_MAX: Final = 50_000
"""Most leases that a heartbeat names as not yet reported pending."""

NO_TEMPLATE: Final[dict[str, object]] = {
    "spec": msgspec.Raw(b""),
    "env": {},
    "labels": {},
    "annotations": {},
    "requests": {},
    "services": (),
    "ingresses": (),
}
"""Instead of what only the creation of a pod reads."""


class ReconcilePlan(msgspec.Struct, frozen=True):
    """What to append, and what to do on the cluster afterwards.

    `full`: it covers all runs.
    """

    records: list[Record]
    actions: Actions
    nodes: dict[str, Node | None]
    heartbeat: Heartbeat | None
    full: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to report and nothing to do."""
        return not self.records and not self.actions.count


class ExecutorState:
    """Leases, what was reported of their runs, and nodes. `position`: the next lease to read."""

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
        start_failures: StartFailures | None = None,
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.desired: dict[RunId, DesiredRun] = {}
        self.position = 0
        self.closing_s: int | None = None
        self._instance = instance
        self._address = address
        self._version = version
        self._heartbeat_ms = heartbeat_ms
        self._armada_names = armada_names
        self._heartbeat_at_ms: int | None = None
        self._full_ms: int | None = None
        self._dirty: list[RunId] = []
        """The runs to examine; some of them several times."""
        self._unreported: set[int] = set()
        """Positions of the leases that are not reported pending."""
        self._waiting_for: dict[RunId, set[RunId]] = {}
        self._deadlines: Timers[RunId] = Timers()
        self._known_nodes: dict[str, Node] = {}
        self._nodes_seen: object = None
        self._groups = Groups()
        self._start_failures = start_failures or StartFailures(0, 0)
        self._avoided: Mapping[str, Avoidance] = {}

    # Input: leases.

    def take_over(
        self,
        newest: Iterable[Entry],
        position: int,
        before: Heartbeat | None,
        nodes: Iterable[Node],
    ) -> None:
        """Continue where the previous executor of this name ended.

        `newest` are the live entries of the lease topic, `position` is where it is read next;
        `before` and `nodes` are the heartbeat and the nodes that `fairlead.clusters` holds under
        this name. That heartbeat says which leases were reported pending: it was appended together
        with the reports.
        """
        waiting = frozenset(before.leases_waiting) if before is not None else frozenset()
        taken_to = before.leases_position if before is not None else 0
        self.desired, self._unreported, self._waiting_for = {}, set(), {}
        self._groups = Groups()
        self.fold_leases(newest, position)
        for wanted in self.desired.values():
            if wanted.position < taken_to and wanted.position not in waiting:
                wanted.pending_reported = PendingReported.BEFORE
                self._unreported.discard(wanted.position)
        self._known_nodes = {node.name: node for node in nodes}
        self._start_failures.restore(self._known_nodes.values())
        self._nodes_seen = None
        self._heartbeat_at_ms = self._full_ms = None

    def fold_leases(self, entries: Iterable[Entry], position: int) -> None:
        """Fold entries of the lease topic. Repeated entries change nothing."""
        runs: list[RunId] = []
        for entry in entries:
            if entry.key.startswith(leases.GROUP_PREFIX):
                self._fold_group(entry)
                continue
            run = RunId(entry.key)
            runs.append(run)
            if entry.value is None:
                self._drop_run(run)
            else:
                decoded = entry.decoded
                lease = decoded if isinstance(decoded, Lease) else leases.decode(entry.value)
                self._fold_lease(run, lease, entry.position)
        self._mark_dirty(runs)
        self.position = position

    def _fold_lease(self, run: RunId, lease: Lease, position: int) -> None:
        """Add the lease of a run, or replace it."""
        wanted = self.desired.get(run)
        if wanted is None:
            wanted = self.desired[run] = DesiredRun(lease, position)
        else:
            self._drop_waiting(run, wanted)
            if lease.member is None:  # a lease that stops the run does not name it again
                lease = msgspec.structs.replace(lease, member=wanted.lease.member)
            wanted.lease, wanted.position = lease, position
        if lease.member is not None:
            self._groups.add_run(run, lease.member, lease.namespace)
        if wanted.may_be_reported_pending:
            self._unreported.add(position)
            for other in lease.after:
                self._waiting_for.setdefault(other, set()).add(run)

    def _fold_group(self, entry: Entry) -> None:
        """Fold the members of a group, and examine its runs here that may have waited for them."""
        group = leases.group_of(entry.key)
        assert group is not None, f"{entry.key} is not the key of a group"
        decoded = entry.decoded
        members = decoded if isinstance(decoded, GroupMembers) else None
        if members is None and entry.value is not None:
            members = leases.decode_group(entry.value)
        runs = self._groups.fold_members(group, members)
        self._dirty += [run for run in runs if self.desired[run].may_be_reported_pending]

    def _mark_dirty(self, runs: Collection[RunId]) -> None:
        """Examine these runs, and those that wait for the end of one of them."""
        self._dirty += runs
        if self._waiting_for:
            for run in runs:
                self._dirty += self._waiting_for.get(run, ())

    def _drop_run(self, run: RunId) -> None:
        wanted = self.desired.pop(run, None)
        if wanted is not None:
            self._drop_waiting(run, wanted)
            if wanted.lease.member is not None:
                self._groups.drop_run(run, wanted.lease.member)

    def _drop_waiting(self, run: RunId, wanted: DesiredRun) -> None:
        """Forget what the run waits for, and that it is not reported pending."""
        self._unreported.discard(wanted.position)
        for other in wanted.lease.after:
            waiting = self._waiting_for.get(other)
            if waiting is not None:
                waiting.discard(run)
                if not waiting:
                    del self._waiting_for[other]

    # Output: reports and actions.

    def plan(self, now_ms: int) -> ReconcilePlan:
        """What to report and to do now."""
        self._mark_dirty(self.cluster.changes(now_ms))
        full = self._is_full_pass_due(now_ms)
        actions = reconcile(
            self.desired,
            self.cluster.pods,
            now_ms,
            groups=self._groups.members,
            only=self._due(now_ms, full=full),
            closing_s=self.closing_s,
        )
        self._deadlines.set(actions.deadlines)
        records = report_records.report_records(self.name, actions.reports)
        nodes = self._changed_nodes(now_ms)
        records += [
            clusters.removed_node_record(self.name, name)
            if node is None
            else clusters.node_record(node)
            for name, node in nodes.items()
        ]
        heartbeat = None
        if actions.creates or nodes or self._heartbeat_is_due(now_ms):
            heartbeat = self._heartbeat(now_ms, actions.creates)
            records.append(clusters.heartbeat_record(heartbeat))
        return ReconcilePlan(records, actions, nodes, heartbeat, full)

    def _is_full_pass_due(self, now_ms: int) -> bool:
        return self._full_ms is None or not 0 < self._full_ms - now_ms <= FULL_PASS_MS

    def _due(self, now_ms: int, *, full: bool) -> list[RunId]:
        """The runs to examine; what exceeds `RUNS_PER_PASS_MAX` follows with the next plan."""
        self._dirty += self._deadlines.due(now_ms)
        if full:
            self._full_ms = now_ms + FULL_PASS_MS
            self._dirty += self.desired
            self._dirty += self.cluster.pods
        due = list(dict.fromkeys(self._dirty))
        self._dirty = due[RUNS_PER_PASS_MAX:]
        return due[:RUNS_PER_PASS_MAX]

    def _changed_nodes(self, now_ms: int) -> dict[str, Node | None]:
        """Nodes that differ from what was last reported; None: removed."""
        nodes = self.cluster.nodes()
        avoided = self._start_failures.find_avoided(now_ms)
        if nodes is self._nodes_seen and avoided is self._avoided:
            return {}
        there = {node.name: mark_avoided(node, avoided) for node in nodes}
        self._start_failures.retain(there.keys())
        changed: dict[str, Node | None] = {
            name: node for name, node in there.items() if self._known_nodes.get(name) != node
        }
        changed |= {name: None for name in self._known_nodes if name not in there}
        if len(changed) > NODES_PER_PASS_MAX:
            return dict(itertools.islice(changed.items(), NODES_PER_PASS_MAX))
        self._nodes_seen, self._avoided = nodes, avoided
        return changed

    def _heartbeat_is_due(self, now_ms: int) -> bool:
        """True also when the clock was set back: the executor would else be silent until then."""
        return (
            self._heartbeat_at_ms is None
            or not 0 <= now_ms - self._heartbeat_at_ms < self._heartbeat_ms
        )

    def _heartbeat(self, now_ms: int, creates: Iterable[Create]) -> Heartbeat:
        """Names the leases that are not reported pending by this append: the next executor of this
        name needs them."""
        reported = {create.wanted.position for create in creates}
        waiting = sorted(self._unreported - reported)
        return Heartbeat(
            executor=self.name,
            leases_position=self.position,
            # Leases beyond the bound count as reported: the next executor has them queued again.
            leases_waiting=tuple(waiting[:WAITING_LEASES_MAX]),
            instance=self._instance,
            address=self._address,
            backend=self.cluster.backend,
            version=self._version,
            at_ms=now_ms,
        )

    def apply(self, plan: ReconcilePlan, now_ms: int) -> None:
        """Note that the plan's records are in the log, and do its actions."""
        actions = plan.actions
        self._note_reports(actions.reports, now_ms)
        for stop in actions.stops:
            self.cluster.stop(stop.run, stop.grace_s, stop.end)
        for prevention in actions.preventions:
            run, end, namespace = prevention.run, prevention.end, prevention.namespace
            self.cluster.prevent_start(run, end, now_ms, namespace)
        creates = [self._with_environment(create.lease) for create in actions.creates]
        for file in self._groups.take_files(creates):
            self.cluster.write_group_file(file)
        if plan.full:
            self.cluster.retain_groups(self._groups.with_leases)
        if creates:
            self.cluster.create(creates, now_ms)
            _drop_templates(actions.creates)
        if actions.removes:
            self.cluster.remove(actions.removes)
        for name, node in plan.nodes.items():
            if node is None:
                self._known_nodes.pop(name, None)
            else:
                self._known_nodes[name] = node
        if plan.heartbeat is not None:
            self._heartbeat_at_ms = now_ms

    def _note_reports(self, reports: Iterable[Report], now_ms: int) -> None:
        # `match` takes longer: `isinstance` is slow for an object of another type.
        for report in reports:
            wanted, pod, kind = report.wanted, report.pod, type(report.event)
            if kind is ev.JobRunPending:
                wanted.pending_reported = PendingReported.NOW
                self._unreported.discard(wanted.position)
                continue
            assert pod is not None, f"{report.run} has no pod"
            if kind is ev.JobRunRunning:
                wanted.running_reported = True
                self._start_failures.note_start(pod.node, _job_set(wanted.lease))
            else:
                if not wanted.end_reported_ms:
                    self._start_failures.note_end(pod, _job_set(wanted.lease), now_ms)
                wanted.end_reported_ms = now_ms

    def _with_environment(self, lease: Lease) -> Lease:
        lease = environment.add_node_environment(lease, self._known_nodes.get(lease.node))
        if lease.member is not None:
            address = self._groups.find_master_address(lease.member)
            lease = environment.add_master_address(lease, address)
        return armada.add_armada_names(lease) if self._armada_names else lease

    def begin_shutdown(self, grace_s: int) -> None:
        """Create no more runs, and stop all live ones with at most this grace."""
        self.closing_s = grace_s
        self._full_ms = None

    def discard_plan(self) -> None:
        """A plan was not carried out: examine all runs and nodes again."""
        self._full_ms = None
        self._nodes_seen = None

    @property
    def has_more_due(self) -> bool:
        """Whether more runs are due than one plan covers."""
        return len(self._dirty) >= RUNS_PER_PASS_MAX

    def idle_s(self, now_ms: int) -> float:
        """Time until something is due if nothing changes (s)."""
        due_ms = now_ms + self._heartbeat_ms
        if self._heartbeat_at_ms is not None:
            due_ms = min(due_ms, self._heartbeat_at_ms + self._heartbeat_ms)
        if self._full_ms is not None:
            due_ms = min(due_ms, self._full_ms)
        for next_ms in (self._deadlines.next_ms(), self._start_failures.next_ms):
            if next_ms is not None:
                due_ms = min(due_ms, next_ms)
        return max(0.0, (due_ms - now_ms) / 1000) if not self._dirty else 0.0

    @property
    def live_pods(self) -> int:
        """Number of live pods."""
        return sum(pod.live for pod in self.cluster.pods.values())


def _drop_templates(creates: Iterable[Create]) -> None:
    """Free the memory of what is not needed once pods were created: most of a lease."""
    for create in creates:
        wanted = create.wanted
        wanted.lease = msgspec.structs.replace(wanted.lease, **NO_TEMPLATE)


def _job_set(lease: Lease) -> JobSet:
    return lease.queue, lease.job_set


def find_own_records(
    executor: str, newest: Mapping[str, bytes]
) -> tuple[Heartbeat | None, list[Node]]:
    """The last heartbeat and the nodes of an executor among the newest of `fairlead.clusters`."""
    heartbeat: Heartbeat | None = None
    nodes: list[Node] = []
    for key, value in newest.items():
        if key != executor and not key.startswith(f"{executor}/"):
            continue
        match clusters.decode(value):
            case Heartbeat() as heartbeat:
                pass
            case Node() as node:
                nodes.append(node)
            case LeaderHeartbeat():
                raise AssertionError(f"{key} cannot be the key of a leader")
    return heartbeat, nodes
