"""The rules once more, as plainly as they can be said: what a plan is checked against.

Nothing here uses the engine's own code; rows are looked at one by one and sums are made anew.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot
from fairlead_scheduler.engine.snapshot import (
    NO_AWAY,
    Cause,
    NodeFlag,
    Preemption,
    SchedulingFlag,
)

MARGIN = 1e-6
"""Comparisons closer than this are left to the engine's tolerance."""
Amounts = tuple[int, ...]


def plus(a: Amounts, b: Amounts, sign: int = 1) -> Amounts:
    return tuple(x + sign * y for x, y in zip(a, b, strict=True))


@dataclass
class Pool:
    """A snapshot in ordinary lists and dictionaries."""

    snapshot: Snapshot
    settings: EngineSettings
    request: list[Amounts] = field(init=False)
    whole: list[Amounts] = field(init=False)
    node: list[int] = field(init=False)
    value: list[int] = field(init=False)

    def __post_init__(self) -> None:
        s = self.snapshot
        per_shape = [tuple(row) for row in s.shape_request.tolist()]
        beside = (
            [()] * len(per_shape)
            if s.shape_floating is None
            else [tuple(row) for row in s.shape_floating.tolist()]
        )
        self.request = [per_shape[shape] for shape in s.job_shape.tolist()]
        self.whole = [
            per_shape[shape] + (beside[shape] or (0,) * len(s.floating))
            for shape in s.job_shape.tolist()
        ]
        self.node = s.job_node.tolist()
        own = [self.class_value(j) for j in range(len(self.node))]
        at = own if s.job_value is None else s.job_value.tolist()
        self.value = [at[j] if self.node[j] >= 0 else own[j] for j in range(len(self.node))]

    # What is told of single rows ---------------------------------------------------------

    def class_of(self, j: int) -> int:
        return int(self.snapshot.shape_class[self.snapshot.job_shape[j]])

    def class_value(self, j: int) -> int:
        return int(self.snapshot.class_value[self.class_of(j)])

    def kind(self, j: int) -> int:
        return int(self.snapshot.class_preemption[self.class_of(j)])

    def queue(self, j: int) -> int:
        return int(self.snapshot.job_queue[j])

    def role(self, j: int) -> int:
        return -1 if self.snapshot.job_role is None else int(self.snapshot.job_role[j])

    def roles(self, g: int) -> list[int]:
        """The roles of a gang that is a group."""
        gangs = self.snapshot.role_gang
        return [] if gangs is None else [k for k, of in enumerate(gangs.tolist()) if of == g]

    def is_surplus(self, j: int) -> bool:
        return int(self.snapshot.job_priority[j]) < -(1 << 31)

    def gang(self, j: int) -> int:
        return -1 if self.snapshot.job_gang is None else int(self.snapshot.job_gang[j])

    def stops_with_gang(self, j: int) -> bool:
        """Whether it is stopped together with the members of its gang: until one has ended."""
        started = self.snapshot.gang_started
        return self.gang(j) >= 0 and not (started is not None and started[self.gang(j)])

    def flagged(self, j: int, flag: SchedulingFlag) -> bool:
        flags = self.snapshot.job_flags
        return flags is not None and bool(flags[j] & flag)

    def lost(self, n: int) -> bool:
        return bool(self.snapshot.node_flags[n] & NodeFlag.LOST)

    def runs(self) -> list[int]:
        """Runs that count."""
        return [j for j, n in enumerate(self.node) if n >= 0 and not self.lost(n)]

    def queued(self) -> list[int]:
        return [j for j, n in enumerate(self.node) if n == -1]

    def allocatable(self, n: int) -> Amounts:
        return tuple(self.snapshot.node_allocatable[n].tolist())

    # Sums ---------------------------------------------------------------------------------

    def used(self, node: list[int]) -> dict[int, Amounts]:
        """What each node holds with the jobs on these nodes."""
        zero = (0,) * len(self.snapshot.resources)
        result: dict[int, Amounts] = defaultdict(lambda: zero)
        for j, n in enumerate(node):
            if n >= 0:
                result[n] = plus(result[n], self.request[j])
        return result

    def overfull(self, n: int) -> bool:
        used = self.used(self.node)[n]
        return any(u > a for u, a in zip(used, self.allocatable(n), strict=True))

    def capacity(self) -> Amounts:
        """R1: cordoned nodes only while they hold something."""
        held = set(self.node)
        total = (0,) * len(self.snapshot.resources)
        for n, flags in enumerate(self.snapshot.node_flags.tolist()):
            if flags & NodeFlag.LOST or (flags & NodeFlag.CORDONED and n not in held):
                continue
            total = plus(total, self.allocatable(n))
        return total + tuple(self.snapshot.floating_total.tolist())

    def cost(self, amounts: Amounts) -> float:
        names = self.snapshot.resources + self.snapshot.floating
        shares = [
            amount / total * self.settings.cost_multipliers.get(name, 1.0)
            for name, amount, total in zip(names, amounts, self.capacity(), strict=True)
            if total > 0
        ]
        return max([0.0, *shares])

    def held(self) -> list[Amounts]:
        """What each queue's runs hold."""
        zero = (0,) * (len(self.snapshot.resources) + len(self.snapshot.floating))
        result = [zero] * len(self.snapshot.queue_names)
        for j in self.runs():
            result[self.queue(j)] = plus(result[self.queue(j)], self.whole[j])
        return result

    def weights(self) -> list[float]:
        return [float(w) for w in self.snapshot.queue_weight.tolist()]

    def suits(self, j: int, w: int, n: int) -> bool:
        """Whether the node may get the job under its w-th entry (0 = home), room aside."""
        s = self.snapshot
        if s.node_flags[n] or self.overfull(n):
            return False
        if s.shape_match[s.job_shape[j], w, s.node_type[n]] != 0:
            return False
        pairs = [] if s.avoid_job is None or s.avoid_node is None else s.avoid_job.tolist()
        return all(a != j or int(s.avoid_node[i]) != n for i, a in enumerate(pairs))  # type: ignore[index]

    def entries(self, j: int) -> list[tuple[int, int]]:
        """Home and the away entries of a job: column and value."""
        away = self.snapshot.class_away_value
        result = [(0, self.class_value(j))]
        if away is not None and self.kind(j) != Preemption.NONE:
            for k, value in enumerate(away[self.class_of(j)].tolist()):
                if value != NO_AWAY and k + 1 < self.snapshot.shape_match.shape[1]:
                    result.append((k + 1, value))
        return result


