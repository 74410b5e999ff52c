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

from fairlead_scheduler.engine.compiler.decorators import by_address, entry_point, inlined
from fairlead_scheduler.engine.preparation import fair_shares
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
from fairlead_scheduler.engine.state.round_model import RoundModel, RunTable
from fairlead_scheduler.engine.state.round_state import EVICTED, RESTORED, TOLERANCE, cost_with
from fairlead_scheduler.engine.state.run_states import is_live

NODES_PER_ROW_MAX: Final = 64
"""The number of nodes whose runs are examined for a row."""


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

    table: RunTable
    totals: JobTotals
    place: Int32
    """[N] position of the node"""
    levels: Int64
    """[L] the value of each level"""
    new_first: Int64
    """[N+1] where the placements on each node begin in `new_rows`"""
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


@inlined
def counts_as_victim(runs: RunsByNode, j: int) -> bool:
    """Whether the run, of a round in which something can be preempted, is live and `any`."""
    return runs.table.preemption[j] == 0 and is_live(runs.table.state[j])


@inlined
def add_node(
    runs: RunsByNode,
    n: int,
    q: int,
    value: int,
    per_weight: Float,
    after: float,
    request: Int64,
    free: Int64,
) -> None:
    """Add to `free` ([R]) the capacity on node `n` that queue `q` could preempt (see the
    module)."""
    j = runs.table.head[runs.place[n]] if runs.table.active else runs.totals.head[n]
    while j >= 0:
        if runs.table.active:
            if counts_as_victim(runs, j):
                own = runs.levels[runs.table.level[j]]
                evicted = runs.balance[runs.queue[j]] and runs.node[j] >= 0
                if can_preempt(runs, j, own, evicted, q, value, per_weight, after):
                    add_request(request, runs.shape[j], free)
            j = runs.table.link[j]
        else:
            s = runs.shape[j]
            if runs.soft[s]:
                own = runs.value[j] if runs.value.size else runs.shape_value[s]
                if can_preempt(
                    runs, j, own, runs.balance[runs.queue[j]], q, value, per_weight, after
                ):
                    add_request(request, runs.shape[j], free)
            j = runs.totals.link[j]
    if not runs.table.active:
        for i in range(runs.new_first[n], runs.new_first[n + 1]):
            j = runs.new_job[runs.new_rows[i]]
            s = runs.shape[j]
            if runs.soft[s]:
                own = runs.shape_value[s]
                if can_preempt(runs, j, own, False, q, value, per_weight, after):
                    add_request(request, runs.shape[j], free)


@inlined
def can_preempt(
    runs: RunsByNode,
    j: int,
    own: int,
    evicted: bool,
    q: int,
    value: int,
    per_weight: Float,
    after: float,
) -> bool:
    """Whether queue `q` could preempt a run of class `any` that runs at value `own`."""
    other = runs.queue[j]
    if other == q or own > value:
        return False
    return evicted or per_weight[other] <= after + TOLERANCE


@inlined
def add_request(request: Int64, s: int, free: Int64) -> None:
    """Add the request of a shape to `free`."""
    for r in range(free.size):
        free[r] += request[s, r]


@by_address
class NodeScan(NamedTuple):
    """The nodes to examine, and results that later rows use again."""

    nodes: Int32
    """[N] rows of nodes in the order in which they are examined (N3)"""
    node_type: Int32
    """[N]"""
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
    """[V, N, R] what runs of class `any` and no higher value hold, whichever queue's they are,
    where `summed` says so; for rounds in which nothing can be preempted"""
    summed: Byte
    """[V, N]"""
    capacity: Int64
    """[R] the capacity for the current queue on the current node"""


def begin_scan(
    snapshot: Snapshot, nodes: Int32, closed: Byte, free: Int64, active: int
) -> NodeScan:
    """A scan of `nodes`, rows in order, that has not found anything yet."""
    values = np.unique(snapshot.class_value)
    summed = (0 if active else values.size, nodes.size)
    return NodeScan(
        nodes=nodes,
        node_type=snapshot.node_type,
        closed=closed,
        free=free,
        most=np.zeros(free.shape, np.int64),
        found=np.zeros(nodes.size, np.uint8),
        top=np.zeros(free.shape[1] + 1, np.int64),
        hint=np.zeros(snapshot.shape_class.size, np.int64),
        values=values,
        held=np.zeros((*summed, free.shape[1]), np.int64),
        summed=np.zeros(summed, np.uint8),
        capacity=np.zeros(free.shape[1], np.int64),
    )


def find_over_fair_share(
    runs: RunsByNode, model: RoundModel, queue: Int32, shape: Int32, match: Byte, scan: NodeScan
) -> Bool:
    """[M] whether each waiting (queue, shape) waits for its queue's share; the rows are in the
    order of queues and class values."""
    result = np.zeros(queue.size, np.bool_)
    _find_over_fair_share(runs, model, queue, shape, match, scan, result)
    return result


