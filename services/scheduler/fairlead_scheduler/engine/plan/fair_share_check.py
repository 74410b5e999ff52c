"""Whether a job waits for its queue's share rather than for capacity (`over-fair-share`, E1).

When the round ends: would an eligible node have capacity without the runs of class `any`, of other
queues and of no higher value, that were evicted by R2 or belong to queues which hold no more per
weight than this queue would with the job?
"""

# mypy: disable-error-code="no-any-return"
# (what is read from a NamedTuple's arrays is a number, but numpy says Any)

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fairlead_scheduler.engine.compiler.decorators import (
    by_address,
    entry_point,
    inlined,
    separate,
)
from fairlead_scheduler.engine.preparation.pool import fair_shares
from fairlead_scheduler.engine.round_plan import Reasons
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Byte,
    Code,
    Float,
    Int32,
    Int64,
    JobTotals,
    Snapshot,
)
from fairlead_scheduler.engine.state.round_model import RoundModel
from fairlead_scheduler.engine.state.round_state import EVICTED, RESTORED, TOLERANCE, cost_with
from fairlead_scheduler.engine.state.run_states import is_live

NODES_PER_ROW_MAX: Final = 64
"""The number of nodes whose runs are examined for a row."""
ANY_QUEUE: Final = -1
"""Instead of a queue: runs of all queues count."""
ANY_SHARE: Final = float("inf")
"""Instead of a share: runs of queues with any share count."""


def group_by_node(nodes: Int32, count: int) -> tuple[Int64, Int32]:
    """Numbers by node: [N+1] where each node's begin, and the numbers in that order."""
    first = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(nodes, minlength=count), out=first[1:])
    rows = np.empty(nodes.size, np.int32)
    _list_by_node(nodes, first[:-1].copy(), rows)
    return first, rows


@entry_point
def _list_by_node(nodes: Int32, at: Int64, rows: Int32) -> None:
    """Write the numbers to `rows`, each node's from `at[node]` on, which is advanced."""
    for i in range(nodes.size):
        rows[at[nodes[i]]] = i
        at[nodes[i]] += 1


@by_address
class RunsByNode(NamedTuple):
    """Runs and placements when the round ends, by node.

    In a round in which something can be preempted all runs are linked by position (`RunTable`).
    Otherwise the runs are linked as in `JobTotals`, and placements are listed by node.
    """

    totals: JobTotals
    place: Int32
    """[N] position of the node"""
    levels: Int64
    """[L] the value of each level"""
    new_first: Int64
    """[N+1] where the placements on each node begin in `new_rows`; none where runs are linked by
    position"""
    new_rows: Int32
    """rows of `new_job`, by node"""
    new_job: Int32
    node: Int32
    """[J] below 0 for new placements"""
    queue: Int32
    shape: Int32
    value: Int64
    """[J] the value at which live runs run; [0] if that is the shape's"""
    soft: Bool
    """[S] of class `any`"""
    shape_value: Int64
    balance: Bool
    """[Q] evicted by R2"""
    per_weight: Float
    """[Q] cost of what each queue holds, per weight"""


@by_address
class NodeScan(NamedTuple):
    """The nodes to examine, and results that later rows use again."""

    nodes: Int32
    """[N] rows of nodes in the order in which they are examined (N3)"""
    node_type: Int32
    """[N]"""
    match: Byte
    """[S, 1+K, T] `Snapshot.shape_match`"""
    closed: Byte
    """[N] see `reason_rows.find_closed_nodes`"""
    free: Int64
    """[N, R]"""
    most: Int64
    """[N, R] free capacity without the runs that the queue could preempt, where `found` is set"""
    found: Byte
    """[N]"""
    top: Int64
    """[R+1] the most of each resource that could be free on any node; last: whether it is known"""
    hint: Int64
    """[S] place in `nodes` of the last node with capacity for a job of the shape"""
    values: Int64
    """[V] the values of classes, ascending"""
    held: Int64
    """[V, N, R] what runs of no higher value hold at most that any queue could preempt, where
    `summed` says so"""
    summed: Byte
    """[V, N]"""
    capacity: Int64
    """[R] the capacity for the current queue on the current node"""


@by_address
class FairShareCheck(NamedTuple):
    """What the check reads, and its results."""

    runs: RunsByNode
    scan: NodeScan
    model: RoundModel