def fill(weights: list[float], demand: list[float]) -> list[float]:
    """S3 by sorting: queues are satisfied in the order of demand / weight."""
    result = [0.0] * len(weights)
    left, open_weight = 1.0, sum(w for w, d in zip(weights, demand, strict=True) if d > 0)
    for q in sorted(range(len(weights)), key=lambda q: demand[q] / weights[q]):
        if demand[q] <= 0:
            continue
        result[q] = min(demand[q], left * weights[q] / open_weight)
        left -= result[q]
        open_weight -= weights[q]
    return result


# One round ------------------------------------------------------------------------------


def check(pool: Pool, plan: Plan) -> None:
    """Everything that must hold of any plan."""
    node, value = after(pool, plan)
    check_room(pool, plan, node)
    check_preempted(pool, plan, node, value)
    check_gangs(pool, plan, node)
    check_shares(pool, plan)
    waiting = [j for j in pool.queued() if node[j] == -1]
    ended = {*plan.rejected_job.tolist(), *plan.failed_job.tolist()}
    assert int(plan.queue_waiting.sum()) == len(set(waiting) - ended)
    explained = {*zip(plan.reasons.queue.tolist(), plan.reasons.shape.tolist(), strict=True)}
    gangs = set(plan.reasons.gang.tolist())
    for j in waiting:
        pair = (pool.queue(j), int(pool.snapshot.job_shape[j]))
        assert j in ended or pair in explained or pool.gang(j) in gangs, (
            f"{j} waits without a reason"
        )


def after(pool: Pool, plan: Plan) -> tuple[list[int], list[int]]:
    """Where every job is after the plan, and at which value."""
    node, value = list(pool.node), list(pool.value)
    for j in plan.preempted_job.tolist():
        assert node[j] >= 0, "only what runs is preempted"
        node[j] = -3
    for j, n, v in zip(
        plan.placed_job.tolist(),
        plan.placed_node.tolist(),
        plan.placed_value.tolist(),
        strict=True,
    ):
        assert node[j] == -1, "only what waits is placed, and once"
        node[j], value[j] = n, v
    return node, value


def check_room(pool: Pool, plan: Plan, node: list[int]) -> None:
    """No node is above its capacity, and nothing new is where nothing new may be."""
    used = pool.used(node)
    for n in set(plan.placed_node.tolist()):
        assert not pool.snapshot.node_flags[n], f"something was placed on {n}, which is barred"
        assert not pool.overfull(n), f"something was placed on {n}, which is overfull"
    for n, amounts in used.items():
        fits = all(u <= a for u, a in zip(amounts, pool.allocatable(n), strict=True))
        assert fits or pool.overfull(n), f"node {n} holds more than it has"
    for j, n in zip(plan.placed_job.tolist(), plan.placed_node.tolist(), strict=True):
        assert any(pool.suits(j, w, n) for w, _ in pool.entries(j)), f"{n} does not suit {j}"


