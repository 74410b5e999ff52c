"""The service in virtual time: its view, its decider, and a cluster in which runs take as long as
the trace says. Pure.

Facts go through the same fold as in the service; only the log, the leases and the way to the
executors are left out, so that what is decided at a time is true at that time: a run begins when it
is leased and all that must make room for it is gone, and one that is told to stop is gone as soon
as the trace says.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead_common import clusters as cluster_records
from fairlead_common import configuration, leases
from fairlead_common import events as ev
from fairlead_common.clusters import Heartbeat, Node
from fairlead_common.events import EVENTS_MAX, FailureCategory
from fairlead_common.ids import JobId, parse_run_id
from fairlead_common.lifecycle import JOB_ENDED, JobState
from fairlead_common.log import Entry
from fairlead_common.log.protocol import Record
from fairlead_scheduler.buckets import PoolBuckets
from fairlead_scheduler.clusters import Clusters
from fairlead_scheduler.deciding import Decider, Round
from fairlead_scheduler.leasing import Leases
from fairlead_scheduler.queues import Queues
from fairlead_scheduler.simulate.chance import Chance
from fairlead_scheduler.simulate.ledger import Ledger, RunEnd
from fairlead_scheduler.simulate.machines import Step
from fairlead_scheduler.simulate.rules import Given
from fairlead_scheduler.simulate.trace import NEVER, Fails, Trace
from fairlead_scheduler.units import Unit
from fairlead_scheduler.view import apply
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view.columns import JobSet, View

JOB_SET: Final = "simulated"
_SPEC: Final = msgspec.Raw(b"{}")
_TICK_MS: Final = 4
_POSITIONS: Final = 512
"""Submission numbers count ticks of 4 ms and 512 positions in each (`ids.submission_number`)."""
_ENDS: Final = {
    ev.JobSucceeded: JobState.SUCCEEDED,
    ev.JobFailed: JobState.FAILED,
    ev.JobCancelled: JobState.CANCELLED,
    ev.JobPreempted: JobState.PREEMPTED,
    ev.JobRejected: JobState.REJECTED,
}


class Stop(NamedTuple):
    """A run that was told to stop `told_ms`, and has ended `by_ms` at the latest."""

    told_ms: int
    by_ms: int
    reason: str


class World:
    """Jobs, nodes and the scheduler that decides about them."""

    def __init__(
        self,
        trace: Trace,
        nodes: Sequence[Node],
        given: Given,
        pool: str,
        chance: Chance,
        ledger: Ledger,
    ) -> None:
        self.trace, self.pool, self._chance, self.ledger = trace, pool, chance, ledger
        self.view = View(PoolBuckets(given.settings.rules))
        self._clusters, self._queues = Clusters(), Queues()
        self._position = 0
        self._tick = -1
        self._tick_began = 0
        """The place of the log at which submissions of this tick begin."""
        self._left_ms = list(trace.run_ms)
        """Work that is left of each job: with checkpoints a run that ended is not all in vain."""
        self._running: dict[int, int] = {}
        """Job -> when its live run began."""
        self._due: list[tuple[int, int, int]] = []
        """(when, job, run): runs and when they end if nothing stops them before."""
        self._stopping: dict[int, Stop] = {}
        """Jobs whose run was told to stop and has not ended yet."""
        self._room: dict[int, set[int]] = {}
        """Jobs that have a node and wait there -> the jobs that must be gone first."""
        self._nodes = {node.name: node for node in nodes}
        for node in nodes:
            self._report(node)
        for queue in given.queues.values():
            record = configuration.record(queue)
            entry = Entry(0, 0, record.key, record.value, 0)
            self._queues.apply([entry], self._clusters)
        self._decider = Decider(
            given.settings, self.view, self._clusters, self._queues, Leases(), began_ms=0
        )

    def _tell(self, record: Record) -> None:
        self._clusters.apply([Entry(0, 0, record.key, record.value, 0)])

    def _report(self, node: Node) -> None:
        if node.executor not in self._clusters.heard:
            self._tell(cluster_records.heartbeat_record(Heartbeat(executor=node.executor)))
        self._tell(cluster_records.node_record(node))

    # What happens -------------------------------------------------------------------------

    def nodes_change(self, now_ms: int, steps: Iterable[Step]) -> None:
        """Nodes come, change or go; what runs on one that goes is lost with it."""
        lost: list[tuple[int, str]] = []
        for step in steps:
            name = step.node.name
            if step.gone:
                self._nodes.pop(name, None)
                self._tell(cluster_records.node_gone_record(step.node.executor, name))
                lost += [(job, f"node {name} is gone") for job in self.ledger.on(name)]
            else:
                self._nodes[name] = step.node
                self._report(step.node)
        self.ledger.nodes_are(self._nodes.values())
        for job, reason in lost:
            job_id, run = JobId(self.trace.ids[job]), self.ledger.runs[job]
            event = ev.JobRunLost(job_id=job_id, run=run, reason=reason)
            self._run_ended(job, now_ms, RunEnd.LOST)
            self._fold(self.trace.queue[job], [event], now_ms)
        self._start_ready(now_ms)
        self.settle(now_ms)

    def submit(self, now_ms: int, jobs: Iterable[int]) -> None:
        """These jobs are submitted now, in this order."""
        by_queue: dict[int, list[ev.AnyEvent]] = {}
        for job in jobs:
            by_queue.setdefault(self.trace.queue[job], []).append(self._submitted(job))
            self.ledger.submitted(job)
        for queue, events in by_queue.items():
            for start in range(0, len(events), EVENTS_MAX):
                self._fold(queue, events[start : start + EVENTS_MAX], self._told_apart_ms(now_ms))

    def _told_apart_ms(self, now_ms: int) -> int:
        """The log's time of the next submissions: later, where a tick cannot tell more apart."""
        tick = max(now_ms // _TICK_MS, self._tick)
        if tick == self._tick and self._position - self._tick_began >= _POSITIONS:
            tick += 1
        if tick != self._tick:
            self._tick = tick
            self._position += -self._position % _POSITIONS
            self._tick_began = self._position
        return max(now_ms, tick * _TICK_MS)

    def _submitted(self, job: int) -> ev.JobSubmitted:
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
            on_preemption="fail" if job in trace.preempted_is_final else "requeue",
            gang=trace.gangs.get(job),
            retry=trace.retry.get(job),
        )

    @property
    def next_end_ms(self) -> int | None:
        """When the next run ends by itself."""
        due = self._due
        while due and self._is_over(due[0]):
            heapq.heappop(due)
        return due[0][0] if due else None

    def _is_over(self, entry: tuple[int, int, int]) -> bool:
        """Whether this end was forestalled by a stop."""
        _, job, run = entry
        return job not in self._running or self.ledger.runs[job] != run

    def end_due(self, now_ms: int) -> None:
        """Runs end whose time has come."""
        ended: dict[int, list[ev.AnyEvent]] = {}
        wanted_now = bool(self.trace.after)
        while self.next_end_ms == now_ms:
            _, job, run = heapq.heappop(self._due)
            event, outcome = self._own_end(job, run, now_ms)
            ended.setdefault(self.trace.queue[job], []).append(event)
            self._run_ended(job, now_ms, outcome)
            wanted_now |= outcome is not RunEnd.SUCCEEDED
        for queue, events in ended.items():
            self._fold(queue, events, now_ms)
        self._start_ready(now_ms)
        if wanted_now:  # others may start, or the job itself once more
            self.settle(now_ms)

    def _own_end(self, job: int, run: int, now_ms: int) -> tuple[ev.AnyEvent, RunEnd]:
        job_id = JobId(self.trace.ids[job])
        lasted_ms = now_ms - self._running[job]
        limit_ms = self.trace.runtime_ms_max[job]
        fails_ms = self._fails_ms(job, run)
        if fails_ms is not None and lasted_ms >= fails_ms:
            category, reason, code = FailureCategory.EXIT_CODE, "it failed, as the trace says", 1
        elif lasted_ms >= self._left_ms[job]:
            return ev.JobRunSucceeded(job_id=job_id, run=run), RunEnd.SUCCEEDED
        elif job in self._stopping and now_ms >= self._stopping[job].by_ms:
            reason = self._stopping[job].reason
            return ev.JobRunStopped(job_id=job_id, run=run, reason=reason), RunEnd.PREEMPTED
        else:
            category, code = FailureCategory.DEADLINE, None
            reason = f"stopped after its maximum run time of {limit_ms / 1000:g} s"
        failed = ev.JobRunFailed(
            job_id=job_id, run=run, category=category, reason=reason, exit_code=code
        )
        return failed, RunEnd.FAILED

    def _fails_ms(self, job: int, run: int) -> int | None:
        """How long after its start this run fails, if it does."""
        fails: Fails | None = self.trace.fails.get(job)
        if fails is None:
            return None
        if fails.after_ms is not None:
            return fails.after_ms if fails.after_ms <= self._left_ms[job] else None
        job_id = self.trace.ids[job]
        if self._chance.uniform(job_id, "fails", run) >= fails.probability:
            return None
        return int(self._left_ms[job] * self._chance.uniform(job_id, "fails at", run))

    # What the scheduler decides -------------------------------------------------------------

    def cycle(self, now_ms: int) -> Round | None:
        """A round, with all that follows from it at once; None if there was nothing to look at."""
        decided = self._decider.round(self.pool, self._decider.due(now_ms), now_ms, lambda: 0.0)
        if decided is not None:
            self._take(self._decider.units(decided), now_ms)
            self.settle(now_ms)
        return decided

    def can_start_any(self) -> bool:
        """Whether a job waits that may start: not only such as wait for others to end."""
        if not self.ledger.waiting or not self.trace.after:
            return self.ledger.waiting > 0
        jobs = self.view.jobs
        span = slice(0, jobs.used)
        flags = jobs.flags[span]
        waits = (jobs.state[span] == c.QUEUED) & ((flags & (c.NOT_BEFORE_LONG | c.FREE)) == 0)
        return bool(waits.any())

    def waits_for(self, job: int) -> list[str]:
        """The jobs that must succeed before this one may start."""
        row = self.view.jobs.rows.get(JobId(self.trace.ids[job]))
        rare = None if row is None else self.view.jobs.rare.get(row)
        return sorted(rare.after) if rare is not None else []

    def settle(self, now_ms: int) -> None:
        """Decide what ends of runs mean for their jobs, and what that means for others."""
        view = self.view
        while view.attention and (units := list(self._decider.due(now_ms).units())):
            self._take(units, now_ms)
        view.ended.clear()
        view.recent.clear()

    def _take(self, units: Iterable[Unit], now_ms: int) -> None:
        """Decisions become facts, and runs begin and stop as they say."""
        facts: dict[JobSet, list[ev.AnyEvent]] = {}
        for unit in units:
            for job_set, event in unit.facts:
                facts.setdefault(job_set, []).append(event)
            self._note_room(unit)
        number = self.trace.number
        for job_set, events in facts.items():
            queue = self.trace.queues.number(job_set.queue)
            for start in range(0, len(events), EVENTS_MAX):
                self._fold(queue, events[start : start + EVENTS_MAX], now_ms)
            follows: list[ev.AnyEvent] = []
            for event in events:
                match event:
                    case ev.JobRunLeased():
                        job = number[event.job_id]
                        self.ledger.leased(job, event.run, event.node)
                        if not self._room.get(job):
                            follows.append(self._begin(job, now_ms))
                    case ev.JobRunPreempting():
                        follows += self._stop(number[event.job_id], event, now_ms)
                    case ev.JobRequeued():
                        self.ledger.requeued(number[event.job_id])
                    case (
                        ev.JobSucceeded()
                        | ev.JobFailed()
                        | ev.JobCancelled()
                        | ev.JobPreempted()
                        | ev.JobRejected()
                    ):
                        self.ledger.ended(number[event.job_id], _ENDS[type(event)], event, now_ms)
                    case _:
                        raise AssertionError(f"no scheduler decides {type(event).__name__}")
            self._fold(queue, follows, now_ms)
        self._start_ready(now_ms)

    def _note_room(self, unit: Unit) -> None:
        """Which jobs wait on their node until others are gone: their leases say so."""
        if not self._stopping and not any(
            isinstance(event, ev.JobRunPreempting) for _, event in unit.facts
        ):
            return
        for record in unit.leases:
            lease = leases.decode(record.value) if record.value is not None else None
            if lease is not None and lease.after:
                others = (self.trace.number[parse_run_id(run)[0]] for run in lease.after)
                self._room[self.trace.number[lease.job_id]] = set(others)

    def _start_ready(self, now_ms: int) -> None:
        """Runs begin for which nobody must make room any more."""
        for job in [job for job, others in self._room.items() if not others]:
            del self._room[job]
            if job not in self._running and self.ledger.state_of(job) is JobState.RUNNING:
                self._fold(self.trace.queue[job], [self._begin(job, now_ms)], now_ms)

    def _begin(self, job: int, now_ms: int) -> ev.AnyEvent:
        self._running[job] = now_ms
        run = self.ledger.runs[job]
        self.ledger.started(job, now_ms)
        lasts_ms = self._left_ms[job]
        limit_ms = self.trace.runtime_ms_max[job]
        if limit_ms != NEVER:
            lasts_ms = min(lasts_ms, limit_ms)
        fails_ms = self._fails_ms(job, run)
        if fails_ms is not None:
            lasts_ms = min(lasts_ms, fails_ms)
        heapq.heappush(self._due, (now_ms + lasts_ms, job, run))
        return ev.JobRunRunning(job_id=JobId(self.trace.ids[job]), run=run)

    def _stop(self, job: int, event: ev.JobRunPreempting, now_ms: int) -> list[ev.AnyEvent]:
        """The run is told to stop; what says that it has, if it takes no time for that."""
        self.ledger.preempted(job, event.cause)
        stop_ms = self.trace.stop_ms.get(job, 0)
        if stop_ms and job in self._running:
            self._stopping[job] = Stop(now_ms, now_ms + stop_ms, event.reason)
            heapq.heappush(self._due, (now_ms + stop_ms, job, event.run))
            return []
        self._run_ended(job, now_ms, RunEnd.PREEMPTED)
        return [ev.JobRunStopped(job_id=event.job_id, run=event.run, reason=event.reason)]

    def _run_ended(self, job: int, now_ms: int, outcome: RunEnd) -> None:
        """Account for a run: what it did counts if it succeeded, else up to its last checkpoint."""
        began_ms = self._running.pop(job, now_ms)
        stop = self._stopping.pop(job, None)
        self._room.pop(job, None)
        for others in self._room.values():
            others.discard(job)
        lasted_ms = now_ms - began_ms
        kept_ms = lasted_ms
        if outcome is not RunEnd.SUCCEEDED:
            every_ms = self.trace.checkpoint_ms.get(job)
            worked_ms = lasted_ms if stop is None else stop.told_ms - began_ms
            kept_ms = 0 if every_ms is None else worked_ms // every_ms * every_ms
            self._left_ms[job] -= kept_ms
        self.ledger.run_ended(job, outcome, now_ms, lasted_ms - kept_ms)

    # The fold ---------------------------------------------------------------------------------

    def _fold(self, queue: int, events: list[ev.AnyEvent], at_ms: int) -> None:
        if not events:
            return
        name = self.trace.queues.values[queue]
        sequence = ev.EventSequence(queue=name, job_set=JOB_SET, by="simulate", events=events)
        message = apply.Message(0, self._position, at_ms, sequence)
        apply.apply(self.view, [message], self._known(events))
        self._position += 1

    def _known(self, events: Iterable[ev.AnyEvent]) -> dict[JobId, c.Ended]:
        """Jobs that ended before others that come after them were submitted."""
        known: dict[JobId, c.Ended] = {}
        if self.trace.after:
            for event in events:
                for other in event.after if isinstance(event, ev.JobSubmitted) else ():
                    state = self.ledger.state_of(self.trace.number[other])
                    if state in JOB_ENDED:
                        known[other] = c.Ended(state, "", 0)
        return known