def begin_scan(snapshot: Snapshot, nodes: Int32, closed: Byte, free: Int64) -> NodeScan:
    """A scan of `nodes`, rows in order, that has not found anything yet."""
    values = np.unique(snapshot.class_value)
    return NodeScan(
        nodes=nodes,
        node_type=snapshot.node_type,
        match=snapshot.shape_match,
        closed=closed,
        free=free,
        most=np.zeros(free.shape, np.int64),
        found=np.zeros(nodes.size, np.uint8),
        top=np.zeros(free.shape[1] + 1, np.int64),
        hint=np.zeros(snapshot.shape_class.size, np.int64),
        values=values,
        held=np.zeros((values.size, *free.shape), np.int64),
        summed=np.zeros((values.size, nodes.size), np.uint8),
        capacity=np.zeros(free.shape[1], np.int64),
    )


def find_over_fair_share(check: FairShareCheck, queue: Int32, shape: Int32) -> Bool:
    """[M] whether each waiting (queue, shape) waits for its queue's share; the rows are in the
    order of queues and class values."""
    result = np.zeros(queue.size, np.bool_)
    _find_over_fair_share(check, queue, shape, result)
    return result


@entry_point
def _find_over_fair_share(check: FairShareCheck, queue: Int32, shape: Int32, result: Bool) -> None:
    """Write the rows of `find_over_fair_share` to `result`.

    What a node could have without any run of no higher value bounds its capacity for all queues.
    Only where a shape fits that is its capacity without those of other queues computed, once per
    queue and value, and only where the shape fits that too are its runs examined for the shape, on
    at most `NODES_PER_ROW_MAX` nodes.
    """
    model, scan = check.model, check.scan
    held = model.usage.held if model.runs.active else model.usage.counted
    value = 0
    for m in range(queue.size):
        q = queue[m]
        s = shape[m]
        before = value
        value = check.runs.shape_value[s]
        if m == 0 or q != queue[m - 1] or value != before:
            forget_nodes(scan)
        if scan.top[scan.capacity.size] and not fits(model.shapes.request, s, scan.top):
            continue
        cost = cost_with(held[q], model.shapes.full_request[s], model.entitlements.cost_factor)
        result[m] = examine_nodes(check, q, s, cost / model.entitlements.weight[q])


@separate
def examine_nodes(check: FairShareCheck, q: int, s: int, after: float) -> bool:
    """Whether any node would have capacity for a job of shape `s` without the runs that queue `q`
    could preempt; `after` is the share / weight of the queue with the job."""
    model, scan = check.model, check.scan
    value = check.runs.shape_value[s]
    examined = 0
    for turn in range(scan.nodes.size):
        place = (scan.hint[s] + turn) % scan.nodes.size
        n = scan.nodes[place]
        if scan.closed[n] != 255 or scan.match[s, 0, scan.node_type[n]] != 0:
            continue
        if not scan.found[n]:
            bound_capacity(check, n, value)
            if not fits(model.shapes.request, s, scan.capacity):
                continue
            scan.found[n] = 1
            find_capacity(check, n, q, value, ANY_SHARE)
            for r in range(scan.capacity.size):
                scan.most[n, r] = scan.capacity[r]
        if not fits(model.shapes.request, s, scan.most[n]):
            continue
        find_capacity(check, n, q, value, after)
        examined += 1
        if fits(model.shapes.request, s, scan.capacity):
            scan.hint[s] = place
            return True
        if examined == NODES_PER_ROW_MAX:
            return False
    if not scan.top[scan.capacity.size]:
        find_top(check, value)
    return False


@inlined
def forget_nodes(scan: NodeScan) -> None:
    """Forget what was found of nodes for another queue or class value."""
    for i in range(scan.found.size):
        scan.found[i] = 0
    for i in range(scan.top.size):
        scan.top[i] = 0


@inlined
def fits(request: Int64, s: int, capacity: Int64) -> bool:
    """Whether a job of the shape requests no more of any resource than this."""
    for r in range(request.shape[1]):  # noqa: SIM110 - kernels have no generators
        if request[s, r] > capacity[r]:
            return False
    return True


@separate
def find_capacity(check: FairShareCheck, n: int, q: int, value: int, after: float) -> None:
    """Compute in `scan.capacity` what would be free on node `n` without the runs that queue `q`
    could preempt for a job of this value (see the module)."""
    for r in range(check.scan.capacity.size):
        check.scan.capacity[r] = check.scan.free[n, r]
    add_runs(check, n, q, value, after)


