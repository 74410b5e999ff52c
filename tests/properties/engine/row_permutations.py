"""The same pool with its rows in another order: the plan must not depend on that (R12)."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from fairlead_scheduler.engine import Snapshot


def permute_rows(snapshot: Snapshot, seed: int) -> tuple[Snapshot, list[int], list[int]]:
    """The same pool with jobs, nodes and roles in other rows; old row by new row, for jobs and
    nodes."""
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
    if snapshot.role_gang is not None and snapshot.job_role is not None:
        roles = chance.permutation(snapshot.role_gang.size)
        new_role = np.argsort(roles).astype(np.int32)
        for name in ("role_gang", "role_place", "role_min", "role_max"):
            changed[name] = np.asarray(getattr(snapshot, name))[roles]
        changed["role_names"] = tuple(snapshot.role_names[row] for row in roles)
        role = np.asarray(changed["job_role"])
        changed["job_role"] = np.where(role >= 0, new_role[np.maximum(role, 0)], role)
    changed |= {"job_totals": None, "queued_order": None, "running_order": None}
    return replace(snapshot, **changed), jobs.tolist(), nodes.tolist()  # type: ignore[arg-type]
