"""A pool as reading.py sees it: shares, and what is held and free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fairlead_scheduler.engine import Snapshot
from fairlead_scheduler.engine.snapshot import NodeFlag, Preemption, SchedulingFlag
from tests.properties.engine.reading_jobs import Amounts, Job, fill, plus, within

NEAR = 1e-9
COMPARED_MAX = 8
"""N4: on how many nodes victims are compared."""
HELD = {"kept", "back", "placed"}
"""States of a job that its queue is reckoned to hold; `evicted` is held in part, `gone` is not."""


class PlainPool:
    """The pool in a round."""

    def __init__(self, s: Snapshot, protected: float) -> None:
        self.s = s
        self.protected = protected
        self.none: Amounts = (0,) * len(s.resources)
        self.queues = range(len(s.queue_names))
        self.nodes = range(len(s.node_number))
        self.allocatable = [tuple(map(int, row)) for row in s.node_allocatable]
        self.jobs = [self._job(row) for row in range(len(s.job_queue))]
        self.runs = [j for j in self.jobs if j.state == "kept"]
        used = [self.sum(j.request for j in self.jobs if j.home == n) for n in self.nodes]
        self.overfull = [not within(used[n], self.allocatable[n]) for n in self.nodes]
        self.capacity = self.sum(
            self.allocatable[n]
            for n in self.nodes
            if not s.node_flags[n] & NodeFlag.LOST
            and not (s.node_flags[n] & NodeFlag.CORDONED and used[n] == self.none)
        )
        self.order = sorted(
            self.nodes,
            key=lambda n: (
                tuple(self.allocatable[n][r] - used[n][r] for r in self.fit_order()),
                int(s.node_number[n]),
            ),
        )
        self._shares()
        for run in self.runs:
            worked = self.cost(run.request) * max(0, int(s.now_ms) - run.started)
            run.lost = math.floor(worked * 1000 + 0.5)
        self.victim_order = sorted(self.nodes, key=self._cheapest_run)

    def _cheapest_run(self, node: int) -> tuple[Any, ...]:
        """N4: the node's place in the order of the victim search."""
        runs = [j for j in self.runs if j.home == node and j.kind != Preemption.NONE]
        keys = [(j.run_value, j.lost, -j.started, -j.submission) for j in runs]
        return (0, *min(keys)) if keys else (1, int(self.s.node_number[node]))

    def fit_order(self) -> list[int]:
        """N3: gpu, then cpu, then memory."""
        rank = {"cpu": 1, "memory": 2}
        return sorted(range(len(self.s.resources)), key=lambda r: rank.get(self.s.resources[r], 0))

    def sum(self, amounts: Any) -> Amounts:
        """Sum of amounts."""
        total = self.none
        for item in amounts:
            total = plus(total, item)
        return total

    def _job(self, row: int) -> Job:
        s = self.s
        shape, node = int(s.job_shape[row]), int(s.job_node[row])
        request = tuple(map(int, s.shape_request[shape]))
        class_row = int(s.shape_class[shape])
        value, kind = int(s.class_value[class_row]), int(s.class_preemption[class_row])
        started = int(s.job_started_ms[row])
        state = "queued" if node == -1 else "kept"
        if node >= 0 and s.node_flags[node] & NodeFlag.LOST:
            state = "aside"
        if s.job_flags is not None and s.job_flags[row] & SchedulingFlag.STOPPING:
            kind = Preemption.NONE
        return Job(
            row=row,
            queue=int(s.job_queue[row]),
            shape=shape,
            value=value,
            kind=kind,
            priority=int(s.job_priority[row]),
            started=started,
            submission=int(s.job_submission[row]),
            request=request,
            lost=0.0,
            home=node,
            run_value=value,
            state=state,
            where=node if state == "kept" else -1,
        )

    # Shares -----------------------------------------------------------------------------------

    def cost(self, amounts: Amounts) -> float:
        """Dominant share."""
        return max(
            (a / c for a, c in zip(amounts, self.capacity, strict=True) if c > 0), default=0.0
        )

    def suits(self, shape: int, node: int) -> bool:
        """N1, room aside."""
        return int(self.s.shape_match[shape, 0, self.s.node_type[node]]) == 0 and within(
            tuple(map(int, self.s.shape_request[shape])), self.allocatable[node]
        )

    def _shares(self) -> None:
        s = self.s
        weight = [float(w) for w in s.queue_weight]
        self.marked: set[tuple[int, int]] = set()
        self.handled: set[int] = set()
        self.fresh, self.stopped, self.placed = self.none, False, 0
        self.offers: dict[int, Job | None] = {}
        self.fitting: dict[int, int] = {}
        self.replaced: dict[int, int] = dict.fromkeys(self.queues, 0)
        feasible = [
            any(self.suits(shape, n) for n in self.nodes) for shape in range(len(s.shape_class))
        ]
        for job in self.jobs:
            if job.state == "queued" and not feasible[job.shape]:
                job.state = "infeasible"
        demand, part = [], []
        for q in self.queues:
            running = [j.request for j in self.runs if j.queue == q]
            queued = [
                j.request
                for j in self.jobs
                if j.queue == q and j.state == "queued" and feasible[j.shape]
            ]
            if s.queue_cordoned[q]:
                queued = []
            part.append(bool(running or queued))
            any_capacity = any(self.capacity)
            asked = self.cost(self.sum(running + queued))
            demand.append(asked if any_capacity else 1.0)
        total = sum(w for q, w in enumerate(weight) if part[q])
        self.weight = weight
        self.weight_share = [w / total if part[q] else 0.0 for q, w in enumerate(weight)]
        self.fair = fill(weight, demand, part)
        self.entitled = [max(f, w) for f, w in zip(self.fair, self.weight_share, strict=True)]
        self.actual = [
            self.cost(self.sum(j.request for j in self.runs if j.queue == q)) for q in self.queues
        ]

    # The model --------------------------------------------------------------------------------

    def held(
        self,
        q: int,
        *,
        evicted: bool,
        and_: Amounts = (),
        but: Sequence[Job] = (),
        least: float = -math.inf,
    ) -> float:
        """Cost of what a queue holds, with or without evicted runs that were not taken yet.

        `and_` is reckoned as held too; jobs in `but` are reckoned as gone. Only what runs at the
        value `least` or above counts.
        """
        states = HELD | ({"evicted"} if evicted else set())
        gone = {j.row for j in but}
        mine = [j for j in self.jobs if j.queue == q and j.state in states and j.row not in gone]
        requests = [j.request for j in mine if j.run_value >= least]
        return self.cost(self.sum(requests + ([and_] if and_ else [])))

    def gains(self, job: Job, victim: Job, gone: list[Job]) -> bool:
        """R13: whether an offer over budget is a gain if this victim alone was given back.

        Only what runs at the offer's value or above counts, and less urgent victims do not matter.
        `gone`: the other victims.
        """
        if victim.run_value < job.value:
            return True
        after = self.held(job.queue, evicted=True, and_=job.request, least=job.value)
        has = self.held(victim.queue, evicted=True, but=gone, least=job.value)
        return after / self.weight[job.queue] < has / self.weight[victim.queue] - NEAR

    def over_budget(self, job: Job, after: float) -> bool:
        """R4: whether the queue of the job exceeds its budget at this share by weight."""
        return after > self.fair[job.queue] / self.weight[job.queue] + NEAR

    def on(self, node: int) -> list[Job]:
        """What stands on a node in the model, evicted runs included."""
        return [j for j in self.jobs if j.where == node and j.state != "gone"]

    def room(self, node: int, without: Any = ()) -> Amounts:
        """What is free on a node beside everything, but for some."""
        gone = {j.row for j in without}
        taken = self.sum(j.request for j in self.on(node) if j.row not in gone)
        return plus(self.allocatable[node], taken, -1)

    def open(self, node: int, job: Job) -> bool:
        """Whether a node may get a new job at all."""
        return (
            not self.s.node_flags[node] and not self.overfull[node] and self.suits(job.shape, node)
        )

    def above(self, q: int, gone: list[Job]) -> int:
        """N2b: what a queue still holds, by what it is entitled to; to nine places."""
        holds = self.held(q, evicted=True, but=gone)
        return round(holds / max(self.entitled[q], 1e-9) * 1e9)

    def first_victim(self, candidates: list[Job], gone: list[Job]) -> Job:
        """The order of N2b."""
        return min(
            candidates,
            key=lambda j: (
                j.run_value,
                -self.above(j.queue, gone),
                j.priority,
                j.lost,
                -j.started,
                -j.submission,
            ),
        )

    def victims(
        self, node: int, job: Job | None, candidates: list[Job], after: float | None
    ) -> list[Job] | None:
        """N2: victims one by one until it fits, then each given back if it fits without it.

        With `after` only victims whose queue had more before they were taken, and of an offer over
        budget only if it is a gain for each, were it alone given back (R13).
        """
        need = self.none if job is None else job.request
        taken: list[Job] = []
        left = list(candidates)
        while not within(need, self.room(node, taken)):
            if not left:
                return None
            victim = self.first_victim(left, taken)
            left.remove(victim)
            if after is not None:
                had = self.held(victim.queue, evicted=True, but=taken) / self.weight[victim.queue]
                if after >= had - NEAR:
                    continue
            taken.append(victim)
        for victim in list(taken):
            rest = [j for j in taken if j is not victim]
            if within(need, self.room(node, rest)):
                taken = rest
        if after is not None and job is not None and self.over_budget(job, after):
            for victim in taken:
                if not self.gains(job, victim, [j for j in taken if j is not victim]):
                    return None
        return taken

    def price(self, node: int, taken: list[Job], *, balance: bool) -> tuple[Any, ...]:
        """N4."""
        first = taken[0]
        return (
            max(j.run_value for j in taken),
            -self.above(first.queue, []) if balance else 0,
            sum(j.lost for j in taken),
            len(taken),
            -first.started,
            -first.submission,
            int(self.s.node_number[node]),
        )