@separate
def add_runs(check: FairShareCheck, n: int, q: int, value: int, after: float) -> None:
    """Add to `scan.capacity` what the runs of class `any` hold on node `n` that queue `q`, or
    `ANY_QUEUE`, could preempt for a job of this value."""
    runs, table, active = check.runs, check.model.runs, check.model.runs.active
    j = table.head[runs.place[n]] if active else runs.totals.head[n]
    while j >= 0:
        if active:
            counts = table.preemption[j] == 0 and is_live(table.state[j])
            own = runs.levels[table.level[j]]
        else:
            counts = runs.soft[runs.shape[j]]
            own = runs.value[j] if runs.value.size else runs.shape_value[runs.shape[j]]
        if counts and own <= value and can_preempt(runs, j, q, after):
            add_request(check, j)
        j = table.link[j] if active else runs.totals.link[j]
    for i in range(runs.new_first[n], runs.new_first[n + 1]):
        j = runs.new_job[runs.new_rows[i]]
        s = runs.shape[j]
        if runs.soft[s] and runs.shape_value[s] <= value and can_preempt(runs, j, q, after):
            add_request(check, j)


@inlined
def can_preempt(runs: RunsByNode, j: int, q: int, after: float) -> bool:
    """Whether queue `q` could preempt run `j` of class `any`, by the shares of their queues."""
    other = runs.queue[j]
    if other == q:
        return False
    evicted = runs.node[j] >= 0 and runs.balance[other]
    return evicted or runs.per_weight[other] <= after + TOLERANCE


@inlined
def add_request(check: FairShareCheck, j: int) -> None:
    """Add what job `j` requests to `scan.capacity`."""
    s = check.runs.shape[j]
    for r in range(check.scan.capacity.size):
        check.scan.capacity[r] += check.model.shapes.request[s, r]


@inlined
def find_top(check: FairShareCheck, value: int) -> None:
    """Compute the most of each resource that any node could have, by what is known of each."""
    scan = check.scan
    scan.top[scan.capacity.size] = 1
    for n in range(scan.nodes.size):
        if scan.closed[n] != 255:
            continue
        bound_capacity(check, n, value)
        for r in range(scan.capacity.size):
            most = scan.most[n, r] if scan.found[n] else scan.capacity[r]
            scan.top[r] = max(scan.top[r], most)


@separate
def bound_capacity(check: FairShareCheck, n: int, value: int) -> None:
    """Compute in `scan.capacity` what would be free on node `n` without any run of no higher
    value."""
    scan = check.scan
    v = 0
    while scan.values[v] < value:
        v += 1
    if not scan.summed[v, n]:
        scan.summed[v, n] = 1
        sum_held(check, n, v)
    for r in range(scan.capacity.size):
        scan.capacity[r] = scan.free[n, r] + scan.held[v, n, r]


@inlined
def sum_held(check: FairShareCheck, n: int, v: int) -> None:
    """Sum up `scan.held` of node `n` and class value `v`. In a round in which something can be
    preempted it is known by level."""
    runs, scan, capacity = check.runs, check.scan, check.model.capacity
    if check.model.runs.active:
        p = runs.place[n]
        for lv in range(runs.levels.size):
            if runs.levels[lv] <= scan.values[v]:
                for r in range(scan.capacity.size):
                    scan.held[v, n, r] += capacity.evicted[p, lv, r]
                    scan.held[v, n, r] += capacity.preemptible[p, lv, r]
        return
    for r in range(scan.capacity.size):
        scan.capacity[r] = 0
    add_runs(check, n, ANY_QUEUE, scan.values[v], ANY_SHARE)
    for r in range(scan.capacity.size):
        scan.held[v, n, r] = scan.capacity[r]


def compare_shares(snapshot: Snapshot, model: RoundModel, fair: Float, reasons: Reasons) -> None:
    """Write `others_hold_more` and `exceeds_share` of the rows with `over-fair-share`; `fair` is
    the fair share of each queue, [Q]."""
    if not model.runs.active:
        return
    # A pass that has nothing left to place ends before it returns all that was evicted.
    returned = (model.runs.state == RESTORED) | (model.runs.state == EVICTED)
    back = snapshot.job_queue[returned]
    rows = np.flatnonzero(reasons.code == Code.OVER_FAIR_SHARE)
    if not back.size or not rows.size:
        return
    factor, weight = model.entitlements.cost_factor, model.entitlements.weight
    queue = reasons.queue[rows]
    with_job = model.usage.held[queue] + model.shapes.full_request[reasons.shape[rows]]
    cost = fair_shares.dominant_share(with_job, factor)
    others = np.full(weight.size, -1.0)
    others[back] = (fair_shares.dominant_share(model.usage.held, factor) / weight)[back]
    first = int(others.argmax())
    second = np.delete(others, first).max(initial=-1.0)
    most = np.where(queue == first, second, others[first])
    reasons.others_hold_more[rows] = most > cost / weight[queue] + TOLERANCE
    reasons.exceeds_share[rows] = cost > fair[queue] + TOLERANCE
