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

from fairlead_common.domain import shapes
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.events import PreemptionCause
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.preparation import fair_shares
from fairlead_scheduler.rules.decider import DecidedRound
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings
from fairlead_scheduler.simulate.model.backlog import Backlog, Int32, Int64, NodeUsage
from fairlead_scheduler.simulate.model.node_runs import NodeRuns
from fairlead_scheduler.simulate.model.series import Float, Series
from fairlead_scheduler.simulate.model.trace import Trace

_STATES: Final = tuple(JobState)
_CODES: Final = {state: code for code, state in enumerate(_STATES)}
_NO_CAPACITY: Final = reason_texts.CODE_NAMES[engine.Code.INSUFFICIENT_RESOURCES]
NOT_YET: Final = -1
"""A time of something that has not happened."""


class RunEnd(Enum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    LOST = "lost"
    """Its node was removed."""


class Sink(Protocol):
    """Receives rows while the simulation runs."""

    def write_run(
        self, job: int, run: int, node: str, start_ms: int, end_ms: int, outcome: RunEnd
    ) -> None:
        """Write the row of a run that ended."""

    def write_shares(
        self, at_ms: int, queue: int, shares: tuple[float, float, float], queued: int, running: int
    ) -> None:
        """Write the weight share, fair share and actual share of a queue from `at_ms` on."""


class Shares(NamedTuple):
    """Shares of the queues (rules S1, S3 and S5), [Q] each."""

    weight: Float
    fair: Float
    actual: Float


class OrderedRuns(NamedTuple):
    """Runs by queue, and of each queue in the order in which they return in a round (R3)."""

    queue: Int32
    node: Int32
    """Rows of `Ledger.node_usage`."""
    amounts: Int64
    """[runs, R]"""
    share: Float
    """Share / weight of the queue with this run and those before it."""

    def select(self, chosen: npt.NDArray[np.bool_]) -> "OrderedRuns":
        """The chosen ones of these runs."""
        return OrderedRuns._make(column[chosen] for column in self)


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
        self.waited_ms: dict[str, int] = {}
        """Reason code -> job-milliseconds of waiting."""
        self._waiting_by_reason: dict[str, int] = {}
        self._usual_reason: dict[int, str] = {}
        """Queue -> the reason of most of its queued jobs in the last round."""
        self._node: dict[int, tuple[str, int]] = {}
        """Job -> the node of its live run and its start, `NOT_YET` if it has not started."""
        self._leased_ms = array("q", [NOT_YET]) * jobs
        self._is_queued = np.zeros(jobs, np.bool_)
        self._run_row = np.full(jobs, -1, np.int32)
        """Job -> the row in `node_usage` of the node of its live run, -1 for none."""
        self._rules = settings.scheduler.rules
        self.job_queue = np.frombuffer(trace.queue, np.int32)
        self.job_shape = np.frombuffer(trace.shape, np.int32)
        self._number_resources([*nodes, *later])
        self.backlog = Backlog(trace)
        self.node_usage = NodeUsage(self.resources)
        self.set_nodes(nodes)
        self.used_ms = [0] * len(self.resources)
        self.available_ms = [0] * len(self.resources)
        """Capacity of each resource multiplied by time."""
        self.lost_by_outcome = {end: [0] * len(self.resources) for end in RunEnd}
        self.allocated = np.zeros((queues, len(self.resources)), np.int64)
        self._used = np.zeros(len(self.resources), np.int64)
        """What all queues hold together."""
        self._actual: Float | None = None
        """The dominant shares; None if they changed."""
        self._queued = np.zeros(queues, np.int64)
        self._running = np.zeros(queues, np.int64)
        self._shares = np.zeros((2, queues))
        names, known = trace.queues.values, settings.queues
        weights = [known[name].weight if name in known else 1.0 for name in names]
        self.weight = np.array(weights)
        self._row: dict[str, int] = {name: at for at, name in enumerate(names)}
        self._by_name = np.array([self._row[name] for name in sorted(self._row)], np.intp)
        self._place_by_name = np.argsort(self._by_name)
        self._weight_by_name = self.weight[self._by_name]
        self._rows_of: tuple[tuple[str, ...], npt.NDArray[np.intp]] = ((), np.zeros(0, np.intp))
        """The names of the queues of the last round, and their rows."""
        self._written = np.zeros((5, queues))
        """Of each queue, what its last row says."""
        self._sampled_ms: int | None = None
        self._pending = False
        self.now_ms = self.first_ms = min(trace.submit_ms, default=0)
        self.node_runs = NodeRuns([*nodes, *later], self.first_ms)
        self._values = np.zeros(2 * len(self.resources) + 4 * queues + 1)
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
        self.node_usage.set_nodes(nodes)
        rules = self._rules
        available = [node for node in nodes if not node.unschedulable]
        self.capacity = [
            sum(node.allocatable.get(name, 0) for node in available)
            + int(rules.floating.get(name, 0))
            for name in self.resources
        ]
        multipliers = [rules.cost_multipliers.get(name, 1.0) for name in self.resources]
        self.cost_factors = fair_shares.cost_factors(
            np.array(self.capacity, np.int64), np.array(multipliers)
        )
        self._actual = None

    # Changes of jobs --------------------------------------------------------------------------

    def record_submitted(self, job: int) -> None:
        """A job was submitted."""
        self._add_queued(job)

    def record_requeued(self, job: int) -> None:
        """A job is queued again after the end of its run."""
        self.state[job] = _CODES[JobState.QUEUED]
        self._add_queued(job)

    def _add_queued(self, job: int) -> None:
        self.waiting += 1
        self._is_queued[job] = True
        self._queued[self.trace.queue[job]] += 1
        self.backlog.add(job, 1)

    def _remove_queued(self, job: int) -> None:
        self.waiting -= 1
        self._is_queued[job] = False
        self._queued[self.trace.queue[job]] -= 1
        self.backlog.add(job, -1)

    def record_leased(self, job: int, run: int, node: str) -> None:
        """A job was placed on a node: it uses resources even before preempted runs have stopped."""
        self._remove_queued(job)
        self._hold(job, node, 1)
        self.state[job] = _CODES[JobState.RUNNING]
        self.runs[job] = run
        self._node[job] = (node, NOT_YET)
        self._leased_ms[job] = self.now_ms

    def _hold(self, job: int, node: str, count: int) -> None:
        """A run begins (1) or ceases (-1) to use the resources of its job."""
        queue, amounts = self.trace.queue[job], count * self.requests[self.trace.shape[job]]
        self._running[queue] += count
        self.allocated[queue] += amounts
        self._used += amounts
        self._actual = None
        row = self.node_usage.take(node, amounts)
        self._run_row[job] = row if count > 0 else -1
        self.backlog.add_run(job, count)

    def order_runs(self) -> OrderedRuns:
        """All runs by queue, in the order of R3; classes are not compared."""
        jobs = self._order_jobs(np.flatnonzero(self._run_row >= 0), self._leased_ms)
        queue, amounts = self.job_queue[jobs], self.requests[self.job_shape[jobs]]
        total = np.cumsum(amounts, axis=0)
        first = np.searchsorted(queue, queue)
        held = total - total[first] + amounts[first]
        share = fair_shares.dominant_share(held, self.cost_factors) / self.weight[queue]
        return OrderedRuns(queue, self._run_row[jobs], amounts, share)

    def first_queued(self) -> npt.NDArray[np.intp]:
        """The first queued job of each queue that has one (R3); classes are not compared."""
        jobs = self._order_jobs(np.flatnonzero(self._is_queued), self.trace.submit_ms)
        return jobs[np.unique(self.job_queue[jobs], return_index=True)[1]]

    def _order_jobs(self, jobs: npt.NDArray[np.intp], by_ms: "array[int]") -> npt.NDArray[np.intp]:
        """Jobs by queue, greater priority, this time and submission."""
        columns = (self.trace.submit_ms, by_ms, self.trace.priority)
        submit, times, priority = (np.frombuffer(column, np.int64)[jobs] for column in columns)
        keys: tuple[npt.NDArray[np.int64 | np.int32], ...] = (
            *(jobs, submit, times, -priority),
            self.job_queue[jobs],
        )
        return jobs[np.lexsort(keys)]

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
        request = self.requests[self.trace.shape[job]]
        self._hold(job, node, -1)
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
        for code, jobs in self._waiting_by_reason.items():
            self.waited_ms[code] = self.waited_ms.get(code, 0) + jobs * (now_ms - self.now_ms)
        self.series.add(self._current_values(), now_ms)
        self.node_runs.add_usage(self.node_usage, now_ms)
        for at, amount in enumerate(self.capacity):
            self.available_ms[at] += amount * (now_ms - self.now_ms)
        self.now_ms = now_ms

    def _current_values(self) -> Float:
        """What `figures` reads from the series, in its order; the same array every time."""
        values, at = self._values, 0
        parts = (
            self._used,
            self.capacity,
            self.actual_shares(),
            self._shares[1],
            self._queued,
            self._running,
        )
        for part in parts:
            values[at : at + len(part)] = part
            at += len(part)
        return values

    def actual_shares(self) -> Float:
        """The dominant share of each queue (rule S5)."""
        if self._actual is None:
            self._actual = fair_shares.dominant_share(self.allocated, self.cost_factors)
        return self._actual

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
        self._record_reasons(decided)
        self._write_shares_if_due()

    def _record_reasons(self, decided: DecidedRound) -> None:
        """Count the queued jobs by the reason that the round found."""
        self._waiting_by_reason = {}
        most: dict[int, tuple[int, str]] = {}
        reasons, names = decided.plan.reasons, decided.built.snapshot.queue_names
        for code, jobs, at in zip(
            reasons.code.tolist(), reasons.waiting.tolist(), reasons.queue.tolist(), strict=True
        ):
            if jobs > 0:
                name = reason_texts.CODE_NAMES[engine.Code(code)]
                queue = self._row[names[at]]
                self._waiting_by_reason[name] = self._waiting_by_reason.get(name, 0) + jobs
                most[queue] = max(most.get(queue, (0, "")), (jobs, name))
        self._usual_reason = {queue: name for queue, (_, name) in most.items()}

    def skip_round(self) -> None:
        """Compute the shares as the engine would (S1, S3), without a round.

        No queued job is able to start, so the demand is the running jobs.
        """
        self._waiting_by_reason = {}
        shares = self._fill(self._running > 0, self.actual_shares())
        self._shares[0], self._shares[1] = shares.weight, shares.fair
        self._write_shares_if_due()

    def skip_full_round(self) -> None:
        """Compute the shares without a round that would place no queued job.

        Queued jobs wait for the reason that is usual in their queue.
        """
        self._waiting_by_reason = {}
        for queue in np.flatnonzero(self._queued).tolist():
            name = self._usual_reason.get(queue, _NO_CAPACITY)
            jobs = int(self._queued[queue])
            self._waiting_by_reason[name] = self._waiting_by_reason.get(name, 0) + jobs
        shares = self.compute_shares()
        self._shares[0], self._shares[1] = shares.weight, shares.fair
        self._write_shares_if_due()

    def compute_shares(self) -> Shares:
        """The shares if all queued jobs are demand and nothing limits a queue."""
        groups = self.backlog.waiting_groups()
        queued = np.zeros_like(self.allocated)
        amounts = self.backlog.jobs[groups, None] * self.requests[self.backlog.shape[groups]]
        np.add.at(queued, self.backlog.queue[groups], amounts)
        demand = fair_shares.dominant_share(self.allocated + queued, self.cost_factors)
        return self._fill(self._running + self._queued > 0, demand)

    def _fill(self, takes_part: npt.NDArray[np.bool_], demand: Float) -> Shares:
        order, place, by_name = self._by_name, self._place_by_name, self._weight_by_name
        takes_part = takes_part[order]
        weight = fair_shares.weight_shares(by_name, takes_part)
        fair = fair_shares.fill_by_weight(by_name, demand[order], takes_part, -1)
        return Shares(weight[place], fair[place], self.actual_shares())

    def cost_with(self, queues: npt.NDArray[np.int32], requests: npt.NDArray[np.int64]) -> Float:
        """The cost of what each queue holds together with one of the requests."""
        return fair_shares.dominant_share(self.allocated[queues] + requests, self.cost_factors)

    def _write_shares_if_due(self) -> None:
        sampled_ms = self._sampled_ms
        self._pending = True
        if sampled_ms is None or self.now_ms - sampled_ms >= self._sample_ms:
            self._write_changed_shares(self.now_ms)

    def finish(self) -> None:
        """Record the end of the simulation."""
        if not self.waiting:
            self.skip_round()
        self._write_changed_shares(self.now_ms)

    def _write_changed_shares(self, at_ms: int) -> None:
        """Write the rows of the queues that changed since their last row."""
        self._pending, self._sampled_ms = False, at_ms
        now = np.empty_like(self._written)
        now[:2], now[2] = self._shares, self.actual_shares()
        np.round(now[:3], 6, out=now[:3])
        now[3], now[4] = self._queued, self._running
        changed = (now != self._written).any(axis=0)
        for queue in self._by_name[changed[self._by_name]].tolist():
            weight, fair, actual, queued, running = now[:, queue].tolist()
            shares = (weight, fair, actual)
            self._sink.write_shares(at_ms, queue, shares, int(queued), int(running))
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
