"""Why jobs wait (rules E1 to E3): one row per (queue, shape) or gang, never per job.

Nodes are counted by the first thing that rules them out, as the round leaves them; each row of
counts adds up to the nodes of the pool.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import by_address, entry_point, inlined
from fairlead_scheduler.engine.plan.fair_share_check import group_by_node
from fairlead_scheduler.engine.preparation.pool.static_pool import GroupedNodes, StaticPool
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.engine.round_plan import Reasons
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Bucket,
    Byte,
    Code,
    Int32,
    Int64,
    NodeFlag,
    Snapshot,
)

BUCKETS: Final = len(Bucket)
CODES: Final = len(Code)
_TAINT: Final = int(Bucket.TAINT)
_TOO_SMALL: Final = int(Bucket.TOO_SMALL)
_LAGGING: Final = int(Bucket.LAGGING)
_BUSY: Final = int(Bucket.BUSY)
_OPEN: Final = int(Bucket.OPEN)

GROUPS: Final = 256
"""How many groups of nodes are compared with each node."""

ELIGIBLE: Final = 1
FREE_CAPACITY: Final = 2


class TimeChecks(NamedTuple):
    """Checks of the time limit while reasons are built (L6)."""

    clock: RoundClock
    pairs: int
    """rows times nodes that are compared between two checks"""

    def slices(self, rows: int, nodes: int) -> Iterator[slice]:
        """Parts of the rows, the first one in any case, the others until time is up."""
        step = max(1, self.pairs // max(nodes, 1))
        yield slice(0, step)
        for first in range(step, rows, step):
            if self.clock.check():
                return
            yield slice(first, first + step)


def find_closed_nodes(snapshot: Snapshot, overfull: Bool) -> Byte:
    """[N] the `Bucket` of nodes that accept no new job of any shape, else 255."""
    flags = snapshot.node_flags
    result = np.full(flags.size, 255, np.uint8)
    result[(flags & NodeFlag.LAGGING) != 0] = Bucket.LAGGING
    result[overfull] = Bucket.OVERFULL
    result[(flags & NodeFlag.CORDONED) != 0] = Bucket.CORDONED
    result[(flags & NodeFlag.AVOIDED) != 0] = Bucket.AVOIDED
    result[(flags & NodeFlag.LOST) != 0] = Bucket.LOST
    return result


def group_nodes(node_type: Int32, allocatable: Int64, bar: Byte) -> Int64:
    """[N] a group per node: nodes of one group differ only in what is free.

    Beyond `GROUPS` groups nodes are groups of their own, so that this stays one pass.
    """
    group = np.empty(node_type.size, np.int64)
    _find_groups(node_type, allocatable, bar, group, np.empty(node_type.size, np.int64))
    return group


@entry_point
def _find_groups(
    node_type: Int32, allocatable: Int64, bar: Byte, group: Int64, first_node: Int64
) -> None:
    """Write the groups to `group`, and the first node of each to `first_node`."""
    groups = 0
    for n in range(node_type.size):
        group[n] = groups
        for g in range(min(groups, GROUPS)):
            k = first_node[g]
            same = node_type[k] == node_type[n] and bar[k] == bar[n]
            for r in range(allocatable.shape[1]):
                if allocatable[k, r] != allocatable[n, r]:
                    same = False
            if same:
                group[n] = g
                break
        if group[n] == groups:
            first_node[groups] = n
            groups += 1


def most_free(first: Int64, nodes: Int32, free: Int64) -> Int64:
    """[groups, R] the most that is free on any node of each group, at least 0."""
    most = np.zeros((first.size - 1, free.shape[1]), np.int64)
    _find_most_free(first, nodes, free, most)
    return most


@entry_point
def _find_most_free(first: Int64, nodes: Int32, free: Int64, most: Int64) -> None:
    """Raise `most`, of zeros, to what `most_free` returns."""
    for group in range(first.size - 1):
        for i in range(first[group], first[group + 1]):
            for r in range(free.shape[1]):
                most[group, r] = max(most[group, r], free[nodes[i], r])


@by_address
class NodeGroups(NamedTuple):
    """Nodes by group (see `group_nodes`), and what counting needs of them."""

    node_type: Int32
    """[N]"""
    allocatable: Int64
    """[N, R]"""
    closed: Byte
    """[N] see `find_closed_nodes`"""
    first: Int64
    """[groups+1] where each group begins in `nodes`"""
    nodes: Int32
    """[N] nodes by group"""
    most_free: Int64
    """[groups, R] the most that is free on any node of each group"""


@inlined
def find_lacking(request: Int64, amounts: Int64) -> int:
    """The first resource that is short, or -1."""
    for r in range(request.size):
        if request[r] > amounts[r]:
            return r
    return -1


@inlined
def has_node_with_capacity(
    request: Int64, first: Int64, nodes: Int32, group: int, free: Int64
) -> bool:
    """Whether the request fits any node of a group."""
    for i in range(first[group], first[group + 1]):
        if find_lacking(request, free[nodes[i]]) < 0:
            return True
    return False


@by_address
class NodeCounts(NamedTuple):
    """The counts of nodes for each of M shapes (E3)."""

    counts: Int32
    """[M, 10] nodes by the first thing that rules them out"""
    scarce: Int32
    """[M] the resource that most busy nodes are short of, the first among equals; -1 when none is
    busy"""
    best: Int64
    """[M] the most of it that is free on any eligible node"""
    apart: Byte
    """[M] of nodes that get nothing new: `ELIGIBLE`, and `FREE_CAPACITY` on one whose executor
    lags"""
    short: Int64
    """[R] busy nodes that are short of each resource, for the shape at hand"""
    top: Int64
    """[R] the most that is free on any of them"""


def count_nodes(
    shapes: Int32, request: Int64, match: Byte, free: Int64, groups: NodeGroups
) -> NodeCounts:
    """E3 for each of `shapes` ([M]). A node that is short of several resources counts for the first
    of them."""
    resources = request.shape[1]
    found = NodeCounts(
        counts=np.zeros((shapes.size, BUCKETS), np.int32),
        scarce=np.full(shapes.size, -1, np.int32),
        best=np.zeros(shapes.size, np.int64),
        apart=np.zeros(shapes.size, np.uint8),
        short=np.zeros(resources, np.int64),
        top=np.zeros(resources, np.int64),
    )
    _count_nodes(shapes, request, match, free, groups, found)
    return found


@entry_point
def _count_nodes(
    shapes: Int32, request: Int64, match: Byte, free: Int64, groups: NodeGroups, found: NodeCounts
) -> None:
    """Write what `count_nodes` returns to `found`."""
    for m in range(shapes.size):
        for r in range(request.shape[1]):
            found.short[r] = 0
            found.top[r] = 0
        for group in range(groups.first.size - 1):
            count_group(request, match, free, groups, found, m, shapes[m], group)
        find_scarce_resource(found, m)


@inlined
def count_group(
    request: Int64,
    match: Byte,
    free: Int64,
    groups: NodeGroups,
    found: NodeCounts,
    m: int,
    s: int,
    group: int,
) -> None:
    """Count the nodes of a group for shape `s`, whose row of `found` is `m`."""
    size = groups.first[group + 1] - groups.first[group]
    first_node = groups.nodes[groups.first[group]]
    closed = groups.closed[first_node]
    mismatch = find_mismatch(match, s, groups.node_type[first_node])
    too_small = find_lacking(request[s], groups.allocatable[first_node]) >= 0
    if closed != 255:
        found.counts[m, closed] += size
        if not mismatch and not too_small:
            found.apart[m] |= ELIGIBLE
            if closed == _LAGGING and has_node_with_capacity(
                request[s], groups.first, groups.nodes, group, free
            ):
                found.apart[m] |= FREE_CAPACITY
        return
    if mismatch:
        found.counts[m, _TAINT + mismatch - 1] += size
        return
    if too_small:
        found.counts[m, _TOO_SMALL] += size
        return
    for r in range(request.shape[1]):
        found.top[r] = max(found.top[r], groups.most_free[group, r])
    if request[s, 0] > groups.most_free[group, 0]:
        found.short[0] += size
        return
    for i in range(groups.first[group], groups.first[group + 1]):
        lacking = find_lacking(request[s], free[groups.nodes[i]])
        if lacking < 0:
            found.counts[m, _OPEN] += 1
        else:
            found.short[lacking] += 1


@inlined
def find_mismatch(match: Byte, s: int, node_type: int) -> int:
    """Why a shape runs on no node of a type, neither at home nor away, as in `shape_match`; 0 = it
    does."""
    for w in range(1, match.shape[1]):
        if match[s, w, node_type] == 0:
            return 0
    return int(match[s, 0, node_type])


@inlined
def find_scarce_resource(found: NodeCounts, m: int) -> None:
    """Sum up the busy nodes of row `m`, and write what most of them are short of."""
    scarce = -1
    for r in range(found.short.size):
        found.counts[m, _BUSY] += found.short[r]
        if found.short[r] > 0 and (scarce < 0 or found.short[r] > found.short[scarce]):
            scarce = r
    found.scarce[m] = scarce
    if scarce >= 0:
        found.best[m] = found.top[scarce]


class WaitingRows(NamedTuple):
    """Rows of reasons, [M] each, with the codes as the pass left them."""

    queue: Int32
    shape: Int32
    """of its first waiting member in a gang's row"""
    gang: Int32
    """-1 in a shape's row"""
    code: Byte
    waiting: Int64
    role: Int32
    role_members: Int32


