"""The runs of a simulation: what their executors would report, and when. Pure.

A run starts when it has a node and the runs that were preempted for it have ended. It ends when its
work is done, when it fails or reaches its time limit as the trace specifies, when its time to stop
after a preemption is over, or when its node is removed.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_scheduler.simulate.model.ledger import Ledger, RunEnd
from fairlead_scheduler.simulate.model.random_draws import RandomDraws
from fairlead_scheduler.simulate.model.trace import NEVER, Failure, Trace


class Report(NamedTuple):
    """An event that an executor would report of a run."""

    job: int
    event: ev.AnyEvent


class _Stop(NamedTuple):
    """A run was stopped at `requested_ms`, and ends at `by_ms` at the latest."""

    requested_ms: int
    by_ms: int
    reason: str


class Runs:
    """The live runs; jobs are indexes of the trace."""

    def __init__(self, trace: Trace, draws: RandomDraws, ledger: Ledger) -> None:
        self._trace, self._draws, self._ledger = trace, draws, ledger
        self._remaining_ms = list(trace.run_ms)
        """Remaining work of each job; checkpoints save the work of runs that ended."""
        self._began_ms: dict[int, int] = {}
        """Job -> start of its run; without runs that wait for others to end."""
        self._due: list[tuple[int, int, int]] = []
        """(time, job, run): the ends of runs that are not stopped before."""
        self._stopping: dict[int, _Stop] = {}
        self._blocked_by: dict[int, set[int]] = {}
        """Job with a node -> the jobs whose runs must end before its run starts."""

    # Decisions --------------------------------------------------------------------------------

    @property
    def any_stopping(self) -> bool:
        """Whether a run is stopping."""
        return bool(self._stopping)

    def wait_for(self, job: int, others: Iterable[int]) -> None:
        """The run of this job starts after the runs of `others` have ended."""
        self._blocked_by[job] = set(others)

    def leased(self, job: int, event: ev.JobRunLeased, now_ms: int) -> list[Report]:
        """A job was placed; its run starts immediately unless it must wait for others."""
        self._ledger.record_leased(job, event.run, event.node)
        return [] if self._blocked_by.get(job) else [self._begin(job, now_ms)]

    def resume(self, job: int, node: str, ran_ms: int, now_ms: int) -> None:
        """The job has run on this node for `ran_ms` already."""
        self._ledger.record_leased(job, 1, node)
        self._ledger.record_started(job, now_ms)
        self._began_ms[job] = now_ms - ran_ms
        limit_ms = self._trace.runtime_ms_max[job]
        lasts_ms = (
            self._remaining_ms[job] if limit_ms == NEVER else min(self._remaining_ms[job], limit_ms)
        )
        heapq.heappush(self._due, (max(now_ms, now_ms - ran_ms + lasts_ms), job, 1))

    def stop(self, job: int, event: ev.JobRunPreempting, now_ms: int) -> list[Report]:
        """The run is preempted; returns the report of its end if it stops immediately."""
        self._ledger.record_preempted(job, event.cause)
        stop_ms = self._trace.stop_ms.get(job, 0)
        if stop_ms and job in self._began_ms:
            self._stopping[job] = _Stop(now_ms, now_ms + stop_ms, event.reason)
            heapq.heappush(self._due, (now_ms + stop_ms, job, event.run))
            return []
        self._end_run(job, now_ms, RunEnd.PREEMPTED)
        stopped = ev.JobRunStopped(job_id=event.job_id, run=event.run, reason=event.reason)
        return [Report(job, stopped)]

    def lose_node(self, node: str, now_ms: int) -> list[Report]:
        """The node was removed; its runs are lost."""
        lost = []
        for job in self._ledger.list_jobs_on(node):
            reason = f"node {node} was removed"
            event = ev.JobRunLost(job_id=self._id(job), run=self._ledger.runs[job], reason=reason)
            self._end_run(job, now_ms, RunEnd.LOST)
            lost.append(Report(job, event))
        return lost

    # Starts and ends --------------------------------------------------------------------------

    def begin_ready(self, now_ms: int) -> list[Report]:
        """Start the runs that no longer wait for others."""
        if not self._blocked_by:
            return []
        begun = []
        for job in [job for job, others in self._blocked_by.items() if not others]:
            del self._blocked_by[job]
            if job not in self._began_ms and self._ledger.state_of(job) is JobState.RUNNING:
                begun.append(self._begin(job, now_ms))
        return begun

    @property
    def next_end_ms(self) -> int | None:
        """The time at which the next run ends."""
        due = self._due
        while due and self._is_over(due[0]):
            heapq.heappop(due)
        return due[0][0] if due else None

    def _is_over(self, entry: tuple[int, int, int]) -> bool:
        """Whether this run has ended already."""
        _, job, run = entry
        return job not in self._began_ms or self._ledger.runs[job] != run

    def end_due(self, now_ms: int) -> list[Report]:
        """End the runs that are due."""
        ended = []
        while self.next_end_ms == now_ms:
            _, job, run = heapq.heappop(self._due)
            event, outcome = self._make_end(job, run, now_ms)
            self._end_run(job, now_ms, outcome)
            ended.append(Report(job, event))
        return ended

    def _make_end(self, job: int, run: int, now_ms: int) -> tuple[ev.AnyEvent, RunEnd]:
        job_id = self._id(job)
        lasted_ms = now_ms - self._began_ms[job]
        limit_ms = self._trace.runtime_ms_max[job]
        fails_ms = self._fails_ms(job, run)
        if fails_ms is not None and lasted_ms >= fails_ms:
            category, reason, code = FailureCategory.EXIT_CODE, "failed as the trace specifies", 1
        elif lasted_ms >= self._remaining_ms[job]:
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
        """The time from its start to its failure; None if it does not fail."""
        fails: Failure | None = self._trace.failures.get(job)
        if fails is None:
            return None
        if fails.after_ms is not None:
            return fails.after_ms if fails.after_ms <= self._remaining_ms[job] else None
        job_id = self._id(job)
        if self._draws.uniform(job_id, "fails", run) >= fails.probability:
            return None
        return int(self._remaining_ms[job] * self._draws.uniform(job_id, "fails at", run))

    # Common parts -----------------------------------------------------------------------------

    def _id(self, job: int) -> JobId:
        return JobId(self._trace.ids[job])

    def _begin(self, job: int, now_ms: int) -> Report:
        self._began_ms[job] = now_ms
        run = self._ledger.runs[job]
        self._ledger.record_started(job, now_ms)
        lasts_ms = self._remaining_ms[job]
        limit_ms = self._trace.runtime_ms_max[job]
        if limit_ms != NEVER:
            lasts_ms = min(lasts_ms, limit_ms)
        fails_ms = self._fails_ms(job, run)
        if fails_ms is not None:
            lasts_ms = min(lasts_ms, fails_ms)
        heapq.heappush(self._due, (now_ms + lasts_ms, job, run))
        return Report(job, ev.JobRunRunning(job_id=self._id(job), run=run))

    def _end_run(self, job: int, now_ms: int, outcome: RunEnd) -> None:
        """Record the end of a run; its work is saved if it succeeded, else up to a checkpoint."""
        began_ms = self._began_ms.pop(job, now_ms)
        stop = self._stopping.pop(job, None)
        self._blocked_by.pop(job, None)
        for others in self._blocked_by.values():
            others.discard(job)
        lasted_ms = now_ms - began_ms
        saved_ms = lasted_ms
        if outcome is not RunEnd.SUCCEEDED:
            every_ms = self._trace.checkpoint_ms.get(job)
            worked_ms = lasted_ms if stop is None else stop.requested_ms - began_ms
            saved_ms = 0 if every_ms is None else worked_ms // every_ms * every_ms
            self._remaining_ms[job] -= saved_ms
        self._ledger.record_run_end(job, outcome, now_ms, lasted_ms - saved_ms)
