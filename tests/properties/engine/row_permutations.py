"""The same pool with its rows in another order: the plan must not depend on that (R12)."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from fairlead_scheduler.engine import Snapshot


def permute_rows(snapshot: Snapshot, seed: int) -> tuple[Snapshot, list[int], list[int]]:
    """The same pool with jobs and nodes in other rows; old row by new row, for both."""
    chance = np.random.default_rng(seed)
    jobs = chance.permutation(snapshot.job_queue.size)
    nodes = chance.permutation(snapshot.node_number.size)
    new_node = np.argsort(nodes).astype(np.int32)
    new_job = np.argsort(jobs).astype(np.int32)
    changed: dict[str, object] = {}
    for item in fields(Snapshot):
        column = getattr(snapshot, item.name)
        if isinstance(column, np.ndarray):
            if item.name.startswith("job_"):
                changed[item.name] = column[jobs]
            elif item.name == "node_label":
                changed[item.name] = column[:, nodes]
            elif item.name.startswith("node_"):
                changed[item.name] = column[nodes]
    on = np.asarray(changed["job_node"])
    changed["job_node"] = np.where(on >= 0, new_node[np.maximum(on, 0)] if nodes.size else on, on)
    if snapshot.avoid_job is not None and snapshot.avoid_node is not None:
        changed["avoid_job"] = new_job[snapshot.avoid_job]
        changed["avoid_node"] = new_node[snapshot.avoid_node]
    changed |= {"job_totals": None, "queued_order": None, "running_order": None}
    return replace(snapshot, **changed), jobs.tolist(), nodes.tolist()  # type: ignore[arg-type]
