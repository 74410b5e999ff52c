"""What could run in the pool if it were empty, and within the queue's limits (section 6).

Cordons, staleness and load are left aside: all nodes that the pool is known to have count. A pool
without nodes refuses nothing, because nobody knows yet what it will have.

A gang is refused only where it is certain that it can never run: exact for members of one shape;
for members of several shapes by a bound on how many of the smallest fit each node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import kernel
from fairlead_scheduler.engine.snapshot import Bool, Byte, Float, Int32, Int64, Snapshot
from fairlead_scheduler.engine.state.round_state import TOLERANCE

IntP = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feasibility:
    """What could run in the empty pool."""

    shape: Bool
    """[S] whether a node is eligible, and the pool has enough floating resources."""
    pair: Bool
    """[Q, S] whether it is within the queue's limits as well."""
    gang: Bool
    """[G] whether its `minSize` members fit together; True where it is not judged: one that runs
    already or is not complete."""


def judge_feasibility(
    snapshot: Snapshot, whole: Int64, shape_types: Byte, known_limit: Float
) -> Feasibility:
    """Judge shapes, pairs of queue and shape, and gangs."""
    shape = _shapes(
        snapshot.shape_request,
        shape_types,
        snapshot.node_allocatable,
        snapshot.node_type,
        np.zeros(whole.shape[0], np.bool_),
    )
    beside = whole[:, len(snapshot.resources) :]
    shape &= (beside <= snapshot.floating_total).all(axis=1)
    pair = np.repeat(shape[None, :], len(snapshot.queue_names), axis=0)
    if known_limit.size and snapshot.node_number.size:
        most = known_limit[:, snapshot.shape_class, :] * (1.0 + TOLERANCE)
        pair &= ((whole <= most) | (whole == 0)).all(axis=2)
    return Feasibility(
        shape=shape, pair=pair, gang=_gangs(snapshot, whole, shape_types, known_limit, pair)
    )


@kernel
def _shapes(
    request: Int64, types: Byte, allocatable: Int64, node_type: Int32, result: Bool
) -> Bool:
    """Whether any known node is eligible for the shape, at home or away."""
    for s in range(request.shape[0]):
        if allocatable.shape[0] == 0:
            result[s] = True
            continue
        for n in range(allocatable.shape[0]):
            fits = False
            for k in range(types.shape[1]):
                if types[s, k, node_type[n]]:
                    fits = True
            if fits:
                for r in range(request.shape[1]):
                    if request[s, r] > allocatable[n, r]:
                        fits = False
            if fits:
                result[s] = True
                break
    return result


def _gangs(
    snapshot: Snapshot, whole: Int64, shape_types: Byte, known_limit: Float, pair: Bool
) -> Bool:
    """[G] whether each gang fits the empty pool; nodes are examined until it does."""
    gang, need = snapshot.job_gang, snapshot.gang_min
    if gang is None or need is None or not need.size:
        return np.ones(0 if need is None else need.size, np.bool_)
    result = np.ones(need.size, np.bool_)
    live = np.bincount(gang[(gang >= 0) & (snapshot.job_node >= 0)], minlength=need.size)
    rows = np.flatnonzero((gang >= 0) & (snapshot.job_node == -1))
    count = np.bincount(gang[rows], minlength=need.size)
    judged = (live == 0) & (count >= need) & (snapshot.node_number.size > 0)
    if snapshot.gang_started is not None:
        judged &= ~snapshot.gang_started
    able = rows[pair[snapshot.job_queue[rows], snapshot.job_shape[rows]] & judged[gang[rows]]]
    able = able[np.lexsort([snapshot.job_shape[able], gang[able]])]
    first = np.searchsorted(gang[able], np.arange(need.size + 1))
    result[judged & (np.diff(first) < need)] = False
    asked = np.flatnonzero(judged & result)
    if not asked.size:
        return result
    judge = _GangJudge(snapshot, whole, shape_types, known_limit)
    shape = snapshot.job_shape[able]
    label = -1 if snapshot.gang_label is None else snapshot.gang_label[asked]
    queue = snapshot.job_queue[able[first[asked]]] if known_limit.size else 0
    low, high = shape[first[asked]], shape[first[asked + 1] - 1]
    keys = np.stack(np.broadcast_arrays(low, high, need[asked], label, queue), axis=1)
    alike, back = np.unique(keys, axis=0, return_inverse=True)
    back = back.reshape(-1)
    for k, (one, other, many, on, of_queue) in enumerate(alike.tolist()):
        gangs = asked[back == k]
        if one == other:
            shapes, counts = np.array([one]), np.array([many])
            result[gangs] = judge.fits(of_queue, many, on, shapes, counts)
            continue
        for g in gangs.tolist():
            shapes, counts = np.unique(shape[first[g] : first[g + 1]], return_counts=True)
            result[g] = judge.fits(of_queue, many, on, shapes, counts)
    return result