def check_preempted(pool: Pool, plan: Plan, node: list[int], value: list[int]) -> None:
    """Who is preempted makes room for what was placed, which is no less urgent."""
    placed = set(plan.placed_job.tolist())
    used = pool.used(node)
    direct: dict[int, int] = defaultdict(int)
    for j, cause in zip(plan.preempted_job.tolist(), plan.preempted_cause.tolist(), strict=True):
        direct[pool.gang(j)] += cause != Cause.GANG
    for at, j in enumerate(plan.preempted_job.tolist()):
        cause, preemptor = Cause(int(plan.preempted_cause[at])), int(plan.preemptor_job[at])
        assert preemptor in placed, f"{j} was stopped for {preemptor}, which was not placed"
        assert pool.kind(j) != Preemption.NONE, f"{j} is not preemptible"
        assert not pool.lost(pool.node[j]), f"{j} is on a lost node"
        assert not pool.flagged(j, SchedulingFlag.STOPPING), f"{j} stops already"
        mate = cause == Cause.GANG  # members can be more urgent than the one that was preempted
        assert mate or value[preemptor] >= pool.value[j], f"{j} yielded to a lower class"
        if cause == Cause.FAIR_SHARE:
            assert pool.kind(j) == Preemption.ANY, f"{j} gives way to urgency only"
            assert pool.queue(j) != pool.queue(preemptor), f"{j} gave way to its own queue"
        if cause == Cause.SURPLUS:
            assert pool.kind(j) == Preemption.ANY, f"{j} gives way to urgency only"
            assert pool.queue(j) == pool.queue(preemptor), f"{j} is surplus of another queue"
            assert pool.is_surplus(j), f"{j} is needed by its group"
            assert not pool.is_surplus(preemptor), f"surplus member {preemptor} preempts"
        if cause == Cause.URGENCY:
            assert value[preemptor] > pool.value[j], f"{j} yielded to an equal class"
        if cause == Cause.GANG and direct[pool.gang(j)]:
            continue
        if cause == Cause.GANG:  # what its gang needs has returned (R7)
            returned = any(node[k] >= 0 and pool.gang(k) == pool.gang(j) for k in pool.runs())
            assert returned, f"{j} went with a gang that did not stop"
            assert lacks_room(pool, used, [j]), f"{j} could have returned with its gang"
            continue
        if pool.gang(j) < 0 or direct[pool.gang(j)] == 1:
            gone = plan.preempted_job.tolist()
            together = [k for k in gone if k == j or pool.gang(k) == pool.gang(j) >= 0]
            assert lacks_room(pool, used, together), f"{j} could have stayed"


def lacks_room(pool: Pool, used: dict[int, Amounts], together: list[int]) -> bool:
    """Whether these runs, back where they were, would be too much for any of their nodes."""
    back: dict[int, Amounts] = {}
    for k in together:
        n = pool.node[k]
        back[n] = plus(back.get(n, used[n]), pool.request[k])
    return any(
        u > a for n, held in back.items() for u, a in zip(held, pool.allocatable(n), strict=True)
    )


def check_gangs(pool: Pool, plan: Plan, node: list[int]) -> None:
    """A gang runs with `minSize` members or not at all until one has ended, within one value of its
    label."""
    s = pool.snapshot
    if s.job_gang is None or s.gang_min is None:
        return
    assert s.gang_started is not None
    assert s.gang_label is not None
    members: dict[int, list[int]] = defaultdict(list)
    for j in range(len(node)):
        if pool.gang(j) >= 0:
            members[pool.gang(j)].append(j)
    for g, mine in members.items():
        ran = [j for j in mine if pool.node[j] >= 0]
        runs = [j for j in mine if node[j] >= 0]
        need = int(s.gang_min[g])
        if pool.roles(g):  # see plain_groups.py
            continue
        if ran and not s.gang_started[g]:
            stopped = [j for j in ran if node[j] < 0]
            enough = min(need, len(ran))
            assert not stopped or not runs or len(runs) >= enough, f"gang {g} lost too many"
        elif runs and not s.gang_started[g]:
            assert len(runs) >= need, f"gang {g} started with too few"
        bound = ran or not s.gang_started[g]
        if s.gang_label[g] >= 0 and s.node_label is not None and bound:
            values = {int(s.node_label[s.gang_label[g], node[j]]) for j in runs}
            before = {int(s.node_label[s.gang_label[g], pool.node[j]]) for j in ran}
            new = [j for j in runs if j not in ran]
            assert not new or (len(values) == 1 and -1 not in values) or len(before) > 1


def check_shares(pool: Pool, plan: Plan) -> None:
    """Rules S, from the demand that the engine reports."""
    held = pool.held()
    weights, demand = pool.weights(), plan.shares.demand.tolist()
    assert tuple(plan.capacity.tolist()) == pool.capacity()
    for q, amounts in enumerate(held):
        assert abs(plan.shares.actual[q] - pool.cost(amounts)) < 1e-9
    want = fill(weights, demand)
    assert np.allclose(plan.shares.fair, want, atol=2e-6)
    assert (plan.shares.fair <= plan.shares.demand + 1e-9).all()
    for q, uncapped in enumerate(plan.shares.uncapped.tolist()):
        if plan.shares.weight[q] > 0:
            thirsty = [1e9 if k == q else d for k, d in enumerate(demand)]
            assert abs(uncapped - fill(weights, thirsty)[q]) < 2e-6
