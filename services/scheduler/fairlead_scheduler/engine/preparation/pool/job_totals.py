"""Totals over the jobs of a snapshot, by node, queue and shape.

Adding up two million jobs every round would cost more than deciding about the few that changed. So
the service retains the totals of a snapshot and updates them with `count_rows`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import by_address, entry_point
from fairlead_scheduler.engine.snapshot import Int32, Int64, JobTotals, Snapshot


def count_jobs(snapshot: Snapshot) -> JobTotals:
    """`Snapshot.job_totals`, from one pass over all jobs."""
    totals = empty_totals(
        snapshot.node_number.size,
        snapshot.shape_request.shape[1],
        len(snapshot.queue_names),
        snapshot.shape_request.shape[0],
        snapshot.job_node.size,
        np.zeros(0, np.int64)
        if snapshot.job_value is None
        else np.unique(snapshot.job_value[snapshot.job_node >= 0]),
    )
    columns = JobColumns(snapshot.job_node, snapshot.job_queue, snapshot.job_shape)
    rows = np.arange(snapshot.job_node.size, dtype=np.int32)
    count_rows(rows, 1, columns, snapshot.shape_request, totals)
    return totals


def empty_totals(
    nodes: int, resources: int, queues: int, shapes: int, jobs: int, values: Int64
) -> JobTotals:
    """The totals before any job is counted; `values` are used as given."""
    return JobTotals(
        used=np.zeros((nodes, resources), np.int64),
        runs=np.zeros(nodes, np.int64),
        running=np.zeros((queues, shapes), np.int64),
        queued=np.zeros((queues, shapes), np.int64),
        head=np.full(nodes, -1, np.int32),
        link=np.empty(jobs, np.int32),
        back=np.empty(jobs, np.int32),
        values=values,
    )


@by_address
class JobColumns(NamedTuple):
    """What `count_rows` reads of each job, [J]; as in `Snapshot`."""

    node: Int32
    queue: Int32
    shape: Int32


@entry_point
def count_rows(rows: Int32, sign: int, jobs: JobColumns, request: Int64, totals: JobTotals) -> None:
    """Count these rows (sign 1), or count them no longer (sign -1), as they are described now.

    `request` is [S, R]. All of `totals` except `values` is written.
    """
    for i in range(rows.size):
        j = rows[i]
        n = jobs.node[j]
        if n < -1:
            continue
        q = jobs.queue[j]
        s = jobs.shape[j]
        if n < 0:
            totals.queued[q, s] += sign
            continue
        totals.running[q, s] += sign
        totals.runs[n] += sign
        for r in range(request.shape[1]):
            totals.used[n, r] += sign * request[s, r]
        if sign > 0:
            after = totals.head[n]
            totals.link[j] = after
            totals.back[j] = -1
            if after >= 0:
                totals.back[after] = j
            totals.head[n] = j
        else:
            if totals.back[j] >= 0:
                totals.link[totals.back[j]] = totals.link[j]
            else:
                totals.head[n] = totals.link[j]
            if totals.link[j] >= 0:
                totals.back[totals.link[j]] = totals.back[j]


@entry_point
def exclude_nodes(
    nodes: Int64,
    head: Int32,
    link: Int32,
    queue: Int32,
    shape: Int32,
    running: Int64,
    excluded: Int64,
) -> None:
    """Count the runs of these nodes as excluded ([S]) instead of running ([Q, S])."""
    for i in range(nodes.size):
        j = head[nodes[i]]
        while j >= 0:
            running[queue[j], shape[j]] -= 1
            excluded[shape[j]] += 1
            j = link[j]
