"""What a snapshot must say, job by job from the view: the definition that the builder is held to.

`told` says the same of a snapshot that was built, by names instead of rows, so that the two can be
compared whatever rows jobs, queues, shapes and gangs happen to have.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import RunState
from fairlead_common.domain.records.clusters import Node
from fairlead_scheduler.engine import Plan
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.engine.plan import reason_texts
from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.engine.preparation.pool import job_totals
from fairlead_scheduler.snapshots import BuiltSnapshot
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.groups import GroupState
from fairlead_scheduler.state.jobs.job_table import NodeName
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View

Said = dict[Any, Any]


def names(view: View) -> Said:
    """Job id -> pool, queue, job set, shape and node, by name."""
    columns = view.jobs
    return {
        job_id: (
            columns.pools.values[columns.pool[row]],
            columns.queues.values[columns.queue[row]],
            columns.job_sets.values[columns.job_set[row]],
            columns.shapes.values[columns.shape[row]],
            columns.shape_of(int(columns.shape[row])),
            columns.nodes.values[columns.node[row]] if columns.node[row] >= 0 else None,
        )
        for job_id, row in columns.rows.items()
    }


def jobs(view: View, clusters: Clusters, pool: str, now_ms: int, excluded: Collection[int]) -> Said:
    """Job id -> what the engine must be told of it, of those that take part in the pool's round."""
    columns = view.jobs
    found: Said = {}
    for job_id, row in columns.rows.items():
        flags = int(columns.flags[row])
        run_state = int(columns.run_state[row])
        if columns.pools.values[columns.pool[row]] != pool:
            continue
        runs = job_table.LIVE_RUN[run_state] and not flags & job_table.CAPACITY_REASSIGNED
        node = columns.nodes.values[columns.node[row]] if runs else None
        if node is not None and (node not in clusters.nodes or clusters.nodes[node].pool != pool):
            node = None
        waits = columns.state[row] == job_table.QUEUED and not flags & job_table.NOT_READY
        waits = waits and columns.start_after_ms[row] <= now_ms and row not in excluded
        if node is None and not waits:
            continue
        rare = columns.rare_properties.get(row, job_table.RareProperties())
        shape = columns.shapes.values[columns.shape[row]]
        stopping = bool(flags & job_table.STOPPING) or job_table.ENDED[columns.state[row]]
        found[job_id] = {
            "queue": columns.queues.values[columns.queue[row]],
            "shape": shape,
            "node": node,
            "priority": int(columns.priority[row]),
            "submission": int(columns.number[row]),
            "started": int(columns.leased_ms[row]),
            "value": 0 if node is None else int(columns.value[row]),
            "interval": int(columns.checkpoint_ms[row]),
            "stopping": stopping,
            "kept": bool(flags & job_table.WAITS_IF_INFEASIBLE),
            "gang": rare.gang if rare.gang in view.gangs else None,
            "role": rare.member.role if rare.member and rare.gang in view.gangs else None,
            "avoids": _avoided(clusters, pool, rare.avoid),
        }
    return found


def _avoided(clusters: Clusters, pool: str, names: Collection[str]) -> set[str]:
    there = {f"{n.executor}/{n.name}" for n in clusters.nodes.values() if n.pool == pool}
    return set(names) & there


def gangs(view: View, found: Said, now_ms: int, freeze_s_max: int) -> Said:
    """Gang -> what the engine must be told of it."""
    groups = {state.gang_name: state for state in view.groups.values()}
    names = {job["gang"] for job in found.values()} - {None}
    return {
        name: {
            "terms": _terms(view.gangs[name]),
            "started": name in view.gang_started,
            "submitted": job_table.NEVER_MS
            if len(view.gang_members.get(name, ())) >= view.gangs[name].min_size or name in groups
            else min(
                int(view.jobs.submitted_ms[view.jobs.rows[job_id]])
                for job_id, job in found.items()
                if job["gang"] == name
            ),
            "step": groups[name].terms.step_max if name in groups else 0,
            "frozen": name in groups and _is_frozen(groups[name], now_ms, freeze_s_max),
        }
        for name in names
    }


def _terms(terms: job_table.GangTerms) -> tuple[object, ...]:
    """What the engine is told of the terms of a gang."""
    return terms.min_size, terms.uniformity_label, terms.rest, terms.roles


def _is_frozen(group: GroupState, now_ms: int, freeze_s_max: int) -> bool:
    """G7: a surplus member was started or stopped by the scheduler within the freeze."""
    if group.scaled_ms is None:
        return False
    return now_ms < group.scaled_ms + 1000 * min(group.terms.freeze_s, freeze_s_max)


