"""The runs of a simulation: what their executors would report of them, and when. Pure.

A run begins when it has its node and all that must make room for it there is gone. It ends when its
work is done, when it fails or is at its time limit as the trace says, when it was told to stop and
has taken its time for that, or with its node.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import FailureCategory
from fairlead_scheduler.simulate.model.ledger import Ledger, RunEnd
from fairlead_scheduler.simulate.model.random_draws import Chance
from fairlead_scheduler.simulate.model.trace import NEVER, Fails, Trace


class Report(NamedTuple):
    """What the run of a job did."""

    job: int
    event: ev.AnyEvent


class _Stop(NamedTuple):
    """A run was told to stop at `told_ms`, and has ended at `by_ms` at the latest."""

    told_ms: int
    by_ms: int
    reason: str


class Runs:
    """The live run of each job that has one; jobs are numbers of the trace."""

    def __init__(self, trace: Trace, chance: Chance, ledger: Ledger) -> None:
        self._trace, self._chance, self._ledger = trace, chance, ledger
        self._left_ms = list(trace.run_ms)
        """Work that is left of each job: with checkpoints a run that ended is not all in vain."""
        self._began_ms: dict[int, int] = {}
        """Job -> when its run began; not of those that wait on their node."""
        self._due: list[tuple[int, int, int]] = []
        """(when, job, run): when runs end if nothing stops them before."""
        self._stopping: dict[int, _Stop] = {}
        self._room: dict[int, set[int]] = {}
        """Jobs that have a node and wait there -> the jobs that must be gone first."""

    # What they are told -----------------------------------------------------------------------

    @property
    def any_stopping(self) -> bool:
        """Whether a run was told to stop and has not ended yet."""
        return bool(self._stopping)

    def wait_for(self, job: int, others: Iterable[int]) -> None:
        """The run of this job, when it has its node, begins after those of others are gone."""
        self._room[job] = set(others)

    def leased(self, job: int, event: ev.JobRunLeased, now_ms: int) -> list[Report]:
        """A job was given a node, where its run begins at once unless it must wait for others."""
        self._ledger.leased(job, event.run, event.node)
        return [] if self._room.get(job) else [self._begin(job, now_ms)]

    def resume(self, job: int, node: str, ran_ms: int, now_ms: int) -> None:
        """The job has run on this node for so long already."""
        self._ledger.leased(job, 1, node)
        self._ledger.started(job, now_ms)
        self._began_ms[job] = now_ms - ran_ms
        limit_ms = self._trace.runtime_ms_max[job]
        lasts_ms = self._left_ms[job] if limit_ms == NEVER else min(self._left_ms[job], limit_ms)
        heapq.heappush(self._due, (max(now_ms, now_ms - ran_ms + lasts_ms), job, 1))

    def stop(self, job: int, event: ev.JobRunPreempting, now_ms: int) -> list[Report]:
        """The run is told to stop; what says that it has, if it takes no time for that."""
        self._ledger.preempted(job, event.cause)
        stop_ms = self._trace.stop_ms.get(job, 0)
        if stop_ms and job in self._began_ms:
            self._stopping[job] = _Stop(now_ms, now_ms + stop_ms, event.reason)
            heapq.heappush(self._due, (now_ms + stop_ms, job, event.run))
            return []
        self._ended(job, now_ms, RunEnd.PREEMPTED)
        stopped = ev.JobRunStopped(job_id=event.job_id, run=event.run, reason=event.reason)
        return [Report(job, stopped)]

    def lose(self, node: str, now_ms: int) -> list[Report]:
        """The node is gone, and with it what ran or waited there."""
        lost = []
        for job in self._ledger.on(node):
            reason = f"node {node} is gone"
            event = ev.JobRunLost(job_id=self._id(job), run=self._ledger.runs[job], reason=reason)
            self._ended(job, now_ms, RunEnd.LOST)
            lost.append(Report(job, event))
        return lost

    # What becomes of them by themselves -------------------------------------------------------

    def begin_ready(self, now_ms: int) -> list[Report]:
        """Runs begin for which nobody must make room any more."""
        begun = []
        for job in [job for job, others in self._room.items() if not others]:
            del self._room[job]
            if job not in self._began_ms and self._ledger.state_of(job) is JobState.RUNNING:
                begun.append(self._begin(job, now_ms))
        return begun

    @property
    def next_end_ms(self) -> int | None:
        """When the next run ends by itself, or because it was told to some time ago."""
        due = self._due
        while due and self._is_over(due[0]):
            heapq.heappop(due)
        return due[0][0] if due else None

    def _is_over(self, entry: tuple[int, int, int]) -> bool:
        """Whether this run has ended before."""
        _, job, run = entry
        return job not in self._began_ms or self._ledger.runs[job] != run

    def end_due(self, now_ms: int) -> list[Report]:
        """Runs end whose time has come."""
        ended = []
        while self.next_end_ms == now_ms:
            _, job, run = heapq.heappop(self._due)
            event, outcome = self._end_of(job, run, now_ms)
            self._ended(job, now_ms, outcome)
            ended.append(Report(job, event))
        return ended

    def _end_of(self, job: int, run: int, now_ms: int) -> tuple[ev.AnyEvent, RunEnd]:
        job_id = self._id(job)
        lasted_ms = now_ms - self._began_ms[job]
        limit_ms = self._trace.runtime_ms_max[job]
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
        fails: Fails | None = self._trace.fails.get(job)
        if fails is None:
            return None
        if fails.after_ms is not None:
            return fails.after_ms if fails.after_ms <= self._left_ms[job] else None
        job_id = self._id(job)
        if self._chance.uniform(job_id, "fails", run) >= fails.probability:
            return None
        return int(self._left_ms[job] * self._chance.uniform(job_id, "fails at", run))

    # Both -------------------------------------------------------------------------------------

    def _id(self, job: int) -> JobId:
        return JobId(self._trace.ids[job])

    def _begin(self, job: int, now_ms: int) -> Report:
        self._began_ms[job] = now_ms
        run = self._ledger.runs[job]
        self._ledger.started(job, now_ms)
        lasts_ms = self._left_ms[job]
        limit_ms = self._trace.runtime_ms_max[job]
        if limit_ms != NEVER:
            lasts_ms = min(lasts_ms, limit_ms)
        fails_ms = self._fails_ms(job, run)
        if fails_ms is not None:
            lasts_ms = min(lasts_ms, fails_ms)
        heapq.heappush(self._due, (now_ms + lasts_ms, job, run))
        return Report(job, ev.JobRunRunning(job_id=self._id(job), run=run))

    def _ended(self, job: int, now_ms: int, outcome: RunEnd) -> None:
        """Account for a run: what it did counts if it succeeded, else up to its last checkpoint."""
        began_ms = self._began_ms.pop(job, now_ms)
        stop = self._stopping.pop(job, None)
        self._room.pop(job, None)
        for others in self._room.values():
            others.discard(job)
        lasted_ms = now_ms - began_ms
        kept_ms = lasted_ms
        if outcome is not RunEnd.SUCCEEDED:
            every_ms = self._trace.checkpoint_ms.get(job)
            worked_ms = lasted_ms if stop is None else stop.told_ms - began_ms
            kept_ms = 0 if every_ms is None else worked_ms // every_ms * every_ms
            self._left_ms[job] -= kept_ms
        self._ledger.run_ended(job, outcome, now_ms, lasted_ms - kept_ms)
