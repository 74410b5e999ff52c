"""The rules of a round for single jobs, read plainly: lists and loops, nothing of the engine.

It says what `schedule` must decide for pools without gangs, limits, floating resources, away
entries and avoided nodes, and it is as slow as it is plain. Where the rules leave room it follows
docs/decisions/0008. Jobs, queues and nodes are rows of the snapshot, as in the plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fairlead_scheduler.engine import Snapshot
from fairlead_scheduler.engine.snapshot import NodeFlag, Preemption, SchedulingFlag
from tests.properties.engine.reading_jobs import Amounts, Decided, Job, fill, plus, within

NEAR = 1e-9
COMPARED_MAX = 8
"""N4: on how many nodes victims are compared."""
HELD = {"kept", "back", "placed"}
"""States of a job that its queue is reckoned to hold; `evicted` is held in part, `gone` is not."""


class Plain:
    """One round."""

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
        self.fresh, self.stopped = self.none, False
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
            any_room = any(self.capacity)
            asked = self.cost(self.sum(running + queued))
            demand.append(asked if any_room else 1.0)
        total = sum(w for q, w in enumerate(weight) if part[q])
        self.weight = weight
        self.weight_share = [w / total if part[q] else 0.0 for q, w in enumerate(weight)]
        self.fair = fill(weight, demand, part)
        self.entitled = [max(f, w) for f, w in zip(self.fair, self.weight_share, strict=True)]
        self.actual = [
            self.cost(self.sum(j.request for j in self.runs if j.queue == q)) for q in self.queues
        ]

    # The model --------------------------------------------------------------------------------

    def held(self, q: int, *, evicted: bool, and_: Amounts = (), but: Sequence[Job] = ()) -> float:
        """Cost of what a queue holds, with or without evicted runs that were not taken yet.

        `and_` is reckoned as held too; jobs in `but` are reckoned as gone.
        """
        states = HELD | ({"evicted"} if evicted else set())
        gone = {j.row for j in but}
        mine = [j for j in self.jobs if j.queue == q and j.state in states and j.row not in gone]
        return self.cost(self.sum([j.request for j in mine] + ([and_] if and_ else [])))

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

        With `after` only victims whose queue had more before they were taken (R13).
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

    # The round --------------------------------------------------------------------------------

    def offer(self, q: int) -> Job | None:
        """R3: the first job of a queue that was not handled yet: placed, or passed for another."""
        closed = self.stopped or self.s.queue_cordoned[q]
        waiting = sorted(
            (
                j
                for j in self.jobs
                if j.queue == q
                and (
                    j.state == "evicted"
                    or (j.state == "queued" and not closed and j.row not in self.handled)
                )
            ),
            key=lambda j: (
                j.state != "evicted",
                -j.value,
                -j.priority,
                j.started if j.state == "evicted" else 0,
                j.submission,
            ),
        )
        for place, job in enumerate(waiting):
            if job.state == "evicted" or (q, job.shape) not in self.marked:
                self.handled |= {j.row for j in waiting[:place]}
                return job
        return None

    def goes_before(self, a: tuple[int, Job], b: tuple[int, Job], value: str) -> bool:
        """R4."""
        if getattr(a[1], value) != getattr(b[1], value):
            return bool(getattr(a[1], value) > getattr(b[1], value))
        over, amount, size = [], [], []
        for q, job in (a, b):
            now = self.held(q, evicted=False) / self.weight[q]
            then = self.held(q, evicted=False, and_=job.request) / self.weight[q]
            is_over = then > self.fair[q] / self.weight[q] + NEAR
            over.append(is_over)
            amount.append(then if is_over else now)
            size.append(self.cost(job.request) * self.weight[q])
        if over[0] != over[1]:
            return over[1]
        if abs(amount[0] - amount[1]) > NEAR:
            return amount[0] < amount[1]
        if not over[0] and abs(size[0] - size[1]) > NEAR:
            return size[0] > size[1]
        start = [self.actual[q] / self.weight[q] for q, _ in (a, b)]
        if abs(start[0] - start[1]) > NEAR:
            return start[0] < start[1]
        live = [j.home >= 0 for _, j in (a, b)]
        if live[0] != live[1]:
            return live[0]
        return a[0] < b[0]

    def next(self, offers: list[tuple[int, Job]], value: str) -> tuple[int, Job]:
        """The offer that goes next."""
        best = offers[0]
        for other in offers[1:]:
            if self.goes_before(other, best, value):
                best = other
        return best

    def decide(self) -> Decided:
        """R2 to R8."""
        for q in self.queues:
            if self.entitled[q] > 0 and self.actual[q] / self.entitled[q] > self.protected + NEAR:
                for run in self.runs:
                    if run.queue == q and run.kind == Preemption.ANY:
                        run.state, run.was_evicted = "evicted", True
        while offers := [(q, j) for q in self.queues if (j := self.offer(q)) is not None]:
            _, job = self.next(offers, "value")
            if job.state == "evicted":
                self.bring_back(job)
            elif within(self.fresh, self.capacity):
                self.climb(job)
            else:
                self.stopped = True
        self.make_fit()
        self.second_pass()
        return Decided(
            placed={j.row: j.where for j in self.jobs if j.home < 0 and j.state == "placed"},
            preempted={j.row for j in self.runs if j.state == "gone"},
            fair=self.fair,
            actual=self.actual,
        )

    def bring_back(self, job: Job) -> None:
        """R5: only room on its own node, where less urgent preemptible runs do not count."""
        soft = [
            j
            for j in self.on(job.where)
            if j is not job
            and (
                j.state == "evicted" or (j.kind != Preemption.NONE and j.run_value < job.run_value)
            )
        ]
        fits = within(job.request, self.room(job.where, [*soft, job]))
        job.state = "back"
        if not fits and not self.overfull[job.where]:
            job.state = "gone"
            self.reopen(job.where)

    def climb(self, job: Job) -> None:
        """N2 to N4."""
        nodes = [n for n in self.order if self.open(n, job)]
        for node in nodes:
            if within(job.request, self.room(node)):
                self.put(job, node)
                return
        weight = self.weight[job.queue]
        after = self.held(job.queue, evicted=True, and_=job.request) / weight
        found = []
        single = self.single_victim(job, after)
        if single is not None:
            found.append((self.price(single.where, [single], balance=True), single.where, [single]))
        queues = self.victim_queues(job, after) if single is None else []
        for node in self.by_queue(queues):
            if node not in nodes or len(found) == COMPARED_MAX:
                continue
            soft = [
                j
                for j in self.on(node)
                if j.state == "evicted" and j.run_value <= job.value and j.queue != job.queue
            ]
            taken = self.victims(node, job, soft, after)
            if taken is not None:
                found.append((self.price(node, taken, balance=True), node, taken))
        if found:
            _, node, taken = min(found, key=lambda item: item[0])
            for victim in taken:
                victim.state = "gone"
            self.put(job, node)
            self.reopen(node)
            return
        for node in self.victim_order:
            if node not in nodes or len(found) == COMPARED_MAX:
                continue
            soft = [
                j for j in self.on(node) if j.kind != Preemption.NONE and j.run_value < job.value
            ]
            covered = self.victims(node, None, soft, None)
            if covered is None:
                continue
            was = [(j, j.state) for j in covered]
            for j in covered:
                j.state = "gone"
            taken = self.victims(node, job, [j for j in soft if j.state != "gone"], None)
            for j, state in was:
                j.state = state
            if taken is not None:
                found.append(
                    (
                        self.price(node, taken, balance=False)
                        if taken
                        else (-math.inf, int(self.s.node_number[node])),
                        node,
                        taken,
                    )
                )
        if found:
            _, node, _ = min(found, key=lambda item: item[0])
            self.put(job, node)
            return
        job.state = "queued"
        self.marked.add((job.queue, job.shape))

    def victim_queues(self, job: Job, after: float) -> list[int]:
        """N4, tier (b): the queues that can lose runs, in their order."""
        cheapest = {
            q: min(j.run_value for j in self.runs if j.state == "evicted" and j.queue == q)
            for q in {j.queue for j in self.runs if j.state == "evicted"} - {job.queue}
        }
        return sorted(
            (
                q
                for q, value in cheapest.items()
                if value <= job.value and after < self.held(q, evicted=True) / self.weight[q] - NEAR
            ),
            key=lambda q: (cheapest[q], -self.above(q, []), q),
        )

    def by_queue(self, queues: list[int]) -> list[int]:
        """N4, tier (b): nodes with runs of the first queue, then those of the next."""
        result = []
        for q in queues:
            for node in self.victim_order:
                ran = [j.queue for j in self.runs if j.home == node and j.kind != Preemption.NONE]
                if q in ran and node not in result:
                    result.append(node)
        return result

    def single_victim(self, job: Job, after: float) -> Job | None:
        """N4, tier (b): the cheapest run of the queue that comes first, where it is enough.

        Queues that are equally far above their share count as one.
        """
        queues = self.victim_queues(job, after)
        if not queues:
            return None
        evicted = [j for j in self.runs if j.state == "evicted"]
        value = min(j.run_value for j in evicted if j.queue == queues[0])
        first = [
            q
            for q in queues
            if self.above(q, []) == self.above(queues[0], [])
            and min(j.run_value for j in evicted if j.queue == q) == value
        ]
        if len({j.priority for j in self.runs if j.was_evicted and j.queue in first}) > 1:
            return None
        for run in sorted(
            (j for j in evicted if j.queue in first and j.run_value == value),
            key=lambda j: (j.lost, -j.started, -j.submission),
        ):
            if self.open(run.where, job):
                fits = within(job.request, self.room(run.where, [run]))
                return run if fits else None
            if len(first) > 1:
                return None
        return None

    def reopen(self, node: int) -> None:
        """Room was given back there, and whom it could serve is tried again (section 5)."""
        room = self.room(node)
        self.marked = {
            (q, s)
            for q, s in self.marked
            if not within(tuple(map(int, self.s.shape_request[s])), room)
        }

    def put(self, job: Job, node: int) -> None:
        """Place a queued job: its run starts now, whatever its row says of an earlier one."""
        job.state, job.where, job.started = "placed", node, int(self.s.now_ms)
        self.fresh = plus(self.fresh, job.request)

    def make_fit(self) -> None:
        """R6."""
        for node in self.order:
            if self.overfull[node] or self.s.node_flags[node] & NodeFlag.LOST:
                continue
            soft = [j for j in self.on(node) if j.kind != Preemption.NONE]
            taken = self.victims(node, None, soft, None)
            assert taken is not None
            for victim in taken:
                victim.state = "gone"

    def second_pass(self) -> None:
        """R7."""
        left = [j for j in self.runs if j.state == "gone"]
        while True:
            offers = []
            for q in self.queues:
                mine = [j for j in left if j.queue == q and within(j.request, self.room(j.where))]
                if mine:
                    key = lambda j: (-j.run_value, -j.priority, j.started, j.submission)  # noqa: E731
                    offers.append((q, min(mine, key=key)))
            if not offers:
                return
            _, run = self.next(offers, "run_value")
            left.remove(run)
            run.state = "back"