class _GangJudge(NamedTuple):
    """Judges gangs against the empty pool and the limits of queues."""

    snapshot: Snapshot
    whole: Int64
    shape_types: Byte
    known_limit: Float

    def fits(self, queue: int, need: int, label: int, shapes: IntP, counts: IntP) -> bool:
        """Whether `need` members, of `counts` per shape, fit on nodes of one label value."""
        snapshot = self.snapshot
        members = np.repeat(self.whole[shapes], counts, axis=0)
        beside = members[:, len(snapshot.resources) :]
        if (_least(beside, need) > snapshot.floating_total).any():
            return False
        if self.known_limit.size and not self._within(queue, need, shapes, counts):
            return False
        value, values = np.zeros(snapshot.node_number.size, np.int32), 1
        if label >= 0 and snapshot.node_label is not None:
            value = snapshot.node_label[label]
            values = int(value.max(initial=-1)) + 1
        eligible: Bool = self.shape_types[shapes].max(axis=1) > 0
        largest = snapshot.shape_request[shapes].max(axis=0)
        every = np.asarray(eligible.all(axis=0))
        nodes, types = snapshot.node_allocatable, snapshot.node_type
        if _has_capacity_for(largest, every, nodes, types, value, values, need):
            return True
        if shapes.size == 1:
            return False
        most = self._most(members, shapes, counts, eligible)
        placed = np.bincount(value[value >= 0], weights=most[value >= 0], minlength=max(values, 1))
        return bool(placed.max(initial=0) >= need)

    def _most(self, members: Int64, shapes: IntP, counts: IntP, eligible: Bool) -> Int64:
        """[N] a bound on how many of the members an empty node takes."""
        nodes, types = self.snapshot.node_allocatable, self.snapshot.node_type
        most = np.zeros(types.size, np.int64)
        for s, many, ok in zip(shapes.tolist(), counts.tolist(), eligible, strict=True):
            copies = _copies(self.snapshot.shape_request[s], nodes)
            most += np.minimum(many, copies) * ok[types]
        for r in range(nodes.shape[1]):
            together = np.cumsum(np.sort(members[:, r]), dtype=np.float64)
            most = np.minimum(most, np.searchsorted(together, nodes[:, r], side="right"))
        return most

    def _within(self, queue: int, need: int, shapes: IntP, counts: IntP) -> bool:
        """L2: per class, the least that `need` members must request."""
        of_class = np.repeat(self.snapshot.shape_class[shapes], counts)
        members = np.repeat(self.whole[shapes], counts, axis=0)
        for c in np.unique(of_class).tolist():
            mine = members[of_class == c]
            at_least = max(0, need - (members.shape[0] - mine.shape[0]))
            least = _least(mine, at_least)
            limit = self.known_limit[queue, c] * (1.0 + TOLERANCE)
            if ((least > limit) & (least > 0)).any():
                return False
        return True


def _least(members: Int64, need: int) -> Float:
    """[R+F] the least that `need` of the members must request."""
    result: Float = np.sort(members, axis=0)[:need].sum(axis=0, dtype=np.float64)
    return result


def _copies(request: Int64, allocatable: Int64) -> Int64:
    """[N] how many jobs of this request an empty node takes."""
    asked = request > 0
    if not asked.any():
        return np.full(allocatable.shape[0], np.iinfo(np.int32).max, np.int64)
    return np.asarray((allocatable[:, asked] // request[asked]).min(axis=1))


@kernel
def _has_capacity_for(
    request: Int64,
    eligible: Bool,
    allocatable: Int64,
    node_type: Int32,
    value: Int32,
    values: int,
    need: int,
) -> bool:
    """Whether `need` jobs of this request fit on the empty nodes of one value."""
    fitting = np.zeros(values, np.int64)
    for n in range(node_type.size):
        if value[n] < 0 or not eligible[node_type[n]]:
            continue
        copies = need
        for r in range(request.size):
            if request[r] > 0:
                copies = min(copies, allocatable[n, r] // request[r])
        fitting[value[n]] += copies
        if fitting[value[n]] >= need:
            return True
    return False
