"""N4: the victim index finds the node that examining every node finds (hypothesis).

The plain definition is the search for a job that avoids a node: it examines every eligible node.
Both are the same search where the runs are of one queue and the preemptors of one shape; decision
0012 names what the index leaves open otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead_scheduler.engine import Plan, Snapshot, schedule
from fairlead_scheduler.engine.scheduling.victim_search import SCANNED_NODES_MAX
from tests.properties.engine.worlds import BOUNDED
from tests.unit.engine.pools import BALANCE, pool

URGENT = "u"


@st.composite
def full_pools(draw: st.DrawFn) -> tuple[Snapshot, list[str]]:
    """A pool that is large enough for the index, full of runs of queue A, and urgent jobs. The last
    node is too small for any of these."""
    count = draw(st.integers(SCANNED_NODES_MAX + 1, SCANNED_NODES_MAX + 16))
    nodes = [
        {"name": "n", "count": count, "resources": {"cpu": 4, "memory": "64Gi"}},
        {"name": "x", "count": 1, "resources": {"cpu": 1, "memory": "1Gi"}},
    ]
    sizes = st.sampled_from([[4], [2, 2], [1, 3], [1, 1, 2], [1, 1, 1, 1]])
    groups: list[dict[str, Any]] = []
    for n in range(count):
        for i, cpu in enumerate(draw(sizes)):
            since = draw(st.integers(0, 3))
            running = {"onNode": f"n{n}", "since": since}
            groups.append({"id": f"r{n}x{i}x", "queue": "A", "cpu": cpu, "running": running})
    urgent = {
        "id": URGENT,
        "queue": draw(st.sampled_from("AB")),
        "count": draw(st.integers(1, 12)),
        "cpu": draw(st.integers(2, 4)),
        "priorityClass": draw(st.sampled_from(["p0", "p1"])),
    }
    return pool(*groups, urgent, nodes=nodes)


def decisions(plan: Plan) -> tuple[object, ...]:
    """What the plan places and preempts, in order."""
    return (
        plan.placed_job.tolist(),
        plan.placed_node.tolist(),
        plan.preempted_job.tolist(),
        plan.preempted_for.tolist(),
        plan.preempted_cause.tolist(),
    )


@BOUNDED
@given(full_pools())
def test_the_index_finds_the_node_that_examining_every_node_finds(
    made: tuple[Snapshot, list[str]],
) -> None:
    snapshot, names = made
    urgent = [row for row, name in enumerate(names) if name.startswith(URGENT)]
    small = int(np.argmin(snapshot.node_allocatable[:, 0]))
    examined = replace(
        snapshot,
        avoid_job=np.array(urgent, np.int32),
        avoid_node=np.full(len(urgent), small, np.int32),
    )
    assert decisions(schedule(snapshot, BALANCE)) == decisions(schedule(examined, BALANCE))