def nodes(
    view: View, clusters: Clusters, pool: str, stale: Collection[str], leases_max: int
) -> Said:
    """Node -> its number, amounts and why it gets nothing new."""
    leased: dict[str, int] = {}
    for _, row in view.jobs.rows.items():
        if view.jobs.run_state[row] == job_table.RUN_CODE[RunState.LEASED]:
            executor = view.jobs.nodes.values[view.jobs.node[row]].executor
            leased[executor] = leased.get(executor, 0) + 1
    return {
        name: (
            clusters.numbers[name],
            {resource: amount for resource, amount in node.allocatable.items() if amount},
            (engine.NodeFlag.LOST if name.executor in stale else 0)
            | (engine.NodeFlag.CORDONED if _is_cordoned(clusters, node) else 0)
            | (engine.NodeFlag.AVOIDED if node.avoided is not None else 0)
            | (engine.NodeFlag.LAGGING if leased.get(name.executor, 0) > leases_max else 0),
        )
        for name, node in clusters.nodes.items()
        if node.pool == pool
    }


def _is_cordoned(clusters: Clusters, node: Node) -> bool:
    """R1: unschedulable, or marked by an operator, itself or its executor."""
    return (
        node.unschedulable
        or node.executor in clusters.cordoned_executors
        or NodeName(node.executor, node.name) in clusters.cordoned_nodes
    )


def told_of_jobs(view: View, built: BuiltSnapshot) -> Said:
    """As `jobs`, of a snapshot."""
    s = built.snapshot
    assert s.job_value is not None
    assert s.job_flags is not None
    assert s.job_checkpoint_interval_ms is not None
    avoids: dict[int, set[str]] = {}
    if s.avoid_job is not None and s.avoid_node is not None:
        for job, node in zip(s.avoid_job.tolist(), s.avoid_node.tolist(), strict=True):
            name = built.nodes[node]
            avoids.setdefault(job, set()).add(f"{name.executor}/{name.node}")
    found: Said = {}
    for at in np.flatnonzero(s.job_node >= -1).tolist():
        node, gang = int(s.job_node[at]), -1 if s.job_gang is None else int(s.job_gang[at])
        found[view.jobs.rows.id_at(at)] = {
            "queue": s.queue_names[s.job_queue[at]],
            "shape": view.jobs.shapes.values[built.shapes[s.job_shape[at]]],
            "node": built.nodes[node] if node >= 0 else None,
            "priority": int(s.job_priority[at]),
            "submission": int(s.job_submission[at]),
            "started": int(s.job_started_ms[at]),
            "value": int(s.job_value[at]),
            "interval": int(s.job_checkpoint_interval_ms[at]),
            "stopping": bool(s.job_flags[at] & engine.SchedulingFlag.STOPPING),
            "kept": bool(s.job_flags[at] & engine.SchedulingFlag.WAITS_IF_INFEASIBLE),
            "gang": built.gangs[gang] if gang >= 0 else None,
            "role": _role_name(s, at),
            "avoids": avoids.get(at, set()),
        }
    return found


def _role_name(s: engine.Snapshot, at: int) -> str | None:
    if s.job_role is None or s.job_role[at] < 0:
        return None
    name: str = s.role_names[s.job_role[at]]
    return name


def told_of_gangs(built: BuiltSnapshot) -> Said:
    """As `gangs`, of a snapshot; rows without members are passed over."""
    s = built.snapshot
    if s.job_gang is None:
        return {}
    assert s.gang_min is not None
    assert s.gang_rest is not None
    assert s.gang_label is not None
    assert s.gang_started is not None
    assert s.gang_submitted_ms is not None
    rests = {engine.Rest.WAIT: "wait", engine.Rest.FAIL: "fail"}
    found: Said = {}
    for row in sorted(set(s.job_gang[s.job_node >= -1].tolist()) - {-1}):
        roles, step = _told_of_roles(s, row)
        found[built.gangs[row]] = {
            "terms": (
                int(s.gang_min[row]),
                s.label_names[s.gang_label[row]] if s.gang_label[row] >= 0 else None,
                rests[engine.Rest(int(s.gang_rest[row]))],
                roles,
            ),
            "started": bool(s.gang_started[row]),
            "submitted": int(s.gang_submitted_ms[row]),
            "step": step,
            "frozen": s.gang_frozen is not None and bool(s.gang_frozen[row]),
        }
    return found


def _told_of_roles(s: engine.Snapshot, gang: int) -> tuple[tuple[job_table.RoleTerms, ...], int]:
    """The roles of a gang in their order, and their step."""
    if s.role_gang is None:
        return (), 0
    assert s.role_place is not None
    assert s.role_min is not None
    assert s.role_max is not None
    assert s.role_step is not None
    rows = np.flatnonzero(s.role_gang == gang)
    rows = rows[np.argsort(s.role_place[rows])]
    roles = tuple(
        job_table.RoleTerms(s.role_names[row], int(s.role_min[row]), int(s.role_max[row]))
        for row in rows.tolist()
    )
    return roles, int(s.role_step[rows].max()) if rows.size else 0


