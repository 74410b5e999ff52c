"""Records the results of a simulation: times of jobs, usage over time, waiting reasons. Pure.

Numbers of jobs are in arrays, usage over time in means (`series`). Rows whose number grows with the
simulated time (each run, each change of a queue's shares) go to a `Sink` immediately.
"""

from array import array
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import PreemptionCause
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.engine.preparation.pool import fair_shares
from fairlead_scheduler.rules.decider import DecidedRound
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings
from fairlead_scheduler.simulate.model.backlog import Backlog, Int64, NodeUsage
from fairlead_scheduler.simulate.model.node_runs import NodeRuns
from fairlead_scheduler.simulate.model.queue_shares import QueueShares
from fairlead_scheduler.simulate.model.reason_times import WaitingReasons
from fairlead_scheduler.simulate.model.run_lists import JobLists
from fairlead_scheduler.simulate.model.series import Float, Series
from fairlead_scheduler.simulate.model.trace import Trace

_STATES: Final = tuple(JobState)
_CODES: Final = {state: code for code, state in enumerate(_STATES)}
EXPLAINED_INTERVALS: Final = 4
"""A round is explained once in this number of intervals of the time series."""
NOT_YET: Final = -1
"""A time of something that has not happened."""


class RunEnd(Enum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    LOST = "lost"
    """Its node was removed."""


class QueueRows(NamedTuple):
    """Rows of queues, as columns."""

    queue: list[int]
    weight_share: list[float]
    fair_share: list[float]
    actual_share: list[float]
    queued: list[int]
    running: list[int]


class Sink(Protocol):
    """Receives rows while the simulation runs."""

    def write_run(
        self, job: int, run: int, node: str, start_ms: int, end_ms: int, outcome: RunEnd
    ) -> None:
        """Write the row of a run that ended."""

    def write_shares(self, at_ms: int, rows: QueueRows) -> None:
        """Write what holds of these queues from `at_ms` on."""


class Ledger:
    """Queues are indexes of `trace.queues`, resources are indexes of `resources`."""

    def __init__(
        self,
        trace: Trace,
        nodes: Sequence[Node],
        settings: SimulationSettings,
        sample_ms: int,
        sink: Sink,
        later: Sequence[Node] = (),
    ) -> None:
        """`nodes` exist at the start, `later` are added or changed."""
        self.trace, self._sink, self._sample_ms = trace, sink, sample_ms
        jobs, queues = len(trace), len(trace.queues)
        self.start_ms = array("q", [NOT_YET]) * jobs
        self.end_ms = array("q", [NOT_YET]) * jobs
        self.lost_ms = array("q", [0]) * jobs
        self.runs = array("i", [0]) * jobs
        self.preemptions = array("i", [0]) * jobs
        self.state = bytearray([_CODES[JobState.QUEUED]]) * jobs
        self.waiting = 0
        """The number of queued jobs."""
        self.done = 0
        """The number of ended jobs."""
        self.rounds = 0
        self.causes = dict.fromkeys(PreemptionCause, 0)
        self.refused: dict[str, tuple[int, int, str]] = {}
        """Code of a rejection -> number of jobs, the first of them, and its reason."""
        self._node: dict[int, tuple[str, int]] = {}
        """Job -> the node of its live run and its start, `NOT_YET` if it has not started."""
        self._leased_ms = array("q", [NOT_YET]) * jobs
        self.run_node = np.full(jobs, -1, np.int32)
        """Job -> the row in `node_usage` of the node of its live run, -1 for none."""
        self.lists = JobLists(trace)
        self._rules = settings.scheduler.rules
        self.job_queue = np.frombuffer(trace.queue, np.int32)
        self.job_shape = np.frombuffer(trace.shape, np.int32)
        self._number_resources([*nodes, *later])
        self.backlog = Backlog(trace)
        self.node_usage = NodeUsage(self.resources)
        width = len(self.resources)
        self.used_ms = [0] * width
        self.available_ms = [0] * width
        """Capacity of each resource multiplied by time, up to its last change."""
        self.lost_by_outcome = {end: [0] * width for end in RunEnd}
        names, known = trace.queues.values, settings.queues
        weights = [known[name].weight if name in known else 1.0 for name in names]
        protected = self._rules.protected_fraction_of_fair_share
        self.queues = QueueShares(names, np.array(weights), width, protected)
        self._shares = np.zeros((2, queues))
        """[weight share and fair share, Q] as of the last round."""
        self._row: dict[str, int] = {name: at for at, name in enumerate(names)}
        self._rows_of: tuple[tuple[str, ...], npt.NDArray[np.intp]] = ((), np.zeros(0, np.intp))
        """The names of the queues of the last round, and their rows."""
        self._written = np.zeros((5, queues))
        """Of each queue, what its last row says."""
        self._sampled_ms: int | None = None
        self._pending = False
        self.now_ms = self.first_ms = min(trace.submit_ms, default=0)
        self._capacity_since_ms = self.now_ms
        self.reasons = WaitingReasons(queues)
        self._explained_interval: int | None = None
        """The intervals of the series in which a round was last explained."""
        self.capacity = [0] * width
        self.set_nodes(nodes)
        self.node_runs = NodeRuns([*nodes, *later], self.first_ms)
        self._values = np.zeros(2 * width + 4 * queues + 1)
        """What `figures` reads from the series, in its order."""
        self.series = Series(self._values.size, self.first_ms)

    def _number_resources(self, nodes: Sequence[Node]) -> None:
        """Number the resources of nodes and jobs, and compute the requests of each shape."""
        requests = [shapes.decode(raw).requests for raw in self.trace.shapes.values]
        names = {name for node in nodes for name in node.allocatable} | set(self._rules.floating)
        self.resources = tuple(sorted(names.union(*requests)))
        self.requests = np.array(
            [[amounts.get(name, 0) for name in self.resources] for amounts in requests], np.int64
        ).reshape(len(requests), len(self.resources))

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Set the capacity (rule R1: without cordoned nodes, which receive no jobs)."""
        self._count_available()
        self.node_usage.set_nodes(nodes)
        rules = self._rules
        available = [node for node in nodes if not node.unschedulable]
        self.capacity = [
            sum(node.allocatable.get(name, 0) for node in available)
            + int(rules.floating.get(name, 0))
            for name in self.resources
        ]
        multipliers = [rules.cost_multipliers.get(name, 1.0) for name in self.resources]
        self._capacity = np.array(self.capacity, np.int64)
        self.queues.set_cost_factors(
            fair_shares.cost_factors(self._capacity, np.array(multipliers))
        )

    def _count_available(self) -> None:
        """Count the capacity up to now."""
        elapsed_ms = self.now_ms - self._capacity_since_ms
        self._capacity_since_ms = self.now_ms
        for at, amount in enumerate(self.capacity):
            self.available_ms[at] += amount * elapsed_ms

    # Changes of jobs --------------------------------------------------------------------------

    def record_submitted(self, job: int) -> None:
        """A job was submitted."""
        self._add_queued(job)

    def record_requeued(self, job: int) -> None:
        """A job is queued again after the end of its run."""
        self.state[job] = _CODES[JobState.QUEUED]
        self._add_queued(job)

    def _add_queued(self, job: int) -> None:
        self.lists.add_queued(job)
        self._count_queued(job, 1)

    def _remove_queued(self, job: int) -> None:
        self.lists.remove_queued(job)
        self._count_queued(job, -1)

    def _count_queued(self, job: int, count: int) -> None:
        self.waiting += count
        self.queues.demand(self.trace.queue[job], self._request(job), count)
        self.backlog.add(job, count)

    def _request(self, job: int) -> Int64:
        request: Int64 = self.requests[self.trace.shape[job]]
        return request

    def record_leased(self, job: int, run: int, node: str) -> None:
        """A job was placed on a node: it uses resources even before preempted runs have stopped."""
        self._remove_queued(job)
        self._hold(job, node, 1)
        self.lists.add_run(job, self.now_ms)
        self.state[job] = _CODES[JobState.RUNNING]
        self.runs[job] = run
        self._node[job] = (node, NOT_YET)
        self._leased_ms[job] = self.now_ms

    def _hold(self, job: int, node: str, count: int) -> None:
        """A run begins (1) or ceases (-1) to use the resources of its job."""
        request = self._request(job)
        self.queues.hold(self.trace.queue[job], request, count)
        row = self.node_usage.take(node, request if count > 0 else -request)
        self.run_node[job] = row if count > 0 else -1
        self.backlog.add_run(job, count)

    def record_started(self, job: int, now_ms: int) -> None:
        """The run started."""
        self._node[job] = (self._node[job][0], now_ms)
        if self.start_ms[job] == NOT_YET:
            self.start_ms[job] = now_ms

    def record_preempted(self, job: int, cause: PreemptionCause) -> None:
        """The run of a job is preempted."""
        self.preemptions[job] += 1
        self.causes[cause] += 1
        self.series.count(-1, 1.0, self.now_ms)

    def record_run_end(self, job: int, outcome: RunEnd, now_ms: int, lost_ms: int) -> None:
        """A run ended; `lost_ms` of its time must be repeated."""
        node, start_ms = self._node.pop(job)
        start_ms = now_ms if start_ms == NOT_YET else start_ms
        request = self._request(job)
        self._hold(job, node, -1)
        self.lists.remove_run(job, self._leased_ms[job])
        self.lost_ms[job] += lost_ms
        self.end_ms[job] = now_ms
        lost = self.lost_by_outcome[outcome]
        for at, amount in enumerate(request.tolist()):
            self.used_ms[at] += amount * (now_ms - start_ms)
            lost[at] += amount * lost_ms
        self._sink.write_run(job, self.runs[job], node, start_ms, now_ms, outcome)
        self.node_runs.add_run(job, node, start_ms, now_ms)

    def record_ended(self, job: int, state: JobState, event: ev.AnyEvent, now_ms: int) -> None:
        """The job ended, with its last run or while it was queued."""
        if self.state[job] == _CODES[JobState.QUEUED]:
            self._remove_queued(job)
            self.end_ms[job] = now_ms
        self.state[job] = _CODES[state]
        self.done += 1
        if isinstance(event, ev.JobRejected):
            count, first, reason = self.refused.get(event.code, (0, job, event.reason))
            self.refused[event.code] = (count + 1, first, reason)

    def state_of(self, job: int) -> JobState:
        """The state of a job."""
        return _STATES[self.state[job]]

    def list_jobs_on(self, node: str) -> list[int]:
        """The jobs with a run on this node."""
        return [job for job, (name, _) in self._node.items() if name == node]

    @property
    def running(self) -> int:
        """The number of live runs."""
        return len(self._node)

    # State over time ---------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Advance the time; the state has not changed since the last call."""
        if now_ms <= self.now_ms:
            return
        if self._pending and self._sampled_ms is not None:
            due_ms = self._sampled_ms + self._sample_ms
            if due_ms < now_ms:
                self._write_changed_shares(due_ms)
        self.reasons.advance(now_ms - self.now_ms)
        self.series.add(self._current_values(), now_ms)
        self.node_runs.add_usage(self.node_usage, self.now_ms)
        self.now_ms = now_ms

    def _current_values(self) -> Float:
        """The values of the series now; the same array every time."""
        queues = self.queues
        np.concatenate(
            (
                queues.used,
                self._capacity,
                queues.actual,
                self._shares[1],
                queues.amounts.queued,
                queues.amounts.running,
            ),
            out=self._values[:-1],
        )
        return self._values

    def is_explanation_due(self) -> bool:
        """Whether no round has been explained in these intervals of the time series."""
        return self._explained_interval != self._find_explained_interval()

    def _find_explained_interval(self) -> int:
        return self.series.find_interval(self.now_ms, EXPLAINED_INTERVALS)

    def record_round(self, decided: DecidedRound) -> None:
        """Record a round after its decisions are applied."""
        self.rounds += 1
        plan = decided.plan
        names = decided.built.snapshot.queue_names
        if self._rows_of[0] is not names:
            self._rows_of = names, np.array([self._row[name] for name in names], np.intp)
        rows = self._rows_of[1]
        self._shares[:] = 0.0
        self._shares[0, rows] = plan.shares.weight
        self._shares[1, rows] = plan.shares.fair
        if plan.explained:
            self._explained_interval = self._find_explained_interval()
            self.reasons.set_explained(rows, plan.queue_skipped)
        else:
            self.reasons.divide(self.queues.amounts.queued)
        self._write_shares_if_due()

    def skip_round(self) -> None:
        """Compute the shares as the engine would (S1, S3), without a round.

        No queued job is able to start, so the demand is the running jobs.
        """
        self.reasons.set_none()
        self.queues.measure(waiting=False)
        self._take_shares()

    def skip_full_round(self) -> None:
        """Take the shares that were measured, without a round that would place no queued job."""
        self.reasons.divide(self.queues.amounts.queued)
        self._take_shares()

    def _take_shares(self) -> None:
        self._shares[0], self._shares[1] = self.queues.found.weight, self.queues.found.fair
        self._write_shares_if_due()

    def _write_shares_if_due(self) -> None:
        sampled_ms = self._sampled_ms
        self._pending = True
        if sampled_ms is None or self.now_ms - sampled_ms >= self._sample_ms:
            self._write_changed_shares(self.now_ms)

    def finish(self) -> None:
        """Record the end of the simulation."""
        if not self.waiting:
            self.skip_round()
        self._count_available()
        self.node_runs.finish(self.now_ms)
        self._write_changed_shares(self.now_ms)

    def _write_changed_shares(self, at_ms: int) -> None:
        """Write the rows of the queues that changed since their last row."""
        self._pending, self._sampled_ms = False, at_ms
        amounts, now = self.queues.amounts, np.empty_like(self._written)
        now[:2], now[2] = self._shares, self.queues.actual
        now[:3].round(6, out=now[:3])
        now[3], now[4] = amounts.queued, amounts.running
        changed = np.logical_or.reduce(now != self._written)
        rows = amounts.by_name[changed[amounts.by_name]]
        if rows.size:
            weight, fair, actual = now[:3, rows].tolist()
            queued, running = amounts.queued[rows].tolist(), amounts.running[rows].tolist()
            written = QueueRows(rows.tolist(), weight, fair, actual, queued, running)
            self._sink.write_shares(at_ms, written)
        self._written = now

    def columns(self) -> dict[str, npt.NDArray[np.int64]]:
        """Submission, start, end and lost time of each job in ms; `NOT_YET` if not happened."""
        named = {
            "submit": self.trace.submit_ms,
            "start": self.start_ms,
            "end": self.end_ms,
            "lost": self.lost_ms,
        }
        return {name: np.frombuffer(column, np.int64) for name, column in named.items()}