@functools.cache
def no_reasons() -> Reasons:
    """The rows of a round after which nothing waits."""
    return Reasons(
        queue=np.zeros(0, np.int32),
        shape=np.zeros(0, np.int32),
        gang=np.zeros(0, np.int32),
        code=np.zeros(0, np.uint8),
        counts=np.zeros((0, BUCKETS), np.int32),
        resource=np.zeros(0, np.int32),
        needed=np.zeros(0, np.int64),
        best=np.zeros(0, np.int64),
        waiting=np.zeros(0, np.int64),
        others_hold_more=np.zeros(0, np.bool_),
        exceeds_share=np.zeros(0, np.bool_),
        role=np.zeros(0, np.int32),
        role_members=np.zeros(0, np.int32),
    )


def find_node_groups(snapshot: Snapshot, static: StaticPool, overfull: Bool) -> GroupedNodes:
    """The nodes by group; those of the last round while the static part is the same and no node is
    overfull."""

    def make() -> GroupedNodes:
        closed = find_closed_nodes(snapshot, overfull)
        group = group_nodes(snapshot.node_type, snapshot.node_allocatable, closed)
        return GroupedNodes(
            closed, *group_by_node(group.astype(np.int32), int(group.max(initial=-1)) + 1)
        )

    return make() if overfull.any() else static.grouped_nodes.get((), make)


