"""Pools that make a round of the scheduling engine as long as they can: input for engine.py.

Each case exists in pools of 1,000, 10,000 and 31,250 nodes of 32 cores; its name ends in the
number of nodes. `NODES` of other sizes are used by tests/properties/engine/test_bounded_work.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from fairlead_scheduler.engine import EngineSettings, Snapshot
from fairlead_scheduler.engine.topology import Topology, TopologyMode

GI: Final = 1 << 30
CORES: Final = 32
SIZES: Final = (1_000, 10_000, 31_250)
SETTINGS: Final = EngineSettings(protected_fraction=0.0)

Make = Callable[[int], dict[str, Any]]
"""The columns of a snapshot with this number of nodes that `bench/engine.py` does not fill in."""


def _jobs(queue: Any, shape: Any, node: Any) -> dict[str, Any]:
    return {
        "job_queue": np.asarray(queue, np.int32),
        "job_shape": np.asarray(shape, np.int32),
        "job_node": np.asarray(node, np.int32),
    }


def _nodes(nodes: int) -> Any:
    return np.tile([CORES * 1_000, 256 * GI], (nodes, 1))


def _cores(*cores: float) -> Any:
    return np.array([[round(1_000 * each), GI] for each in cores], np.int64)


def _classes(shape_class: Any) -> dict[str, Any]:
    """Two classes: the greater value is more urgent, and both are preemptible."""
    return {
        "class_names": ("p0", "p1"),
        "class_value": np.array([0, 1], np.int64),
        "class_preemption": np.zeros(2, np.uint8),
        "shape_class": np.asarray(shape_class, np.int32),
    }


def _gangs(sizes: Any, label: int) -> dict[str, Any]:
    count = len(sizes)
    return {
        "gang_min": np.asarray(sizes, np.int32),
        "gang_label": np.full(count, label, np.int32),
        "gang_rest": np.zeros(count, np.uint8),
        "gang_started": np.zeros(count, np.bool_),
        "gang_submitted_ms": np.zeros(count, np.int64),
    }


def _label(nodes: int, values: int) -> dict[str, Any]:
    return {
        "label_names": ("rack",),
        "node_label": (np.arange(nodes, dtype=np.int32) % values)[None, :],
    }


def _topology(made: dict[str, Any]) -> dict[str, Any]:
    """The same with a topology of racks and nodes; each gang requires a rack."""
    rack = made["node_label"][0]
    nodes, gangs = rack.size, made["gang_min"].size
    counts = (int(rack.max()) + 1, nodes)
    topology = Topology(
        names=("rack", "hostname"),
        label=np.arange(2, dtype=np.int32),
        domains=tuple(tuple(f"d{i:05d}" for i in range(count)) for count in counts),
        hops=(2, 0, 4),
        gang_mode=np.full(gangs, TopologyMode.REQUIRED, np.uint8),
        gang_level=np.zeros(gangs, np.int32),
        gang_whole=np.ones(gangs, np.uint8),
    )
    return {
        **made,
        "label_names": topology.names,
        "node_label": np.stack([rack, np.arange(nodes, dtype=np.int32)]),
        "gang_label": np.full(gangs, -1, np.int32),
        "topology": topology,
    }


def urgent_gangs_with_rack(nodes: int) -> dict[str, Any]:
    """20 urgent gangs of 32 that ask for one rack of 32 nodes; each node runs a gang of 32."""
    running, urgent = nodes * CORES, 20 * 32
    return {
        "queues": 2,
        "nodes": _nodes(nodes),
        "requests": _cores(1, 1),
        **_jobs(
            np.repeat([0, 1], [running, urgent]),
            np.repeat([0, 1], [running, urgent]),
            np.concatenate([np.arange(running) % nodes, np.full(urgent, -1)]),
        ),
        "job_started_ms": np.arange(running + urgent, dtype=np.int64) * 7919 % 900_000,
        "job_gang": np.arange(running + urgent, dtype=np.int32) // 32,
        **_gangs(np.full(nodes + 20, 32), 0),
        **_label(nodes, max(1, nodes // 32)),
        **_classes([0, 1]),
    }


def gangs_of_a_rack(nodes: int) -> dict[str, Any]:
    """Gangs of 1,000, one per label value; most values have 992 cores."""
    values = max(1, nodes * 1_000 // 31_250)
    jobs = values * 1_000
    return {
        "queues": 10,
        "nodes": _nodes(nodes),
        "requests": _cores(1),
        **_jobs(np.arange(jobs) // 1_000 % 10, np.zeros(jobs), np.full(jobs, -1)),
        "job_gang": np.arange(jobs, dtype=np.int32) // 1_000,
        **_gangs(np.full(values, 1_000), 0),
        **_label(nodes, values),
    }


def urgent_gangs(nodes: int) -> dict[str, Any]:
    """1,000 urgent gangs of 32 for a pool that is full of one-core jobs."""
    running, urgent = nodes * CORES, 32_000
    return {
        "queues": 2,
        "nodes": _nodes(nodes),
        "requests": _cores(1, 2),
        **_jobs(
            np.repeat([0, 1], [running, urgent]),
            np.repeat([0, 1], [running, urgent]),
            np.concatenate([np.arange(running) % nodes, np.full(urgent, -1)]),
        ),
        "job_started_ms": np.arange(running + urgent, dtype=np.int64) * 7919 % 900_000,
        "job_gang": np.concatenate(
            [np.full(running, -1), np.arange(urgent) // 32], dtype=np.int32, casting="unsafe"
        ),
        **_gangs(np.full(1_000, 32), -1),
        **_classes([0, 1]),
    }


def urgent_shapes(nodes: int, shapes: int = 100) -> dict[str, Any]:
    """2,000 urgent jobs of 100 shapes for a pool that is full of one-core jobs."""
    running, urgent = nodes * CORES, 2_000
    return {
        "queues": 2,
        "nodes": _nodes(nodes),
        "requests": _cores(1, *(1 + i / 100 for i in range(1, shapes + 1))),
        **_jobs(
            np.repeat([0, 1], [running, urgent]),
            np.concatenate([np.zeros(running), 1 + np.arange(urgent) % shapes]),
            np.concatenate([np.arange(running) % nodes, np.full(urgent, -1)]),
        ),
        "job_started_ms": np.arange(running + urgent, dtype=np.int64) * 7919 % 900_000,
        **_classes(np.concatenate([[0], np.ones(shapes)])),
    }


def balance_of_two(nodes: int) -> dict[str, Any]:
    """2,000 two-core jobs for balance, with two one-core victims each, of ten queues."""
    running, waiting = nodes * CORES, 2_000
    return {
        "queues": 11,
        "nodes": _nodes(nodes),
        "requests": _cores(1, 2),
        **_jobs(
            np.concatenate([np.arange(running) // nodes % 10, np.full(waiting, 10)]),
            np.repeat([0, 1], [running, waiting]),
            np.concatenate([np.arange(running) % nodes, np.full(waiting, -1)]),
        ),
        "job_started_ms": np.arange(running + waiting, dtype=np.int64) * 7919 % 900_000,
    }


def waiting_shapes(nodes: int) -> dict[str, Any]:
    """10,000 different jobs of the lower class wait for a pool that the higher class fills."""
    shapes, running = 10_000, nodes * CORES
    waiting = np.stack([1_000 + np.arange(shapes), GI + 1024 * np.arange(shapes)], axis=1)
    return {
        "queues": 10,
        "nodes": _nodes(nodes),
        "requests": np.concatenate([_cores(1), waiting]),
        **_jobs(
            np.concatenate([np.arange(running) // nodes % 10, np.arange(shapes) % 10]),
            np.concatenate([np.zeros(running), 1 + np.arange(shapes)]),
            np.concatenate([np.arange(running) % nodes, np.full(shapes, -1)]),
        ),
        **_classes(np.concatenate([[1], np.zeros(shapes)])),
    }


def unlike_members(nodes: int) -> dict[str, Any]:
    """100,000 gangs of two members of different shapes."""
    jobs = 200_000
    return {
        "queues": 10,
        "nodes": _nodes(nodes),
        "requests": _cores(*(1 + i / 100 for i in range(100))),
        **_jobs(
            np.arange(jobs) // 2 % 10,
            (np.arange(jobs) // 2 % 50) + 50 * (np.arange(jobs) % 2),
            np.full(jobs, -1),
        ),
        "job_gang": np.arange(jobs, dtype=np.int32) // 2,
        **_gangs(np.full(jobs // 2, 2), -1),
    }


def pairs_with_label(nodes: int) -> dict[str, Any]:
    """100,000 gangs of two that ask for one value of a label with 1,000 values."""
    jobs = 200_000
    return {
        "queues": 10,
        "nodes": _nodes(nodes),
        "requests": _cores(1),
        **_jobs(np.arange(jobs) // 2 % 10, np.zeros(jobs), np.full(jobs, -1)),
        "job_gang": np.arange(jobs, dtype=np.int32) // 2,
        **_gangs(np.full(jobs // 2, 2), 0),
        **_label(nodes, min(nodes, 1_000)),
    }


def avoided_nodes(nodes: int) -> dict[str, Any]:
    """10,000 jobs that each avoid a node."""
    jobs = 10_000
    return {
        "queues": 10,
        "nodes": _nodes(nodes),
        "requests": _cores(1),
        **_jobs(np.arange(jobs) % 10, np.zeros(jobs), np.full(jobs, -1)),
        "avoid_job": np.arange(jobs, dtype=np.int32),
        "avoid_node": (np.arange(jobs, dtype=np.int32) * 7919) % nodes,
    }


def node_names(nodes: int) -> dict[str, Any]:
    """10,000 jobs that each name one node: as many shapes, and a node type per node."""
    jobs = 10_000
    match = np.full((jobs, 1, nodes), 2, np.uint8)
    match[np.arange(jobs), 0, np.arange(jobs) % nodes] = 0
    return {
        "queues": 10,
        "nodes": _nodes(nodes),
        "requests": np.repeat(_cores(1), jobs, axis=0),
        **_jobs(np.arange(jobs) % 10, np.arange(jobs), np.full(jobs, -1)),
        "shape_match": match,
        "node_type": np.arange(nodes, dtype=np.int32),
    }


MAKERS: Final[dict[str, Make]] = {
    "urgent-gangs-with-rack": urgent_gangs_with_rack,
    "gangs-of-a-rack": gangs_of_a_rack,
    "urgent-gangs-of-a-domain": lambda nodes: _topology(urgent_gangs_with_rack(nodes)),
    "gangs-of-a-domain": lambda nodes: _topology(gangs_of_a_rack(nodes)),
    "urgent-gangs": urgent_gangs,
    "urgent-shapes": urgent_shapes,
    "balance-of-two": balance_of_two,
    "waiting-shapes": waiting_shapes,
    "unlike-members": unlike_members,
    "pairs-with-label": pairs_with_label,
    "avoided-nodes": avoided_nodes,
    "node-names": node_names,
}


def cases(snapshot: Callable[..., Snapshot]) -> dict[str, Callable[[], Snapshot]]:
    """All cases by name. `snapshot` makes a snapshot of the columns that are given."""
    return {
        f"adversarial-{name}-{nodes}": partial(_make, snapshot, make, nodes)
        for name, make in MAKERS.items()
        for nodes in SIZES
    }


def _make(snapshot: Callable[..., Snapshot], make: Make, nodes: int) -> Snapshot:
    return snapshot(**make(nodes))
