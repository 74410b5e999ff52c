"""The rules of a round for single jobs, read plainly: lists and loops, nothing of the engine.

It says what `schedule` must decide for pools without gangs, limits, floating resources, away
entries and avoided nodes, and it is as slow as it is plain. Where the rules leave room it follows
docs/decisions/0008. Jobs, queues and nodes are rows of the snapshot, as in the plan.
"""

from __future__ import annotations

import math

from fairlead_scheduler.engine.snapshot import NodeFlag, Preemption
from tests.properties.engine.reading_jobs import Decided, Job, plus, within
from tests.properties.engine.reading_pool import COMPARED_MAX, NEAR, PlainPool


class Plain(PlainPool):
    """One round."""

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

    def choose_offer(self, q: int) -> Job | None:
        """R4: the first offer of a queue, or one within budget in its place."""
        self.fitting.pop(q, None)
        job = self.offer(q)
        if job is None or job.state == "evicted" or self.stopped or self.is_within(q, job):
            return job
        other = self.find_within(q, job)
        if other is None:
            return job
        if any(self.open(n, job) and within(job.request, self.room(n)) for n in self.nodes):
            self.fitting[q] = self.placed
            return job
        return other

    def is_within(self, q: int, job: Job) -> bool:
        """R4: whether the queue stays within its budget with the job."""
        proposed = self.held(q, evicted=False, and_=job.request) / self.weight[q]
        return proposed <= self.fair[q] / self.weight[q] + NEAR

    def find_within(self, q: int, first: Job) -> Job | None:
        """The next job behind the first that is of its value and within budget; no job is passed
        twice in a round (0056)."""
        order = sorted(
            (j for j in self.jobs if j.queue == q and j.home == -1),
            key=lambda j: (-j.value, -j.priority, j.submission),
        )
        at = max(self.replaced[q], order.index(first) + 1)
        while at < len(order) and order[at].value >= first.value:
            job = order[at]
            tried = job.state != "queued" or (q, job.shape) in self.marked
            if not tried and self.is_within(q, job):
                break
            at += 1
        self.replaced[q] = at
        found = at < len(order) and order[at].value >= first.value
        return order[at] if found else None

    def renew_offers(self, q: int) -> bool:
        """R4: whether a first offer that fitted is replaced, before the offer of queue `q`, over
        budget, is handled."""
        top = self.offers[q]
        assert top is not None
        if self.is_within(q, top):
            return False
        changed = False
        for other, placed in list(self.fitting.items()):
            before = self.offers[other]
            assert before is not None
            if before.value == top.value and self.placed > placed:
                self.offers[other] = self.choose_offer(other)
                changed |= self.offers[other] is not before
        return changed

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
        while offers := self.list_offers():
            q, job = self.next(offers, "value")
            if self.renew_offers(q):
                continue
            self.offers.pop(q)
            self.fitting.pop(q, None)
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

    def list_offers(self) -> list[tuple[int, Job]]:
        """What each queue offers: the same until it is handled, or until the run is preempted."""
        for q in self.queues:
            job = self.offers.get(q)
            if job is None or job.state not in ("queued", "evicted"):
                self.offers[q] = self.choose_offer(q)
            elif self.stopped and job.state == "queued":
                self.offers[q] = self.offer(q)
        return [(q, job) for q in self.queues if (job := self.offers[q]) is not None]

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
                gains = not self.over_budget(job, after) or self.gains(job, run, [])
                return run if fits and gains else None
            if len(first) > 1:
                return None
        return None

    def reopen(self, node: int) -> None:
        """Room was given back there, and whom it could serve is tried again (section 5)."""
        free_capacity = self.room(node)
        self.marked = {
            (q, s)
            for q, s in self.marked
            if not within(tuple(map(int, self.s.shape_request[s])), free_capacity)
        }

    def put(self, job: Job, node: int) -> None:
        """Place a queued job: its run starts now, whatever its row says of an earlier one."""
        self.placed += 1
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
