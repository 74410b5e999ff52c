"""The scheduler in virtual time: its view, its decider and simulated runs. Pure.

Events go through the same fold as in the service. There is no log, no lease record and no executor:
a decision takes effect at the time at which it is made.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.ids import ArrayId, GroupId, JobId, parse_run_id, task_ids
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import index_sets, leases
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import EVENTS_MAX
from fairlead_scheduler.rules.append_batches import AppendBatch
from fairlead_scheduler.rules.decider import DecidedRound
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.simulate.input.node_file import NodeChange
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings, list_classes
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.random_draws import RandomDraws
from fairlead_scheduler.simulate.model.simulated_runs import Report, Runs
from fairlead_scheduler.simulate.model.trace import NEVER, Trace
from fairlead_scheduler.snapshots.builder import SLACK
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_table import JobSet

JOB_SET: Final = "simulated"
_SPEC: Final = msgspec.Raw(b"{}")
_TICK_MS: Final = 4
_POSITIONS: Final = 512
"""Submission numbers count ticks of 4 ms and 512 positions in each (`ids.submission_number`)."""
PAIRS_RETAINED_MAX: Final = 1 << 14
"""Up to this many pairs of queue and shape without jobs are retained: a trace names the same ones
again and again, and each new one costs as much as a round, but rounds read all pairs."""
_ENDS: Final = {
    ev.JobSucceeded: JobState.SUCCEEDED,
    ev.JobFailed: JobState.FAILED,
    ev.JobCancelled: JobState.CANCELLED,
    ev.JobPreempted: JobState.PREEMPTED,
    ev.JobRejected: JobState.REJECTED,
}


class World:
    """Jobs, nodes and the scheduler that decides about them."""

    def __init__(
        self,
        trace: Trace,
        nodes: Sequence[Node],
        settings: SimulationSettings,
        pool: str,
        draws: RandomDraws,
        ledger: Ledger,
    ) -> None:
        self.trace, self.pool, self.ledger = trace, pool, ledger
        self._runs = Runs(trace, draws, ledger)
        self._harness = SchedulerHarness(settings.scheduler.rules)
        self.view = self._harness.view
        self._values = {item.name: item.value for item in list_classes(settings.scheduler)}
        self._tick = -1
        self._tick_began = 0
        """The log position of the first submission of this tick."""
        self._nodes = {node.name: node for node in nodes}
        for node in nodes:
            self._harness.report_node(node)
        self._harness.configure(*settings.queues.values())
        slack = max(SLACK, PAIRS_RETAINED_MAX // max(1, len(trace.queues)))
        self._decider = self._harness.make_decider(settings.scheduler, slack=slack)

    # Inputs -------------------------------------------------------------------------------

    def change_nodes(self, now_ms: int, changes: Iterable[NodeChange]) -> None:
        """Add, change and remove nodes; runs on removed nodes are lost."""
        removed: list[str] = []
        for change in changes:
            name = change.node.name
            if change.removed:
                self._nodes.pop(name, None)
                removal = cluster_records.removed_node_record(change.node.executor, name)
                self._harness.fold_cluster_records(removal)
                removed.append(name)
            else:
                self._nodes[name] = change.node
                self._harness.report_node(change.node)
        self.ledger.set_nodes(list(self._nodes.values()))
        for name in removed:
            self._fold_reports(self._runs.lose_node(name, now_ms), now_ms)
        self._fold_reports(self._runs.begin_ready(now_ms), now_ms)
        self.run_housekeeping(now_ms)

    def submit(self, now_ms: int, jobs: Sequence[int]) -> None:
        """Submit these jobs in this order."""
        by_queue: dict[int, list[ev.AnyEvent]] = {}
        announced: set[GroupId | ArrayId] = set()
        for job in jobs:
            events = by_queue.setdefault(self.trace.queue[job], [])
            member = self.trace.members.get(job)
            if member is not None and member.group not in announced:
                announced.add(member.group)
                terms = self.trace.groups[member.group]
                events.append(ev.GroupSubmitted(group=member.group, terms=terms, digest=""))
            array = self.trace.arrays.get(job)
            if array is None:
                events.append(self._make_submitted(job))
            elif array.array not in announced:
                announced.add(array.array)
                events.append(array)
            self.ledger.record_submitted(job)
        for queue, events in by_queue.items():
            for start in range(0, len(events), EVENTS_MAX):
                self._fold(
                    queue, events[start : start + EVENTS_MAX], self._next_submission_ms(now_ms)
                )

        if self.trace.existing_runs:
            self._add_existing_runs(now_ms, jobs)
        if self.trace.arrays:
            self.run_housekeeping(now_ms)

    def _add_existing_runs(self, now_ms: int, jobs: Iterable[int]) -> None:
        """Add the existing runs of these jobs; a job whose node does not exist stays queued."""
        for job in jobs:
            placed = self.trace.existing_runs.get(job)
            if placed is None or placed.node not in self._nodes:
                continue
            job_id = JobId(self.trace.ids[job])
            value = self._values[self.trace.classes.values[self.trace.priority_class[job]]]
            leased = ev.JobRunLeased(
                job_id=job_id,
                run=1,
                executor=placed.executor,
                node=placed.node,
                pool=self.pool,
                value=value,
            )
            began_ms = now_ms - placed.ran_ms
            self._fold(
                self.trace.queue[job], [leased, ev.JobRunRunning(job_id=job_id, run=1)], began_ms
            )
            self._runs.resume(job, placed.node, placed.ran_ms, now_ms)

    def _next_submission_ms(self, now_ms: int) -> int:
        """The log time of the next submissions; in a later tick if this one has no more numbers."""
        tick = max(now_ms // _TICK_MS, self._tick)
        harness = self._harness
        if tick == self._tick and harness.position - self._tick_began >= _POSITIONS:
            tick += 1
        if tick != self._tick:
            self._tick = tick
            harness.position += -harness.position % _POSITIONS
            self._tick_began = harness.position
        return max(now_ms, tick * _TICK_MS)

    def _make_submitted(self, job: int) -> ev.JobSubmitted:
        trace = self.trace
        limit_ms = trace.runtime_ms_max[job]
        checkpoint_ms = trace.checkpoint_ms.get(job)
        return ev.JobSubmitted(
            job_id=JobId(trace.ids[job]),
            shape=msgspec.Raw(trace.shapes.values[trace.shape[job]]),
            spec=_SPEC,
            digest="",
            priority=trace.priority[job],
            priority_class=trace.classes.values[trace.priority_class[job]],
            pool=self.pool,
            after=tuple(JobId(other) for other in trace.after.get(job, ())),
            runtime_s_max=None if limit_ms == NEVER else -(-limit_ms // 1000),
            checkpoint_s=None if checkpoint_ms is None else -(-checkpoint_ms // 1000),
            when_infeasible="wait" if job in trace.infeasible_waits else "reject",
            on_preemption="fail" if job in trace.preempted_is_final else "requeue",
            gang=trace.gangs.get(job),
            group=trace.members.get(job),
            retry=trace.retry.get(job),
        )

    @property
    def next_end_ms(self) -> int | None:
        """The time at which the next run ends."""
        return self._runs.next_end_ms

    def end_due(self, now_ms: int) -> None:
        """End the runs that are due, and the jobs whose run succeeded: nothing else can be decided
        about these, unless they are members of gangs."""
        ended = self._runs.end_due(now_ms)
        decided = [] if self.trace.gangs or self.trace.members else _list_successes(ended)
        self._fold_reports([*ended, *decided], now_ms)
        for job, event in decided:
            self.ledger.record_ended(job, JobState.SUCCEEDED, event, now_ms)
        self._fold_reports(self._runs.begin_ready(now_ms), now_ms)
        failed = not all(isinstance(event, ev.JobRunSucceeded) for _, event in ended)
        if (
            failed or self.trace.after or self.trace.arrays
        ):  # the job, a job that depends on it or the next task is perhaps able to start
            self.run_housekeeping(now_ms)

    def _fold_reports(self, reports: Iterable[Report], now_ms: int) -> None:
        """Fold the reports of runs."""
        by_queue: dict[int, list[ev.AnyEvent]] = {}
        for job, event in reports:
            by_queue.setdefault(self.trace.queue[job], []).append(event)
        for queue, events in by_queue.items():
            self._fold(queue, events, now_ms)

    # Decisions ------------------------------------------------------------------------------

    def run_round(self, now_ms: int, *, explain: bool) -> DecidedRound | None:
        """Run a round and apply its decisions; None if the pool needs no round. `explain`: whether
        it finds the reasons of waiting jobs.

        Decisions of housekeeping, and ends of gang members, can change what waits, so they are
        applied first.
        """
        housekeeping = self._decider.decide_housekeeping(now_ms)
        if housekeeping.others or self.trace.gangs:
            self.run_housekeeping(now_ms)
            housekeeping = self._decider.decide_housekeeping(now_ms)
        decided = self._decider.decide_round(
            self.pool, housekeeping, now_ms, lambda: 0.0, explain=explain
        )
        started = [] if decided is None else self._decider.make_batches(decided)
        self._apply(housekeeping.successes.batches(), now_ms)
        self._apply(started, now_ms)
        self.run_housekeeping(now_ms)
        return decided

    @property
    def any_stopping(self) -> bool:
        """Whether a preempted run is still stopping."""
        return self._runs.any_stopping

    def can_start_any(self) -> bool:
        """Whether a queued job does not wait for other jobs to end."""
        if not self.ledger.waiting or not self.trace.after:
            return self.ledger.waiting > 0
        jobs = self.view.jobs
        span = slice(0, jobs.used)
        flags = jobs.flags[span]
        waits = (jobs.state[span] == job_table.QUEUED) & (
            (flags & (job_table.NOT_READY | job_table.FREE)) == 0
        )
        return bool(waits.any())

    def waits_for(self, job: int) -> list[str]:
        """The jobs and arrays that must succeed before this one, or its array, starts."""
        submitted = self.trace.arrays.get(job)
        array = None if submitted is None else self.view.arrays.get(submitted.array)
        if array is not None and array.waits_for:
            return sorted(array.waits_for)
        row = self.view.jobs.rows.get(JobId(self.trace.ids[job]))
        rare = None if row is None else self.view.jobs.rare_properties.get(row)
        return sorted(rare.after) if rare is not None else []

    def run_housekeeping(self, now_ms: int) -> None:
        """Requeue or end the jobs of ended runs and those that depend on them; release tasks."""
        view = self.view
        while (view.rows_to_examine or view.groups_to_examine or view.arrays) and (
            batches := list(self._decider.decide_housekeeping(now_ms).batches())
        ):
            self._apply(batches, now_ms)
        view.ended.clear()
        view.recent.clear()

    def _apply(self, batches: Iterable[AppendBatch], now_ms: int) -> None:
        """Fold decisions, and start and stop runs."""
        batches = list(batches)
        facts: dict[JobSet, list[ev.AnyEvent]] = {}
        stopping = self._runs.any_stopping
        for batch in batches:
            for job_set, event in batch.facts:
                facts.setdefault(job_set, []).append(event)
                stopping = stopping or isinstance(event, ev.JobRunPreempting)
        if stopping:
            self._note_blocked_runs(batches)
        for job_set, events in facts.items():
            reports = self._start_and_stop(events, now_ms)  # of jobs of the same queue
            events += [event for _, event in reports]
            queue = self.trace.queues.number(job_set.queue)
            for start in range(0, len(events), EVENTS_MAX):
                self._fold(queue, events[start : start + EVENTS_MAX], now_ms)
        self._fold_reports(self._runs.begin_ready(now_ms), now_ms)

    def _start_and_stop(self, events: Iterable[ev.AnyEvent], now_ms: int) -> list[Report]:
        """Start and stop runs after these decisions; returns their reports."""
        number = self.trace.number
        reports: list[Report] = []
        for event in events:
            match event:
                case ev.JobRunLeased():
                    reports += self._runs.leased(number[event.job_id], event, now_ms)
                case ev.JobRunPreempting():
                    reports += self._runs.stop(number[event.job_id], event, now_ms)
                case ev.JobRequeued():
                    self.ledger.record_requeued(number[event.job_id])
                case (
                    ev.JobSucceeded()
                    | ev.JobFailed()
                    | ev.JobCancelled()
                    | ev.JobPreempted()
                    | ev.JobRejected()
                ):
                    self.ledger.record_ended(
                        number[event.job_id], _ENDS[type(event)], event, now_ms
                    )
                case ev.ArrayTasksCancelled():
                    for task in task_ids(event.array, index_sets.parse(event.indexes)):
                        self.ledger.record_ended(number[task], JobState.CANCELLED, event, now_ms)
                case (
                    ev.JobSubmitted()
                    | ev.ArrayCancelRequested()
                    | ev.ArrayEnded()
                    | ev.GroupRunning()
                    | ev.GroupRestarting()
                    | ev.GroupSucceeded()
                    | ev.GroupFailed()
                    | ev.GroupCancelled()
                ):
                    pass  # what they mean for members and tasks are decisions about these
                case _:
                    raise AssertionError(f"unexpected decision {type(event).__name__}")
        return reports

    def _note_blocked_runs(self, batches: Iterable[AppendBatch]) -> None:
        """Note which jobs wait for preempted runs to end, as their leases specify. A run can wait
        for one that another batch stops."""
        for change in itertools.chain.from_iterable(batch.leases for batch in batches):
            value = change.record.value
            lease = leases.decode(value) if value is not None else None
            if lease is not None and lease.after:
                others = (self.trace.number[parse_run_id(run)[0]] for run in lease.after)
                self._runs.wait_for(self.trace.number[lease.job_id], others)

    # The fold ---------------------------------------------------------------------------------

    def _fold(self, queue: int, events: list[ev.AnyEvent], at_ms: int) -> None:
        if not events:
            return
        self._harness.fold_events(
            self.trace.queues.values[queue],
            events,
            time_ms=at_ms,
            job_set=JOB_SET,
            known=self._find_ended(events),
        )

    def _find_ended(self, events: Iterable[ev.AnyEvent]) -> dict[JobId, job_table.EndedJob]:
        """The ended jobs on which the submitted jobs depend."""
        known: dict[JobId, job_table.EndedJob] = {}
        if self.trace.after or self.trace.arrays:
            for event in events:
                for other in _list_dependencies(event):
                    job = self.trace.number.get(other)  # an array can lack the task
                    state = None if job is None else self.ledger.state_of(job)
                    if state in JOB_ENDED:
                        known[other] = job_table.EndedJob(state, "", 0)
        return known


def _list_successes(ended: Iterable[Report]) -> list[Report]:
    """What housekeeping decides about each of these runs that succeeded."""
    return [
        Report(job, ev.JobSucceeded(job_id=event.job_id))
        for job, event in ended
        if isinstance(event, ev.JobRunSucceeded)
    ]


def _list_dependencies(event: ev.AnyEvent) -> Sequence[JobId]:
    match event:
        case (
            ev.JobSubmitted(after=after) | ev.ArraySubmitted(template=ev.JobSubmitted(after=after))
        ):
            return after
        case _:
            return ()