def build_reasons(
    snapshot: Snapshot, rows: WaitingRows, free: Int64, grouped: GroupedNodes, checks: TimeChecks
) -> Reasons:
    """Explain the rows. Those that are not reached in time (L6) have no counts."""
    queue, shape, gang, codes, waiting = rows[:5]
    waits = np.zeros(snapshot.shape_class.size, np.bool_)
    waits[shape] = True
    distinct = np.flatnonzero(waits).astype(np.int32)
    back = (np.cumsum(waits) - 1)[shape]
    bar, first, nodes = grouped
    most = most_free(first, nodes, free)
    groups = NodeGroups(
        node_type=snapshot.node_type,
        allocatable=snapshot.node_allocatable,
        closed=bar,
        first=first,
        nodes=nodes,
        most_free=most,
    )
    parts = [
        count_nodes(distinct[part], snapshot.shape_request, snapshot.shape_match, free, groups)
        for part in checks.slices(distinct.size, bar.size)
    ]
    counts, scarce, best, apart = (
        _extend(column, distinct.size)
        for column in (
            [part.counts for part in parts],
            [part.scarce for part in parts],
            [part.best for part in parts],
            [part.apart for part in parts],
        )
    )
    explained = sum(part.scarce.size for part in parts)
    needed = np.where(
        scarce >= 0, snapshot.shape_request[distinct, np.maximum(scarce, 0)], 0
    ).astype(np.int64)
    return Reasons(
        queue=queue,
        shape=np.where(gang >= 0, -1, shape).astype(np.int32),
        gang=gang,
        code=refine_codes(codes, back, counts, apart, explained),
        counts=counts.take(back, axis=0),
        resource=scarce[back],
        needed=needed[back],
        best=best[back],
        waiting=waiting.astype(np.int64),
        others_hold_more=np.zeros(queue.size, np.bool_),
        exceeds_share=np.zeros(queue.size, np.bool_),
        role=rows.role,
        role_members=rows.role_members,
    )


def _extend(parts: Sequence[npt.NDArray[Any]], rows: int) -> npt.NDArray[Any]:
    """The parts one after the other, with zeros after them where rows are missing."""
    together = np.concatenate(parts)
    result = np.zeros((rows, *together.shape[1:]), together.dtype)
    result[: len(together)] = together
    return result


def count_skipped(rows: Reasons, queues: int) -> Int64:
    """[Q, codes] what waits by reason (E4)."""
    if not rows.code.size:
        return np.zeros((queues, CODES), np.int64)
    pair = rows.queue * CODES + rows.code
    total = np.bincount(pair, weights=rows.waiting, minlength=queues * CODES)
    return total.astype(np.int64).reshape(queues, CODES)


def refine_codes(codes: Byte, back: Int64, counts: Int32, apart: Byte, explained: int) -> Byte:
    """Distinguish the codes of what was tried: a lagging executor has the capacity, or no node is
    eligible.

    A node that is cordoned or out of contact is eligible nevertheless (N1). `counts` and `apart`
    are per shape that waits, `back` says which of them each code is of; only the first `explained`
    shapes were reached in time (L6).
    """
    eligible = (counts[:, _BUSY] > 0) | (counts[:, _OPEN] > 0) | (apart != 0)
    verdict = np.where(eligible, Code.INSUFFICIENT_RESOURCES, Code.NO_MATCHING_NODE)
    verdict[(apart & FREE_CAPACITY) != 0] = Code.EXECUTOR_LAGGING
    verdict[explained:] = Code.TIME_LIMIT
    tried = (codes == Code.INSUFFICIENT_RESOURCES) | (codes == Code.NO_MATCHING_NODE)
    return np.where(tried, verdict.astype(np.uint8)[back], codes)