def weighted_times(view: View, queues: Queues, found: Said, now_ms: int) -> dict[JobId, float]:
    """Job id -> weighted running time, of jobs in queues with order `fair` that have any (G9).

    In thousandths x seconds, with the default weights. These histories have no groups of roles.
    """
    columns = view.jobs
    mates: dict[Any, list[JobId]] = {}
    for job_id, job in found.items():
        if queues.get(job["queue"]).order == "fair":
            mates.setdefault(job["gang"] or job_id, []).append(job_id)
    times: dict[JobId, float] = {}
    for members in mates.values():
        total, until_ms, pace, level = 0, 0, 0, 1
        for job_id in members:
            row, job = columns.rows[job_id], found[job_id]
            rare = columns.rare_properties.get(row, job_table.RareProperties())
            requests = columns.shape_of(int(columns.shape[row])).requests
            gib = requests.get("memory", 0) / 2**30
            score = requests.get("cpu", 0) + 100 * gib + 100_000 * requests.get("gpu", 0)
            ran_ms = rare.ran_ms
            if job["node"] is None:
                pace += round(score)
            else:
                ran_ms += max(0, now_ms - job["started"])
            total += round(score) * (ran_ms // 1000)
            until_ms, level = max(until_ms, rare.ran_until_ms), max(level, job["priority"])
        runs = any(found[job_id]["node"] is not None for job_id in members)
        if not runs:
            ran_out = pace * (max(0, now_ms - until_ms) // 1000)
            total = max(0, total - ran_out)
        if total and not (runs and found[members[0]]["gang"] is None):
            times |= dict.fromkeys(members, total / level)
    return times


def told_of_times(view: View, built: BuiltSnapshot) -> dict[JobId, float]:
    """As `weighted_times`, of a snapshot."""
    s = built.snapshot
    if s.job_weighted_time is None:
        return {}
    rows = np.flatnonzero((s.job_node >= -1) & (s.job_weighted_time > 0)).tolist()
    return {view.jobs.rows.id_at(row): float(s.job_weighted_time[row]) for row in rows}


def told_of_nodes(built: BuiltSnapshot) -> Said:
    """As `nodes`, of a snapshot."""
    s = built.snapshot
    return {
        name: (
            int(s.node_number[row]),
            {
                resource: int(amount)
                for resource, amount in zip(s.resources, s.node_allocatable[row], strict=True)
                if amount
            },
            int(s.node_flags[row]),
        )
        for row, name in enumerate(built.nodes)
    }


def check_kept(built: BuiltSnapshot) -> None:
    """Orders and sums that are kept equal those made from the snapshot."""
    s = built.snapshot
    bare = replace(s, queued_order=None, running_order=None, job_totals=None)
    assert job_order.order_queued(s).tolist() == job_order.order_queued(bare).tolist()
    assert job_order.order_running(s).tolist() == job_order.order_running(bare).tolist()
    have, want = s.job_totals, job_totals.count_jobs(bare)
    assert have is not None
    for name in ("used", "runs", "running", "queued", "values"):
        assert getattr(have, name).tolist() == getattr(want, name).tolist(), name
    for node in range(len(built.nodes)):
        linked = []
        at = int(have.head[node])
        while at >= 0:
            linked.append(at)
            at = int(have.link[at])
        assert sorted(linked) == np.flatnonzero(s.job_node == node).tolist()


def told_of_plan(view: View, built: BuiltSnapshot, plan: Plan) -> Said:
    """What a plan decides, by names."""
    s = built.snapshot
    ids = [view.jobs.rows.id_at(row) for row in range(s.job_node.size)]
    reasons = {}
    for row in range(len(plan.reasons.code)):
        gang, shape = int(plan.reasons.gang[row]), int(plan.reasons.shape[row])
        of = built.gangs[gang] if gang >= 0 else view.jobs.shapes.values[built.shapes[shape]]
        reasons[s.queue_names[plan.reasons.queue[row]], of] = (
            int(plan.reasons.code[row]),
            int(plan.reasons.waiting[row]),
            reason_texts.describe_reason(s, plan, row),
        )
    shares = {
        name: (plan.shares.fair[q], plan.shares.actual[q], plan.shares.demand[q])
        for q, name in enumerate(s.queue_names)
        if plan.shares.weight[q]
    }
    return {
        "placed": [
            (ids[job], built.nodes[node], value)
            for job, node, value in zip(
                plan.placed_job.tolist(),
                plan.placed_node.tolist(),
                plan.placed_value.tolist(),
                strict=True,
            )
        ],
        "preempted": [
            (ids[job], ids[preemptor], cause)
            for job, preemptor, cause in zip(
                plan.preempted_job.tolist(),
                plan.preemptor_job.tolist(),
                plan.preempted_cause.tolist(),
                strict=True,
            )
        ],
        "rejected": [ids[job] for job in plan.rejected_job.tolist()],
        "failed": [ids[job] for job in plan.failed_job.tolist()],
        "reasons": reasons,
        "shares": shares,
        "stopped": plan.stopped_by,
    }
