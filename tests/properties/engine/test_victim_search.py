"""N4: the node that the engine chooses is the one that examining them one by one chooses
(hypothesis)."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead_scheduler.engine import Snapshot, schedule
from fairlead_scheduler.engine.snapshot import Tier
from tests.properties.engine.worlds import BOUNDED
from tests.unit.engine.pools import BALANCE, pool

COMPARED_MAX = 8
"""Rule N4."""
CORES = 4
STEPS = 1000
"""Lost work is counted in steps: 1,000 per millisecond of the whole pool."""
JOB = "u"


class Run(NamedTuple):
    """A run in the order in which N2b takes it: sorting runs gives that order."""

    lost_work: int
    worked_ms: int
    minus_submission: int
    row: int
    node: int
    cpu: int


@st.composite
def full_pools(draw: st.DrawFn) -> tuple[Snapshot, list[str]]:
    """A pool of nodes that are full of runs of queue A, and a more urgent job that needs some of
    that: no run returns before it is offered. Of queue B it is placed on tier (b) where R13 permits
    it, of A on (c)."""
    count = draw(st.integers(1, 24))
    nodes = [{"name": "n", "count": count, "resources": {"cpu": CORES, "memory": "64Gi"}}]
    sizes = st.sampled_from([[4], [2, 2], [1, 3], [1, 1, 2], [1, 1, 1, 1]])
    groups: list[dict[str, Any]] = []
    for n in range(count):
        for i, cpu in enumerate(draw(sizes)):
            running = {"onNode": f"n{n}", "since": draw(st.integers(0, 5))}
            groups.append({"id": f"r{n}x{i}x", "queue": "A", "cpu": cpu, "running": running})
    job = {
        "id": JOB,
        "queue": draw(st.sampled_from("AB")),
        "cpu": draw(st.integers(1, CORES)),
        "priorityClass": "p1",
    }
    return pool(*groups, job, nodes=nodes)


def victims_on(runs: list[Run], needed: int) -> list[Run]:
    """N2b on a full node: take runs until the job fits, then restore those that it fits without."""
    taken: list[Run] = []
    for run in sorted(runs):
        if sum(other.cpu for other in taken) < needed:
            taken.append(run)
    for run in list(taken):
        if sum(other.cpu for other in taken) - run.cpu >= needed:
            taken.remove(run)
    return taken


def choose(nodes: dict[int, list[Run]], needed: int) -> tuple[int, list[int]]:
    """N4: of the first nodes in the order of their cheapest run the one with the cheapest
    victims."""
    in_order = sorted(nodes, key=lambda n: min(nodes[n]))[:COMPARED_MAX]
    chosen = {n: victims_on(nodes[n], needed) for n in in_order}
    best = min(
        in_order,
        key=lambda n: (
            sum(run.lost_work for run in chosen[n]),
            len(chosen[n]),
            chosen[n][0][1:3],
            n,
        ),
    )
    return best, sorted(run.row for run in chosen[best])


@BOUNDED
@given(full_pools())
def test_the_node_is_the_one_that_examining_them_one_by_one_chooses(
    made: tuple[Snapshot, list[str]],
) -> None:
    snapshot, names = made
    nodes: dict[int, list[Run]] = {}
    for row, node in enumerate(snapshot.job_node.tolist()):
        if node < 0:
            continue
        cpu = int(snapshot.shape_request[snapshot.job_shape[row], 0]) // 1000
        worked_ms = snapshot.now_ms - int(snapshot.job_started_ms[row])
        work = round(cpu / (CORES * snapshot.node_number.size) * worked_ms * STEPS)
        run = Run(work, worked_ms, -int(snapshot.job_submission[row]), row, node, cpu)
        nodes.setdefault(node, []).append(run)
    job = names.index(f"{JOB}0")
    needed = int(snapshot.shape_request[snapshot.job_shape[job], 0]) // 1000
    plan = schedule(snapshot, BALANCE)
    own = snapshot.queue_names[snapshot.job_queue[job]] == "A"
    assume(own or plan.placed_tier.tolist() == [Tier.FAIR_SHARE])  # otherwise runs of A return (R5)
    node, victims = choose(nodes, needed)
    assert plan.placed_node.tolist() == [node]
    assert plan.preempted_job.tolist() == victims
