"""What must hold after a round that changed nothing: no job waits for what it could have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead_scheduler.engine import Plan
from fairlead_scheduler.engine.snapshot import Code, Preemption, SchedulingFlag
from tests.properties.engine.plain import MARGIN, Amounts, Pool, plus


@dataclass
class Room:
    """What one node could give: N2b by hand."""

    pool: Pool
    evicted: set[int]
    entitled: list[float]

    def above(self, held: list[Amounts], q: int) -> float:
        return self.pool.cost(held[q]) / max(self.entitled[q], 1e-9)

    def lost_work(self, j: int) -> float:
        s = self.pool.snapshot
        return self.pool.cost(self.pool.whole[j]) * max(0, s.now_ms - int(s.job_started_ms[j]))

    def late(self, j: int, budget: list[float]) -> set[int]:
        """Evicted single runs whose turn comes after that of the queued job `j` (R3, R4).

        They are of a lower class than it and all that its own queue has evicted, or of the same
        and beyond the budget of their queue. Members of gangs stand elsewhere and are left out.
        """
        pool, s = self.pool, self.pool.snapshot
        own = [pool.class_value(k) for k in self.evicted if pool.queue(k) == pool.queue(j)]
        turn = min([pool.class_value(j), *own])
        result: set[int] = set()
        for q in range(len(s.queue_names)):
            mine = [k for k in self.evicted if pool.queue(k) == q]
            mine.sort(
                key=lambda k: (
                    -pool.class_value(k),
                    -int(s.job_priority[k]),
                    int(s.job_started_ms[k]),
                    int(s.job_submission[k]),
                )
            )
            held = pool.held()[q]
            for k in mine:
                held = plus(held, pool.whole[k], -1)
            for k in mine:
                held = plus(held, pool.whole[k])
                over = pool.cost(held) / pool.weights()[q] > budget[q] + MARGIN
                below = pool.class_value(k) < turn
                if pool.gang(k) < 0 and (below or (pool.class_value(k) == turn and over)):
                    result.add(k)
        return result

    def gives(self, j: int, n: int, value: int, after_share: float, evicted: set[int]) -> bool:
        """Whether evicted runs on node `n` can make room for `j`, each for a strict gain."""
        pool, s = self.pool, self.pool.snapshot
        held = pool.held()
        gone: set[int] = set()
        free = plus(pool.allocatable(n), pool.used(pool.node)[n], -1)
        left = [
            k
            for k in evicted
            if pool.node[k] == n and pool.value[k] <= value and pool.queue(k) != pool.queue(j)
        ]
        while any(r > f for r, f in zip(pool.request[j], free, strict=True)):
            left = [k for k in left if k not in gone]
            if not left:
                return False
            k = min(
                left,
                key=lambda k: (
                    pool.value[k],
                    -round(self.above(held, pool.queue(k)), 9),
                    int(s.job_priority[k]),
                    self.lost_work(k),
                    -int(s.job_started_ms[k]),
                    -int(s.job_submission[k]),
                ),
            )
            left.remove(k)
            if after_share >= self.per_weight(held, pool.queue(k)) - MARGIN:
                continue
            for mate in self.with_mates(k, gone):
                gone.add(mate)
                held[pool.queue(mate)] = plus(held[pool.queue(mate)], pool.whole[mate], -1)
                if pool.node[mate] == n:
                    free = plus(free, pool.request[mate])
        return True

    def per_weight(self, held: list[Amounts], q: int) -> float:
        return self.pool.cost(held[q]) / self.pool.weights()[q]

    def with_mates(self, k: int, gone: set[int]) -> list[int]:
        """The victim, with all its gang where that would be too small."""
        pool = self.pool
        g = pool.gang(k)
        if not pool.stops_with_gang(k) or pool.snapshot.gang_min is None:
            return [k]
        live = [i for i in range(len(pool.node)) if pool.gang(i) == g and pool.node[i] >= 0]
        live = [i for i in live if i not in gone]
        if pool.roles(g) and pool.snapshot.role_min is not None:
            same = [i for i in live if pool.role(i) == pool.role(k)]
            return live if len(same) <= int(pool.snapshot.role_min[pool.role(k)]) else [k]
        return live if len(live) <= int(pool.snapshot.gang_min[g]) else [k]


def strictest(pool: Pool) -> dict[int, int]:
    """By gang whose members stop together: the strictest kind of preemption of any member; a lost
    or stopping one: none."""
    result = dict[int, int]()
    for j, n in enumerate(pool.node):
        if n < -1 or not pool.stops_with_gang(j):
            continue
        unsafe = n >= 0 and (pool.lost(n) or pool.flagged(j, SchedulingFlag.STOPPING))
        kind = int(Preemption.NONE) if unsafe else pool.kind(j)
        result[pool.gang(j)] = max(result.get(pool.gang(j), 0), kind)
    return result


def kind_of(pool: Pool, strict: dict[int, int], j: int) -> int:
    if pool.flagged(j, SchedulingFlag.STOPPING):
        return int(Preemption.NONE)
    return strict[pool.gang(j)] if pool.stops_with_gang(j) else pool.kind(j)


def check_progress(pool: Pool, plan: Plan) -> None:
    """After a round that changed nothing: no single job waits for capacity that it could have.

    The first tier: capacity that is free beside everything. The second: what evicted runs on one
    node hold that have not returned when it is the job's turn, if the job is within its queue's
    budget and for a strict gain. The third: what less urgent runs hold.
    """
    held, weights, fair = pool.held(), pool.weights(), plan.shares.fair.tolist()
    entitled = np.maximum(plan.shares.fair, plan.shares.weight).tolist()
    strict = strictest(pool)
    evicted = {
        j
        for j in pool.runs()
        if kind_of(pool, strict, j) == Preemption.ANY
        and pool.cost(held[pool.queue(j)])
        > pool.settings.protected_fraction * entitled[pool.queue(j)] + MARGIN
    }
    free_capacity = Room(pool, evicted, entitled)
    used = pool.used(pool.node)
    limited = {Code.QUEUE_LIMIT, Code.FLOATING_LIMIT, Code.QUEUE_CORDONED, Code.INFEASIBLE}
    code = {
        (int(q), int(s)): Code(int(c))
        for q, s, c in zip(plan.reasons.queue, plan.reasons.shape, plan.reasons.code, strict=True)
    }
    ended = {*plan.rejected_job.tolist(), *plan.failed_job.tolist()}
    seen: set[tuple[int, int]] = set()
    for j in pool.queued():
        q, pair = pool.queue(j), (pool.queue(j), int(pool.snapshot.job_shape[j]))
        if j in ended or pool.gang(j) >= 0 or pair in seen or code[pair] in limited:
            continue
        seen.add(pair)
        share = pool.cost(plus(held[q], pool.whole[j])) / weights[q]
        within = share <= fair[q] / weights[q] - MARGIN
        late = free_capacity.late(j, [f / w for f, w in zip(fair, weights, strict=True)])
        for w, value in pool.entries(j):
            for n in range(len(pool.snapshot.node_number)):
                if not pool.suits(j, w, n):
                    continue
                free = plus(pool.allocatable(n), used[n], -1)
                open_ = all(r <= f for r, f in zip(pool.request[j], free, strict=True))
                assert not open_, f"{j} waits although {n} has room"
                below = free
                for k in pool.runs():
                    soft = kind_of(pool, strict, k) != Preemption.NONE
                    if pool.node[k] == n and soft and pool.value[k] < value:
                        below = plus(below, pool.request[k])
                urgent = all(r <= f for r, f in zip(pool.request[j], below, strict=True))
                assert not urgent, f"{j} waits although less urgent runs hold room on {n}"
                gain = within and free_capacity.gives(j, n, value, share, late)
                assert not gain, f"{j} waits for room that evicted runs on {n} could give"
