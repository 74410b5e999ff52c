"""No queue stays below its fair share behind its own large offers (R4, hypothesis)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead_scheduler.cases.case_file import CaseRound
from fairlead_scheduler.engine import EngineSettings, Plan, schedule
from fairlead_scheduler.engine.snapshot import Preemption
from tests.properties.engine import plain
from tests.properties.engine.plain import MARGIN, Pool, plus
from tests.properties.engine.worlds import BOUNDED
from tests.unit.engine import pools

CORES = 8
ROUNDS = 12
"""Rounds after which a pool is at rest."""


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[dict[str, Any]], int]:
    """Runs of one core fill nodes; queues with a little of it, or nothing, have large offers and
    offers of one core waiting, in any order."""
    count = draw(st.integers(1, 4))
    made: list[dict[str, Any]] = []
    for node in range(count):
        left = CORES - draw(st.sampled_from([0, 0, 0, 2]))
        while left:
            size = draw(st.integers(1, left))
            left -= size
            made.append(
                {
                    "id": f"r{len(made)}x",
                    "queue": draw(st.sampled_from("AAABC")),
                    "count": size,
                    "cpu": 1,
                    "priorityClass": draw(st.sampled_from(["p0", "p0", "p0", "p2np"])),
                    "running": {"onNode": f"n{node}", "since": draw(st.integers(-9, 0))},
                }
            )
    for number in range(draw(st.integers(2, 7))):
        waiting: dict[str, Any] = {
            "id": f"q{number}x",
            "queue": draw(st.sampled_from("ABCD")),
            "priorityClass": draw(st.sampled_from(["p0", "p0", "p0", "p1"])),
            "priority": draw(st.integers(0, 1)),
        }
        match draw(st.integers(0, 4)):
            case 0:
                waiting |= {"count": draw(st.integers(1, 2)), "cpu": draw(st.integers(2, CORES))}
            case 1:
                size = draw(st.integers(2, CORES * count))
                waiting |= {"count": size, "cpu": draw(st.integers(1, 2))}
                waiting["gang"] = {"minSize": draw(st.integers(1, size))}
            case _:
                waiting |= {"count": draw(st.integers(1, 20)), "cpu": 1}
        made.append(waiting)
    return made, count


@BOUNDED
@given(worlds(), st.sampled_from([0.0, 1.0]), st.sampled_from([1, 0.5, 3]))
def test_no_queue_with_an_offer_within_budget_stays_below_its_fair_share(
    drawn: tuple[list[dict[str, Any]], int], protected: float, weight: float
) -> None:
    groups, count = drawn
    nodes = [{"name": "n", "count": count, "resources": {"cpu": CORES, "memory": "64Gi"}}]
    options = {"requeuePreempted": True}
    world = pools.world(*groups, nodes=nodes, queues={"C": {"weight": weight}}, settings=options)
    settings = EngineSettings(protected_fraction=protected)
    for _ in range(ROUNDS):
        built = world.build()
        plan = schedule(built.snapshot, settings)
        pool = Pool(built.snapshot, settings)
        plain.check(pool, plan)
        world.settle(built, plan)
        if not plan.placed_job.size and not plan.preempted_job.size:
            check_shares_reached(pool, plan)
            check_shares_reached_by_gangs(pool, plan)
            return
        world.begin(CaseRound(), 0)
    raise AssertionError(f"something still changes after {ROUNDS} quiet rounds")


def check_shares_reached(pool: Pool, plan: Plan) -> None:
    """No single job of one core waits within its queue's fair share while a queue above its own
    holds a run that it could preempt."""
    held, fair, weights = pool.held(), plan.shares.fair.tolist(), pool.weights()
    entitled = [max(f, w) for f, w in zip(fair, plan.shares.weight.tolist(), strict=True)]
    ended = {*plan.rejected_job.tolist(), *plan.failed_job.tolist()}
    for j in pool.queued():
        q = pool.queue(j)
        share = pool.cost(plus(held[q], pool.whole[j]))
        if pool.gang(j) >= 0 or j in ended or share > fair[q] - MARGIN:
            continue
        if pool.request[j][pool.snapshot.resources.index("cpu")] != 1000:
            continue
        for k in pool.runs():
            other = pool.queue(k)
            above = pool.cost(held[other])
            if other == q or pool.kind(k) != Preemption.ANY or above < entitled[other] + MARGIN:
                continue
            permitted = pool.value[k] <= pool.value[j] and pool.gang(k) < 0
            gain = share / weights[q] < above / weights[other] - MARGIN
            assert not permitted or not gain, f"{j} waits although {other} is above its share"


def check_shares_reached_by_gangs(pool: Pool, plan: Plan) -> None:
    """No gang of one-core members waits within its queue's fair share while what is free, and runs
    that it could preempt of one queue above its own share, would hold its `minSize` members."""
    held, fair, weights = pool.held(), plan.shares.fair.tolist(), pool.weights()
    entitled = [max(f, w) for f, w in zip(fair, plan.shares.weight.tolist(), strict=True)]
    ended = {*plan.rejected_job.tolist(), *plan.failed_job.tolist()}
    cpu = pool.snapshot.resources.index("cpu")
    used = pool.used(pool.node)
    nodes = range(pool.snapshot.node_number.size)
    free = sum((pool.allocatable(n)[cpu] - used[n][cpu]) // 1000 for n in nodes)
    running = {pool.gang(k) for k in pool.runs()}
    members: dict[int, list[int]] = {}
    for j in pool.queued():
        if pool.gang(j) >= 0 and pool.gang(j) not in running and j not in ended:
            members.setdefault(pool.gang(j), []).append(j)
    for gang, queued in members.items():
        assert pool.snapshot.gang_min is not None
        first, need = queued[0], int(pool.snapshot.gang_min[gang])
        q, whole = pool.queue(first), pool.whole[first]
        if len(queued) < need or pool.request[first][cpu] != 1000:
            continue
        offer = tuple(need * amount for amount in whole)
        share = pool.cost(plus(held[q], offer))
        if share > fair[q] - MARGIN:
            continue
        for other in set(range(len(weights))) - {q}:
            left, victims = held[other], 0
            for k in pool.runs():
                permitted = pool.value[k] <= pool.value[first] and pool.gang(k) < 0
                if pool.queue(k) != other or pool.kind(k) != Preemption.ANY or not permitted:
                    continue
                above = pool.cost(left)
                if above < entitled[other] + MARGIN:
                    break
                if share / weights[q] >= above / weights[other] - MARGIN:
                    break
                left, victims = plus(left, pool.whole[k], -1), victims + 1
            assert not victims or free + victims < need, (
                f"gang {gang} waits although {other} is above its share"
            )
