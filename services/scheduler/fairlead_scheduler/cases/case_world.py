"""The state of a case: the folds of the service, with events made from the case."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead_common.domain.ids import GroupId, JobId
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_scheduler.cases import case_file, outcome
from fairlead_scheduler.cases.case_file import Case, CaseRound, Group, expand
from fairlead_scheduler.cases.outcome import RoundResult
from fairlead_scheduler.domain import surplus_priority
from fairlead_scheduler.engine import Plan, schedule
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.snapshots import BuiltSnapshot
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.token_buckets import Buckets
from fairlead_scheduler.state.view import View


class World(SchedulerHarness):
    """The scheduler of a case, and how the steps of a case change it."""

    def __init__(self, case: Case) -> None:
        classes = (*case_file.FIXTURE_CLASSES, *case.priority_classes)
        super().__init__(case.settings.rules(), classes, view=View())
        self.buckets = Buckets(self.rules)
        """Apart from the view: runs that a case begins with take no tokens."""
        self.case = case
        self.engine = self.engine_settings()
        self.stale: set[str] = set()
        self.versions = 0
        self.node_counts: dict[str, int] = {}
        self.round = -1
        self.now_ms = 0
        self.names: set[str] = set()
        for node in case.nodes:
            self.add_nodes(node)
        for name, queue in case.queues.items():
            self.configure_queue(
                configuration.Queue(
                    name=name,
                    weight=queue.weight,
                    cordoned=queue.cordoned,
                    limits={
                        name: case_file.use_full_names(amounts)
                        for name, amounts in queue.limits.items()
                    },
                    order=queue.order,
                )
            )

    # Changes of the state -----------------------------------------------------------------

    def append(self, queue: str, events: Sequence[ev.AnyEvent], at_ms: int | None = None) -> None:
        """Fold events of a queue into the view, as one message."""
        self.fold_events(queue, events, time_ms=self.now_ms if at_ms is None else at_ms)

    def add_nodes(self, group: case_file.Nodes) -> None:
        """Add the nodes of a group; numbers continue after nodes of the same name."""
        first = self.node_counts.get(group.name, 0)
        self.node_counts[group.name] = first + group.count
        for number in range(first, first + group.count):
            self.report_node(group.node(f"{group.name}{number}"), time_ms=self.now_ms)

    def node(self, name: str) -> Node:
        """The node of this name."""
        for key, node in self.clusters.nodes.items():
            if key.node == name:
                return node
        raise ValueError(f"there is no node {name!r}")

    def row_of(self, name: str) -> int:
        """The row of a live job."""
        row = self.view.jobs.rows.get(JobId(name))
        if row is None:
            raise ValueError(f"there is no job {name!r}, or it has ended")
        return row

    def change_node(self, name: str, **changes: Any) -> None:  # fields of Node
        """Change fields of a node."""
        changed = msgspec.structs.replace(self.node(name), **changes)
        self.report_node(changed, time_ms=self.now_ms)

    def configure_queue(self, queue: configuration.Queue) -> None:
        """Configure a queue, as the next version of it."""
        self.versions += 1
        self.configure(msgspec.structs.replace(queue, version=self.versions))

    def cordon_executor(self, name: str, cordoned: bool) -> None:
        """Cordon or uncordon an executor."""
        self.versions += 1
        self.configure(
            configuration.Cordon(executor=name, version=self.versions, cordoned=cordoned)
        )

    # One round --------------------------------------------------------------------------

    def begin(self, case_round: CaseRound, repetition: int) -> None:
        """Apply the changes before a round; `repetition` is the number of the repetition."""
        self.round += 1
        self.now_ms = self._time_of(case_round, repetition)
        if repetition:
            return
        for name in expand(case_round.finish):
            self._end(name, ev.JobRunSucceeded, ev.JobSucceeded(job_id=JobId(name)))
        for name in expand(case_round.cancel):
            self._cancel(name)
        self._change_nodes(case_round)
        for cordoned, names in (
            (True, case_round.cordon_queues),
            (False, case_round.uncordon_queues),
        ):
            for name in names:
                queue = self.queues.get(name)
                self.configure_queue(msgspec.structs.replace(queue, cordoned=cordoned))
        for name, order in case_round.order_queues.items():
            self.configure_queue(msgspec.structs.replace(self.queues.get(name), order=order))
        self.stale = (self.stale | set(case_round.lose_executors)) - set(
            case_round.restore_executors
        )
        for name in case_round.cordon_executors:
            self.cordon_executor(name, True)
        for name in case_round.uncordon_executors:
            self.cordon_executor(name, False)
        for group in case_round.submit:
            self._submit(group)
        for role_group in case_round.groups:
            self._submit_group(role_group)
        for role_group in case_round.change_groups:
            changed = ev.GroupChanged(group=GroupId(role_group.id), terms=role_group.terms())
            self.append(role_group.queue, [changed])

    def _time_of(self, case_round: CaseRound, repetition: int) -> int:
        """The time of the round, by default its number in seconds; time never decreases."""
        if case_round.at is not None:
            return round(1000 * (case_round.at + repetition))
        own = 1000 * self.round
        return own if own >= self.now_ms else self.now_ms + 1000

    def _change_nodes(self, case_round: CaseRound) -> None:
        for name in expand(case_round.cordon_nodes):
            self.change_node(name, unschedulable=True)
        for name in expand(case_round.uncordon_nodes):
            self.change_node(name, unschedulable=False)
        for name, amounts in case_round.resize_nodes.items():
            changed = self.node(name).allocatable | case_file.parse_all(amounts, round_up=False)
            self.change_node(name, allocatable=changed)
        for name in expand(case_round.remove_nodes):
            node = self.node(name)
            for job_id in self._running_on(job_table.NodeName(node.executor, name)):
                self._end(job_id, None, ev.JobRequeued(job_id=job_id, reason="node-lost"))
            removal = cluster_records.removed_node_record(node.executor, name)
            self.fold_cluster_records(removal, time_ms=self.now_ms)
        for group in case_round.add_nodes:
            self.add_nodes(group)

    def _running_on(self, name: job_table.NodeName) -> list[JobId]:
        jobs = self.view.jobs
        number = jobs.nodes.find(name)
        rows = [row for row in self.view.live_rows().tolist() if jobs.node[row] == number]
        return [jobs.rows.id_at(row) for row in rows if job_table.IS_LIVE_RUN[jobs.run_state[row]]]

    def _queue_of(self, name: str) -> str:
        row = self.row_of(name)
        return self.view.jobs.queues.values[int(self.view.jobs.queue[row])]

    def _end(self, name: str, how: type[ev.JobRunSucceeded] | None, event: ev.AnyEvent) -> None:
        """The job's run succeeded, or with None was lost; `event` is the end of the job."""
        row = self.row_of(name)
        if not job_table.IS_LIVE_RUN[self.view.jobs.run_state[row]]:
            raise ValueError(f"job {name!r} does not run")
        run = int(self.view.jobs.run[row])
        ended: ev.AnyEvent = (
            how(job_id=JobId(name), run=run)
            if how is not None
            else ev.JobRunLost(job_id=JobId(name), run=run, reason="node removed")
        )
        self.append(self._queue_of(name), [ended, event])

    def _cancel(self, name: str) -> None:
        job_id, queue, row = JobId(name), self._queue_of(name), self.row_of(name)
        runs = job_table.IS_LIVE_RUN[self.view.jobs.run_state[row]]
        run = int(self.view.jobs.run[row])
        self.append(queue, [ev.JobCancelRequested(job_id=job_id)])
        if runs:
            stopped = ev.JobRunStopped(job_id=job_id, run=run, reason="")
            self.append(queue, [stopped, ev.JobCancelled(job_id=job_id, reason="")])

    def _submit_group(self, group: case_file.RoleGroup) -> None:
        submitted = ev.GroupSubmitted(group=GroupId(group.id), terms=group.terms(), digest="")
        self.append(group.queue, [submitted])
        for role in group.roles:
            self._submit(group.jobs_of(role), GroupId(group.id), role.name)

    def _submit(self, group: Group, member_of: GroupId | None = None, role: str = "") -> None:
        names = [JobId(f"{group.id}{number}") for number in range(group.count)]
        if not self.names.isdisjoint(names):
            raise ValueError(f"jobs of the group {group.id!r} exist already")
        self.names.update(names)
        values = {item.name: item.value for item in self.builder.classes}
        if group.priority_class not in values:
            raise ValueError(f"{group.id}: there is no priority class {group.priority_class!r}")
        shape, gang = group.shape(), group.make_gang()
        events: list[ev.AnyEvent] = [
            ev.JobSubmitted(
                job_id=name,
                shape=shape,
                spec=msgspec.Raw(b"{}"),
                digest="",
                priority=group.priority,
                priority_class=group.priority_class,
                runtime_s_max=group.max_runtime_seconds,
                gang=gang,
                group=None if member_of is None else ev.GroupMember(member_of, role, index),
            )
            for index, name in enumerate(names)
        ]
        self.append(group.queue, events)
        if group.running is not None:
            self._start(names, group.queue, group.running, values[group.priority_class])

    def _start(
        self, names: list[JobId], queue: str, running: case_file.Running, value: int
    ) -> None:
        """Start the jobs on their node at the given time."""
        node = self.node(running.on_node)
        events: list[ev.AnyEvent] = []
        for name in names:
            leased = ev.JobRunLeased(
                job_id=name, run=1, executor=node.executor, node=node.name, value=value
            )
            events += [leased, ev.JobRunRunning(job_id=name, run=1)]
        self.append(queue, events, at_ms=round(1000 * running.since))

    def decide(self) -> RoundResult:
        """Run the engine and fold its decisions."""
        built = self.build()
        begun = time.perf_counter()
        plan = schedule(built.snapshot, self.engine)
        ms = 1000 * (time.perf_counter() - begun)
        return self.settle(built, plan, ms)

    def build(self) -> BuiltSnapshot:
        """The snapshot for the engine."""
        return self.build_snapshot(now_ms=self.now_ms, stale=self.stale, buckets=self.buckets)

    def settle(self, built: BuiltSnapshot, plan: Plan, ms: float = 0.0) -> RoundResult:
        """Fold the decisions of a plan."""
        self.builder.remember_feasible(built, plan)
        for name, count in zip(built.snapshot.queue_names, plan.queue_scheduled, strict=True):
            self.buckets.take_start_tokens(name, int(count), self.now_ms)
        self.buckets.preemptions.take(plan.preemption_tokens_used, self.now_ms)
        decided = outcome.name_decisions(
            self.case.name, self.round, self.view.jobs.rows, built, plan, ms
        )
        self._fold(plan, decided)
        return decided

    def _fold(self, plan: Plan, decided: RoundResult) -> None:
        for name in decided.preempted:
            job_id, queue = JobId(name), self._queue_of(name)
            run = int(self.view.jobs.run[self.row_of(name)])
            end: ev.AnyEvent = (
                ev.JobRequeued(job_id=job_id, reason="preempted")
                if self.case.settings.requeue_preempted
                else ev.JobPreempted(job_id=job_id, reason="preempted")
            )
            stops: list[ev.AnyEvent] = []
            if surplus_priority.rank_of(self.view.jobs.priority.item(self.row_of(name))):
                cause = ev.PreemptionCause(decided.preempted[name]["cause"])
                stops.append(ev.JobRunPreempting(job_id=job_id, run=run, cause=cause, reason=""))
            stopped = ev.JobRunStopped(job_id=job_id, run=run, reason="")
            self.append(queue, [*stops, stopped, end])
        values = plan.placed_value.tolist()
        for (name, node), value in zip(decided.placed.items(), values, strict=True):
            row = self.row_of(name)
            leased = ev.JobRunLeased(
                job_id=JobId(name),
                run=int(self.view.jobs.run[row]) + 1,
                executor=self.node(node).executor,
                node=node,
                value=value,
            )
            self.append(self._queue_of(name), [leased])
        for name, code in decided.rejected.items():
            rejected = ev.JobRejected(job_id=JobId(name), code=code, reason="")
            self.append(self._queue_of(name), [rejected])
        for name, code in decided.failed.items():
            failed = ev.JobFailed(
                job_id=JobId(name), category=ev.FailureCategory.ADMISSION, reason=code
            )
            self.append(self._queue_of(name), [failed])

    def running(self) -> dict[str, int]:
        """Live runs by queue."""
        jobs = self.view.jobs
        counts: dict[str, int] = {}
        for row in self.view.live_rows().tolist():
            if job_table.IS_LIVE_RUN[jobs.run_state[row]]:
                name = jobs.queues.values[int(jobs.queue[row])]
                counts[name] = counts.get(name, 0) + 1
        return counts

    def queued(self) -> set[str]:
        """The queued jobs."""
        jobs = self.view.jobs
        return {
            jobs.rows.id_at(row)
            for row in self.view.live_rows()
            if jobs.state[row] == job_table.QUEUED
        }

    def get_node_of(self, name: str) -> str | None:
        """The node of a live run."""
        jobs = self.view.jobs
        row = jobs.rows.get(JobId(name))
        if row is None or not job_table.IS_LIVE_RUN[jobs.run_state[row]]:
            return None
        return jobs.nodes.values[int(jobs.node[row])].node