@entry_point
def _find_over_fair_share(
    runs: RunsByNode,
    model: RoundModel,
    queue: Int32,
    shape: Int32,
    match: Byte,
    scan: NodeScan,
    result: Bool,
) -> None:
    """Write the rows of `find_over_fair_share` to `result`.

    What a node could have without any run of no higher value bounds its capacity for all queues.
    Only where a shape fits that is its capacity without those of other queues computed, once per
    queue and value, and only where the shape fits that too are its runs examined for the shape, on
    at most `NODES_PER_ROW_MAX` nodes.
    """
    request, full_request = model.shapes.request, model.shapes.full_request
    weight, factor = model.entitlements.weight, model.entitlements.cost_factor
    held = model.usage.held if runs.table.active else model.usage.counted
    per_weight, capacity = runs.per_weight, scan.capacity
    resources = request.shape[1]
    for m in range(queue.size):
        q = queue[m]
        s = shape[m]
        value = runs.shape_value[s]
        if m == 0 or q != queue[m - 1] or value != runs.shape_value[shape[m - 1]]:
            forget_nodes(scan)
        if scan.top[resources] and not fits(request, s, scan.top):
            continue
        after = cost_with(held[q], full_request[s], factor) / weight[q]
        examined = 0
        for turn in range(scan.nodes.size):
            place = (scan.hint[s] + turn) % scan.nodes.size
            n = scan.nodes[place]
            if scan.closed[n] != 255 or match[s, 0, scan.node_type[n]] != 0:
                continue
            if not scan.found[n]:
                if exceeds_bound(runs, model, scan, n, s, value):
                    continue
                find_most(runs, scan, n, q, value, per_weight, request)
            if not fits(request, s, scan.most[n]):
                continue
            for r in range(resources):
                capacity[r] = scan.free[n, r]
            add_node(runs, n, q, value, per_weight, after, request, capacity)
            examined += 1
            if fits(request, s, capacity):
                result[m] = True
                scan.hint[s] = place
            if result[m] or examined == NODES_PER_ROW_MAX:
                break
        if not result[m] and examined < NODES_PER_ROW_MAX and not scan.top[resources]:
            find_top(runs, model, scan, value)


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


@inlined
def find_most(
    runs: RunsByNode,
    scan: NodeScan,
    n: int,
    q: int,
    value: int,
    per_weight: Float,
    request: Int64,
) -> None:
    """Compute what would be free on node `n` without any run that queue `q` could count on."""
    scan.found[n] = 1
    for r in range(request.shape[1]):
        scan.capacity[r] = scan.free[n, r]
    add_node(runs, n, q, value, per_weight, np.inf, request, scan.capacity)
    for r in range(request.shape[1]):
        scan.most[n, r] = scan.capacity[r]


@inlined
def find_top(runs: RunsByNode, model: RoundModel, scan: NodeScan, value: int) -> None:
    """Compute the most of each resource that any node could have, by what is known of each."""
    resources = model.shapes.request.shape[1]
    scan.top[resources] = 1
    for n in range(scan.nodes.size):
        if scan.closed[n] != 255:
            continue
        for r in range(resources):
            if scan.found[n]:
                scan.top[r] = max(scan.top[r], scan.most[n, r])
            else:
                scan.top[r] = max(scan.top[r], bound_capacity(runs, model, scan, n, r, value))


@inlined
def exceeds_bound(
    runs: RunsByNode, model: RoundModel, scan: NodeScan, n: int, s: int, value: int
) -> bool:
    """Whether a job of the shape needs more than node `n` could have for any queue."""
    for r in range(model.shapes.request.shape[1]):
        if model.shapes.request[s, r] > bound_capacity(runs, model, scan, n, r, value):
            return True
    return False


@inlined
def bound_capacity(
    runs: RunsByNode, model: RoundModel, scan: NodeScan, n: int, r: int, value: int
) -> int:
    """What would be free of a resource on node `n` without any run of no higher value.

    In a round in which something can be preempted it is known by level. Otherwise it is summed up
    when it is first needed.
    """
    amount = scan.free[n, r]
    if runs.table.active:
        p = runs.place[n]
        for lv in range(runs.levels.size):
            if runs.levels[lv] <= value:
                amount += model.capacity.evicted[p, lv, r] + model.capacity.preemptible[p, lv, r]
        return amount
    v = 0
    while scan.values[v] < value:
        v += 1
    if not scan.summed[v, n]:
        scan.summed[v, n] = 1
        sum_node(runs, n, value, model.shapes.request, scan.held[v, n])
    return amount + scan.held[v, n, r]


@inlined
def sum_node(runs: RunsByNode, n: int, value: int, request: Int64, held: Int64) -> None:
    """Sum up what runs of class `any` and no higher value hold on node `n`, in a round in which
    nothing can be preempted."""
    j = runs.totals.head[n]
    while j >= 0:
        s = runs.shape[j]
        own = runs.value[j] if runs.value.size else runs.shape_value[s]
        if runs.soft[s] and own <= value:
            add_request(request, s, held)
        j = runs.totals.link[j]
    for i in range(runs.new_first[n], runs.new_first[n + 1]):
        s = runs.shape[runs.new_job[runs.new_rows[i]]]
        if runs.soft[s] and runs.shape_value[s] <= value:
            add_request(request, s, held)


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
