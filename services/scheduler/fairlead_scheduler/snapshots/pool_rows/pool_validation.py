"""Checks that the index arrays and totals of pools agree with the job table. Pure.

Each check yields one sentence per violation, as in `state/view_validation.py`.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

import numpy as np

from fairlead_scheduler.engine.preparation import job_order
from fairlead_scheduler.engine.preparation.pool import job_totals
from fairlead_scheduler.snapshots.pool_rows.pool_jobs import PoolJobs
from fairlead_scheduler.snapshots.round_columns import RoundColumns
from fairlead_scheduler.snapshots.row_descriptions import fingerprints
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View
from fairlead_scheduler.state.view_validation import describe_rows


def list_pool_violations(
    view: View, columns: RoundColumns, pools: Collection[PoolJobs]
) -> list[str]:
    """One sentence per violated invariant, once all changes of the view are applied; empty for
    valid pools."""
    found = list(_check_rows(view, columns, pools))
    if found:  # the rest reads the rows of each pool
        return found
    return list(
        chain.from_iterable(
            chain(_check_orders(columns, pool), _check_totals(columns, pool)) for pool in pools
        )
    )


def list_timer_violations(view: View, rows: Iterable[int]) -> list[str]:
    """One sentence if a timer has no job that waits for it. `rows`: the rows that have a timer for
    the start time of their job."""
    at, jobs = np.array(sorted(rows), np.intp), view.jobs
    no_job = (jobs.flags[at] & (job_table.FREE | job_table.NOT_READY)) > 0
    no_job |= jobs.state[at] != job_table.QUEUED
    return list(describe_rows("rows have a timer, but no job that waits for it", at[no_job]))


def _check_rows(view: View, columns: RoundColumns, pools: Collection[PoolJobs]) -> Iterator[str]:
    """Each row takes part in the rounds of the pool that its job names, or of none."""
    jobs = view.jobs
    rows = np.flatnonzero(columns.pool >= 0)
    yield from describe_rows("rows are marked as released", np.flatnonzero(columns.released))
    is_free = (jobs.flags[rows] & job_table.FREE) > 0
    yield from describe_rows("rows without a job take part in a round", rows[is_free])
    other = columns.pool[rows] != jobs.pool[rows]
    yield from describe_rows("rows take part in a pool of another job", rows[other])
    differ = fingerprints(jobs, rows) != columns.fingerprint[rows]
    yield from describe_rows("rows changed and are counted as before", rows[differ])
    if rows.size != columns.rows_taking_part or rows.size != sum(pool.count for pool in pools):
        yield f"{rows.size} rows take part, but {columns.rows_taking_part} are counted"


def _check_orders(columns: RoundColumns, pool: PoolJobs) -> Iterator[str]:
    """Both orders together name each row of the pool once, in the order of R3."""
    rows = np.flatnonzero(columns.pool == pool.number) if pool.number >= 0 else np.zeros(0, np.intp)
    by = pool.sort_columns()
    for live, order in ((False, pool.orders.queued.rows), (True, pool.orders.running.rows)):
        name = "running" if live else "queued"
        want = rows[(columns.node[rows] >= 0) == live]
        if not np.array_equal(np.sort(order), want):
            yield f"the {name} order of pool {pool.name} does not name each of its rows once"
        elif not np.array_equal(job_order.sort_rows(by, order, live=live), np.arange(order.size)):
            yield f"the {name} order of pool {pool.name} is not in the order of rule R3"


def _check_totals(columns: RoundColumns, pool: PoolJobs) -> Iterator[str]:
    """The totals are correct for the pool's rows, and each node's runs are linked."""
    used = columns.pool.size
    have = pool.totals(used)
    rows = np.concatenate([pool.orders.queued.rows, pool.orders.running.rows])
    runs = pool.orders.running.rows
    nodes, resources = have.used.shape
    queues, shapes = have.running.shape
    values = np.unique(columns.value[runs])
    want = job_totals.empty_totals(nodes, resources, queues, shapes, used, values)
    jobs = job_totals.JobColumns(columns.node, columns.queue, columns.shape)
    job_totals.count_rows(rows, 1, jobs, pool.shapes.request, want)
    for name in ("used", "runs", "running", "queued", "values"):
        if not np.array_equal(getattr(have, name), getattr(want, name)):
            yield f"the totals `{name}` of pool {pool.name} differ from the sums of its rows"
    linked = []
    for first in have.head[have.head >= 0].tolist():
        row = first
        while row >= 0:
            linked.append(row)
            row = have.link.item(row)
    if sorted(linked) != np.sort(runs).tolist():
        yield f"the runs of pool {pool.name} are not all linked at their nodes"
