"""Keeps account of a simulation: what came of each job, who held what when, why jobs waited. Pure.

Per job it keeps numbers in arrays; over time it keeps means (`series`); what would grow with the
history (each run, each change of a queue's shares) goes to a `Sink` at once.
"""

from array import array
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, Protocol

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
from fairlead_scheduler.rules.decider import Round
from fairlead_scheduler.simulate.input.settings_file import Given
from fairlead_scheduler.simulate.model.series import Float, Series
from fairlead_scheduler.simulate.model.trace import Trace

_STATES: Final = tuple(JobState)
_CODES: Final = {state: code for code, state in enumerate(_STATES)}
NOT_YET: Final = -1
"""Of a time: it has not happened."""


class RunEnd(Enum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    LOST = "lost"
    """Its node is gone."""


class Sink(Protocol):
    """Where rows go that are written while the simulation runs."""

    def run(
        self, job: int, run: int, node: str, start_ms: int, end_ms: int, outcome: RunEnd
    ) -> None:
        """A run ended."""

    def shares(
        self, at_ms: int, queue: int, shares: tuple[float, float, float], queued: int, running: int
    ) -> None:
        """Weight share, fair share and actual share of a queue from now on."""


class Ledger:
    """Queues are numbers of `trace.queues`, resources those of `resources`."""

    def __init__(
        self,
        trace: Trace,
        nodes: Sequence[Node],
        given: Given,
        sample_ms: int,
        sink: Sink,
        later: Sequence[Node] = (),
    ) -> None:
        """`nodes` are there at first, `later` come or change."""
        self.trace, self._sink, self._sample_ms = trace, sink, sample_ms
        jobs, queues = len(trace), len(trace.queues)
        self.start_ms = array("q", [NOT_YET]) * jobs
        self.end_ms = array("q", [NOT_YET]) * jobs
        self.lost_ms = array("q", [0]) * jobs
        self.runs = array("i", [0]) * jobs
        self.preemptions = array("i", [0]) * jobs
        self.state = bytearray([_CODES[JobState.QUEUED]]) * jobs
        self.waiting = 0
        """Jobs that are queued, in all."""
        self.done = 0
        """Jobs that ended."""
        self.rounds = 0
        self.causes = dict.fromkeys(PreemptionCause, 0)
        self.refused: dict[str, tuple[int, int, str]] = {}
        """Code of a rejection -> how many, the first of them, and its sentence."""
        self.waited_ms: dict[str, int] = {}
        """Reason code -> job-milliseconds of waiting for that reason."""
        self._why: dict[str, int] = {}
        self._node: dict[int, tuple[str, int]] = {}
        """Job -> the node of its live run, and when that began, `NOT_YET` while it waits there."""
        self._rules = given.settings.rules
        self._resources([*nodes, *later])
        self.nodes_are(nodes)
        self.used_ms = [0] * len(self.resources)
        self.there_ms = [0] * len(self.resources)
        """Of each resource: how much there was, times how long."""
        self.lost_by = {end: [0] * len(self.resources) for end in RunEnd}
        self._held = np.zeros((queues, len(self.resources)), np.int64)
        self._queued = np.zeros(queues, np.int64)
        self._running = np.zeros(queues, np.int64)
        self._shares = np.zeros((2, queues))
        self._weight = np.array(
            [
                given.queues[name].weight if name in given.queues else 1.0
                for name in trace.queues.values
            ]
        )
        self._row: dict[str, int] = {name: at for at, name in enumerate(trace.queues.values)}
        self._by_name = np.array([self._row[name] for name in sorted(self._row)], np.intp)
        self._said: list[object] = [None] * queues
        self._sampled_ms: int | None = None
        self._unsaid = False
        self.now_ms = self.first_ms = min(trace.submit_ms, default=0)
        self.series = Series(2 * len(self.resources) + 4 * queues + 1, self.first_ms)

    def _resources(self, nodes: Sequence[Node]) -> None:
        """The resources that there are or that anybody needs, and what each shape needs."""
        requests = [shapes.decode(raw).requests for raw in self.trace.shapes.values]
        names = {name for node in nodes for name in node.allocatable} | set(self._rules.floating)
        self.resources = tuple(sorted(names.union(*requests)))
        self._request = np.array(
            [[of.get(name, 0) for name in self.resources] for of in requests], np.int64
        ).reshape(len(requests), len(self.resources))

    def nodes_are(self, nodes: Iterable[Node]) -> None:
        """What there is from now on (R1: a cordoned node does not count, for it stays empty)."""
        rules = self._rules
        there = [node for node in nodes if not node.unschedulable]
        self.capacity = [
            sum(node.allocatable.get(name, 0) for node in there) + int(rules.floating.get(name, 0))
            for name in self.resources
        ]
        multipliers = [rules.cost_multipliers.get(name, 1.0) for name in self.resources]
        self._factor = fair_shares.cost_factors(
            np.array(self.capacity, np.int64), np.array(multipliers)
        )

    # What happens to jobs ---------------------------------------------------------------------

    def submitted(self, job: int) -> None:
        """A job came."""
        self._queue_up(job)

    def requeued(self, job: int) -> None:
        """A job whose run ended waits again."""
        self.state[job] = _CODES[JobState.QUEUED]
        self._queue_up(job)

    def _queue_up(self, job: int) -> None:
        self.waiting += 1
        self._queued[self.trace.queue[job]] += 1

    def _unqueue(self, job: int) -> None:
        self.waiting -= 1
        self._queued[self.trace.queue[job]] -= 1

    def leased(self, job: int, run: int, node: str) -> None:
        """A job was given a node: it holds room from now on, though others may still stop there."""
        self._unqueue(job)
        queue = self.trace.queue[job]
        self._running[queue] += 1
        self._held[queue] += self._request[self.trace.shape[job]]
        self.state[job] = _CODES[JobState.RUNNING]
        self.runs[job] = run
        self._node[job] = (node, NOT_YET)

    def started(self, job: int, now_ms: int) -> None:
        """The run began."""
        self._node[job] = (self._node[job][0], now_ms)
        if self.start_ms[job] == NOT_YET:
            self.start_ms[job] = now_ms

    def preempted(self, job: int, cause: PreemptionCause) -> None:
        """The run of a job gives way."""
        self.preemptions[job] += 1
        self.causes[cause] += 1
        self.series.count(-1, 1.0, self.now_ms)

    def run_ended(self, job: int, outcome: RunEnd, now_ms: int, lost_ms: int) -> None:
        """A run ended, and this much of its time led to nothing."""
        node, start_ms = self._node.pop(job)
        start_ms = now_ms if start_ms == NOT_YET else start_ms
        queue, request = self.trace.queue[job], self._request[self.trace.shape[job]]
        self._running[queue] -= 1
        self._held[queue] -= request
        self.lost_ms[job] += lost_ms
        self.end_ms[job] = now_ms
        lost = self.lost_by[outcome]
        for at, amount in enumerate(request.tolist()):
            self.used_ms[at] += amount * (now_ms - start_ms)
            lost[at] += amount * lost_ms
        self._sink.run(job, self.runs[job], node, start_ms, now_ms, outcome)

    def ended(self, job: int, state: JobState, event: ev.AnyEvent, now_ms: int) -> None:
        """The job came to its end: with its last run, or without ever having one again."""
        if self.state[job] == _CODES[JobState.QUEUED]:
            self._unqueue(job)
            self.end_ms[job] = now_ms
        self.state[job] = _CODES[state]
        self.done += 1
        if isinstance(event, ev.JobRejected):
            count, first, reason = self.refused.get(event.code, (0, job, event.reason))
            self.refused[event.code] = (count + 1, first, reason)

    def state_of(self, job: int) -> JobState:
        """The state of a job."""
        return _STATES[self.state[job]]

    def on(self, node: str) -> list[int]:
        """The jobs that have this node."""
        return [job for job, (name, _) in self._node.items() if name == node]

    @property
    def running(self) -> int:
        """Live runs."""
        return len(self._node)

    # What is so at a time ----------------------------------------------------------------------

    def until(self, now_ms: int) -> None:
        """Nothing has changed since the last time until now."""
        if now_ms <= self.now_ms:
            return
        if self._unsaid and self._sampled_ms is not None:
            due_ms = self._sampled_ms + self._sample_ms
            if due_ms < now_ms:
                self._say(due_ms)
        for code, jobs in self._why.items():
            self.waited_ms[code] = self.waited_ms.get(code, 0) + jobs * (now_ms - self.now_ms)
        self.series.add(self._now(), now_ms)
        for at, amount in enumerate(self.capacity):
            self.there_ms[at] += amount * (now_ms - self.now_ms)
        self.now_ms = now_ms

    def _now(self) -> Float:
        used = self._held.sum(axis=0)
        there = np.array(self.capacity, np.float64)
        parts = (used, there, self._actual(), self._shares[1], self._queued, self._running, [0.0])
        values: Float = np.concatenate(parts)
        return values

    def _actual(self) -> Float:
        """S5: each queue's dominant share of what there is."""
        return fair_shares.dominant_share(self._held, self._factor)

    def round_done(self, decided: Round) -> None:
        """A round was decided and is folded back."""
        self.rounds += 1
        plan = decided.plan
        rows = [self._row[name] for name in decided.built.snapshot.queue_names]
        self._shares[:] = 0.0
        self._shares[0, rows] = plan.shares.weight
        self._shares[1, rows] = plan.shares.fair
        self._why = {}
        reasons = plan.reasons
        for code, jobs in zip(reasons.code.tolist(), reasons.waiting.tolist(), strict=True):
            if jobs > 0:
                name = reason_texts.CODE_NAMES[engine.Code(code)]
                self._why[name] = self._why.get(name, 0) + jobs
        self._may_say()

    def looked_at(self) -> None:
        """Nothing waits that may start, so a round would decide nothing and demand is what runs:
        shares as the engine would have them (S1, S3)."""
        self._why = {}
        order = self._by_name
        part, weight = self._running[order] > 0, self._weight[order]
        self._shares[0, order] = fair_shares.weight_shares(weight, part)
        self._shares[1, order] = fair_shares.fill_by_weight(weight, self._actual()[order], part, -1)
        self._may_say()

    def _may_say(self) -> None:
        sampled_ms = self._sampled_ms
        self._unsaid = True
        if sampled_ms is None or self.now_ms - sampled_ms >= self._sample_ms:
            self._say(self.now_ms)

    def finish(self) -> None:
        """The simulation is over."""
        if not self.waiting:
            self.looked_at()
        self._say(self.now_ms)

    def _say(self, at_ms: int) -> None:
        """Rows of the queues of which something changed since they were last told."""
        self._unsaid, self._sampled_ms = False, at_ms
        columns = (*self._shares.round(6), self._actual().round(6), self._queued, self._running)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        for queue in self._by_name.tolist():
            row = rows[queue]
            if row != self._said[queue] and (self._said[queue] is not None or any(row)):
                self._said[queue] = row
                weight, fair, actual, queued, running = row
                self._sink.shares(at_ms, queue, (weight, fair, actual), queued, running)

    def columns(self) -> dict[str, npt.NDArray[np.int64]]:
        """Submission, start, end and loss of each job in ms, `NOT_YET` where there is none."""
        named = {
            "submit": self.trace.submit_ms,
            "start": self.start_ms,
            "end": self.end_ms,
            "lost": self.lost_ms,
        }
        return {name: np.frombuffer(column, np.int64) for name, column in named.items()}
