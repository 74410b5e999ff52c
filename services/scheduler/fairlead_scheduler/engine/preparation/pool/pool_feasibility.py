"""Judges what could run in the pool if it were empty, within the limits of queues (section 6).

Cordons, staleness and load are ignored: all known nodes of the pool count. In a pool without known
nodes nothing is refused, because it is not known what it will have.

A gang is refused only if it certainly can never run. For members of one shape this is exact; for
members of several shapes it follows from an upper bound on the members that fit on each node. Most
gangs would fit even if every member needed as much as the largest one. Only the others are examined
with that bound, at most `EXAMINED_KINDS_MAX` kinds of them in a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import by_address, entry_point, inlined
from fairlead_scheduler.engine.round_clock import RoundClock, TimeLimitReachedError
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Byte,
    EngineSettings,
    Float,
    Int32,
    Int64,
    Match,
    Snapshot,
)
from fairlead_scheduler.engine.state.round_state import TOLERANCE
from fairlead_scheduler.engine.state.surplus import find_surplus
from fairlead_scheduler.engine.topology import TopologyMode

IntP = npt.NDArray[np.intp]

EXAMINED_KINDS_MAX: Final = 128
"""The most kinds of gangs that are examined exactly in a round, the earliest submitted first.
Further ones are not refused."""
_ELIGIBLE_TYPE: Final = int(Match.ELIGIBLE)

# The progress of `_find_nodes_for_kinds`, by index.
NEXT_KIND: Final = 0
NEXT_NODE: Final = 1
FAILED_KINDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feasibility:
    """What could run in the empty pool: see the module."""

    shape: Bool
    """[S] whether a node is eligible, and the pool has enough floating resources."""
    pair: Bool
    """[Q, S] whether `shape` holds, and a job of the shape is within the limits of the queue."""
    gang: Bool
    """[G] whether its `minSize` members fit together. True for gangs that are not judged, because
    they run already or are not complete."""


def judge_shapes(
    snapshot: Snapshot, full_request: Int64, known_limit: Float, clock: RoundClock
) -> tuple[Bool, Bool]:
    """`Feasibility.shape` and `Feasibility.pair`.

    Shapes that are not reached when time is up (L6) are not refused.
    """
    nodes = snapshot.node_type.size
    shape = np.ones(full_request.shape[0], np.bool_)
    for part in clock.slice_pairs(full_request.shape[0] if nodes else 0, nodes):
        _find_eligible_shapes(
            snapshot.shape_request[part],
            snapshot.shape_match[part],
            snapshot.node_allocatable,
            snapshot.node_type,
            shape[part],
        )
    beside = full_request[:, len(snapshot.resources) :]
    shape &= (beside <= snapshot.floating_total).all(axis=1)
    pair = np.repeat(shape[None, :], len(snapshot.queue_names), axis=0)
    if known_limit.size and snapshot.node_number.size:
        most = known_limit[:, snapshot.shape_class, :] * (1.0 + TOLERANCE)
        pair &= ((full_request <= most) | (full_request == 0)).all(axis=2)
    return shape, pair


@inlined
def is_type_eligible(match: Byte, s: int, node_type: int) -> bool:
    """Whether nodes of the type are eligible for the shape, at home or away."""
    for w in range(match.shape[1]):  # noqa: SIM110 - kernels have no generators
        if match[s, w, node_type] == _ELIGIBLE_TYPE:
            return True
    return False


@entry_point
def _find_eligible_shapes(
    request: Int64, match: Byte, allocatable: Int64, node_type: Int32, result: Bool
) -> None:
    """Write to `result` ([S]) whether any known node is eligible for the shape, at home or away."""
    for s in range(request.shape[0]):
        result[s] = False
        for n in range(allocatable.shape[0]):
            fits = is_type_eligible(match, s, node_type[n])
            if fits:
                for r in range(request.shape[1]):
                    if request[s, r] > allocatable[n, r]:
                        fits = False
            if fits:
                result[s] = True
                break


def judge_gangs(
    snapshot: Snapshot,
    full_request: Int64,
    known_limit: Float,
    pair: Bool,
    clock: RoundClock,
    settings: EngineSettings,
) -> Bool:
    """`Feasibility.gang`. Gangs that are not reached when time is up (L6) are not refused."""
    gang, need = snapshot.job_gang, snapshot.gang_min
    if gang is None or need is None or not need.size:
        return np.ones(0 if need is None else need.size, np.bool_)
    result = np.ones(need.size, np.bool_)
    live = np.bincount(gang[(gang >= 0) & (snapshot.job_node >= 0)], minlength=need.size)
    rows = np.flatnonzero((gang >= 0) & (snapshot.job_node == -1))
    if snapshot.job_role is not None:
        rows = rows[~find_surplus(snapshot.job_priority[rows])]
    count = np.bincount(gang[rows], minlength=need.size)
    judged = (live == 0) & (need > 0) & (count >= need) & (snapshot.node_number.size > 0)
    if snapshot.gang_started is not None:
        judged &= ~snapshot.gang_started
    able = rows[pair[snapshot.job_queue[rows], snapshot.job_shape[rows]] & judged[gang[rows]]]
    try:
        able = able[clock.sort_rows([snapshot.job_shape[able], gang[able]])]
    except TimeLimitReachedError:
        return result
    first = np.searchsorted(gang[able], np.arange(need.size + 1))
    result[judged & (np.diff(first) < need)] = False
    gangs = np.flatnonzero(judged & result)
    if not gangs.size or clock.check():
        return result
    able = able[result[gang[able]]]
    first = np.searchsorted(gang[able], gangs)
    kinds, kind_of_gang, chosen = _group_gangs(
        snapshot, gangs, able, first, clock, settings.offers_per_check
    )
    largest = np.maximum.reduceat(full_request[snapshot.job_shape[able]], first, axis=0)[chosen]
    fits = _fit_as_largest(snapshot, largest, known_limit, kinds, clock, settings.pairs_per_check)
    judge = _GangJudge(snapshot, full_request, known_limit)
    for k in np.flatnonzero(~fits)[:EXAMINED_KINDS_MAX].tolist():
        if clock.check():
            return result
        shapes, counts = np.unique(kinds.shape[kinds.first[k] : kinds.end[k]], return_counts=True)
        queue, label = int(kinds.queue[k]), int(kinds.label[k])
        fits[k] = judge.fits(queue, int(kinds.need[k]), label, shapes.astype(np.intp), counts)
    fits[np.flatnonzero(~fits)[EXAMINED_KINDS_MAX:]] = True
    result[gangs] = fits[kind_of_gang]
    return result


@by_address
class _GangKinds(NamedTuple):
    """Kinds of gangs: gangs of one kind are equal in everything that decides whether they fit. The
    kind of the gang that was submitted first comes first."""

    shape: Int32
    """shapes of members, kind by kind, ascending within a kind"""
    first: Int64
    """[K] where the members of each kind begin in `shape`"""
    end: Int64
    """[K] where they end"""
    need: Int64
    """[K]"""
    label: Int64
    """[K] or -1"""
    queue: Int64
    """[K]"""


def _group_gangs(
    snapshot: Snapshot, gangs: IntP, able: IntP, first: IntP, clock: RoundClock, per_check: int
) -> tuple[_GangKinds, IntP, list[int]]:
    """The kinds of these gangs, the kind of each gang, and one gang of each kind.

    The members of gang i are `able` from first[i] on. Gangs that are not reached when time is up
    (L6) count as gangs of the first kind.
    """
    assert snapshot.gang_min is not None, "a snapshot with gangs has all their columns"
    end = np.append(first[1:], able.size)
    shape = snapshot.job_shape[able]
    need = snapshot.gang_min[gangs]
    label = _find_labels(snapshot)[gangs]
    queue = snapshot.job_queue[able[first]]
    has_one_shape = shape[first] == shape[end - 1]
    order = np.argsort(np.minimum.reduceat(snapshot.job_submission[able], first), kind="stable")
    kind_of_gang = np.zeros(gangs.size, np.intp)
    chosen: list[int] = []
    known: dict[object, int] = {}
    columns = (order, need[order], label[order], queue[order], first[order], end[order])
    listed = zip(*(column.tolist() for column in (*columns, has_one_shape[order])), strict=True)
    for count, (i, of_need, of_label, of_queue, begin, stop, same) in enumerate(listed):
        if count % per_check == per_check - 1 and clock.check():
            break
        members: object = int(shape[begin]) if same else shape[begin:stop].tobytes()
        kind = known.setdefault((of_need, of_label, of_queue, members), len(chosen))
        if kind == len(chosen):
            chosen.append(i)
        kind_of_gang[i] = kind
    kinds = _GangKinds(
        shape=shape,
        first=first[chosen].astype(np.int64),
        end=end[chosen].astype(np.int64),
        need=need[chosen].astype(np.int64),
        label=label[chosen].astype(np.int64),
        queue=queue[chosen].astype(np.int64),
    )
    return kinds, kind_of_gang, chosen


def _find_labels(snapshot: Snapshot) -> Int32:
    """[G] the label that must have one value on the nodes of all members that a gang needs; -1 for
    none.

    It is not checked whether each scope of a gang with several scopes fits in a domain (T2).
    """
    assert snapshot.gang_min is not None, "a snapshot with gangs has all their columns"
    gangs, topology = snapshot.gang_min.size, snapshot.topology
    label = np.full(gangs, -1, np.int32) if snapshot.gang_label is None else snapshot.gang_label
    if topology is None or not topology.label.size:
        return label
    scopes = np.ones(gangs, np.int64)
    if snapshot.role_gang is not None and snapshot.role_min is not None:
        needed = (snapshot.role_gang >= 0) & (snapshot.role_min > 0)
        scopes = np.bincount(snapshot.role_gang[needed], minlength=gangs)
    level = topology.gang_level
    one = (topology.gang_mode == TopologyMode.REQUIRED) & (level >= 0)
    one &= (topology.gang_whole != 0) | (scopes <= 1)
    return np.where(one, topology.label[np.maximum(level, 0)], label).astype(np.int32)


def _fit_as_largest(
    snapshot: Snapshot,
    largest: Int64,
    known_limit: Float,
    kinds: _GangKinds,
    clock: RoundClock,
    pairs: int,
) -> Bool:
    """[K] whether a kind would fit even if each member needed the most of each resource that any
    member needs (`largest`, [K, R+F])."""
    together = largest.astype(np.float64) * kinds.need[:, None]
    within = (together[:, len(snapshot.resources) :] <= snapshot.floating_total).all(axis=1)
    if known_limit.size:
        limit = known_limit[kinds.queue].min(axis=1)
        within &= ((together <= limit) | (together == 0)).all(axis=1)
    label = snapshot.node_label
    if label is None:
        label = np.zeros((0, snapshot.node_number.size), np.int32)
    fits = np.ones(within.size, np.bool_)
    pool = _EmptyNodes(
        largest=largest,
        match=snapshot.shape_match,
        allocatable=snapshot.node_allocatable,
        node_type=snapshot.node_type,
        node_label=label,
        fitting=np.zeros(int(label.max(initial=0)) + 1, np.int64),
    )
    progress = np.zeros(3, np.int64)
    while progress[NEXT_KIND] < within.size and not clock.check():
        _find_nodes_for_kinds(kinds, pool, fits, progress, pairs)
    return np.asarray(fits & within)


@by_address
class _EmptyNodes(NamedTuple):
    """The nodes without their runs, and what members of each kind request of them."""

    largest: Int64
    """[K, R+F] see `_fit_as_largest`"""
    match: Byte
    """[S, 1+K, T] `Snapshot.shape_match`"""
    allocatable: Int64
    """[N, R]"""
    node_type: Int32
    """[N]"""
    node_label: Int32
    """[U, N]"""
    fitting: Int64
    """the number of members that fit, by label value, for the current kind"""


@entry_point
def _find_nodes_for_kinds(
    kinds: _GangKinds, pool: _EmptyNodes, fits: Bool, progress: Int64, pairs: int
) -> None:
    """Write to `fits` ([K]) whether the nodes of one label value have capacity for as many of the
    largest request as the kind needs.

    It continues with the kind and the node that `progress` names, and returns after `pairs` pairs
    of a kind and a node. After `EXAMINED_KINDS_MAX` kinds that do not fit, no further kinds are
    examined.
    """
    resources = pool.allocatable.shape[1]
    nodes = pool.node_type.size
    n = progress[NEXT_NODE]
    left = pairs
    for k in range(progress[NEXT_KIND], kinds.need.size):
        if left <= 0:
            break
        progress[NEXT_KIND] = k + 1
        fits[k] = False
        if progress[FAILED_KINDS] == EXAMINED_KINDS_MAX:
            continue
        label = kinds.label[k] if kinds.label[k] < pool.node_label.shape[0] else -1
        need = kinds.need[k]
        for value in range(pool.fitting.size):
            pool.fitting[value] = 0
        last_type = -1
        eligible = False
        for _ in range(nodes):
            left -= 1
            value = 0 if label < 0 else pool.node_label[label, n]
            copies = need if value >= 0 else 0
            for r in range(resources):
                if pool.largest[k, r] > pool.allocatable[n, r]:
                    copies = 0
                elif pool.largest[k, r] > 0 and copies > 0:
                    copies = min(copies, pool.allocatable[n, r] // pool.largest[k, r])
            if copies > 0:
                if pool.node_type[n] != last_type:
                    last_type = pool.node_type[n]
                    eligible = True
                    for i in range(kinds.first[k], kinds.end[k]):
                        same = i > kinds.first[k] and kinds.shape[i] == kinds.shape[i - 1]
                        if not same and not is_type_eligible(pool.match, kinds.shape[i], last_type):
                            eligible = False
                if eligible:
                    pool.fitting[value] += copies
                    if pool.fitting[value] >= need:
                        fits[k] = True
                        break
            n = n + 1 if n + 1 < nodes else 0
        if not fits[k]:
            progress[FAILED_KINDS] += 1
    progress[NEXT_NODE] = n


class _GangJudge(NamedTuple):
    """Judges single gangs against the empty pool and the limits of queues."""

    snapshot: Snapshot
    full_request: Int64
    known_limit: Float

    def fits(self, queue: int, need: int, label: int, shapes: IntP, counts: IntP) -> bool:
        """Whether `need` members, of `counts` per shape, fit on nodes of one label value."""
        snapshot = self.snapshot
        members = np.repeat(self.full_request[shapes], counts, axis=0)
        beside = members[:, len(snapshot.resources) :]
        if (_sum_least(beside, need) > snapshot.floating_total).any():
            return False
        if self.known_limit.size and not self._is_within_limits(queue, need, shapes, counts):
            return False
        value, values = np.zeros(snapshot.node_number.size, np.int32), 1
        if label >= 0 and snapshot.node_label is not None:
            value = snapshot.node_label[label]
            values = int(value.max(initial=-1)) + 1
        eligible: Bool = (snapshot.shape_match[shapes] == Match.ELIGIBLE).any(axis=1)
        largest = snapshot.shape_request[shapes].max(axis=0)
        every = np.asarray(eligible.all(axis=0))
        types = snapshot.node_type
        copies = np.minimum(_count_copies(largest, snapshot.node_allocatable), need) * every[types]
        if _find_most_on_value(copies, value, values) >= need:
            return True
        if shapes.size == 1:
            return False
        most = self._bound_members(members, shapes, counts, eligible)
        return _find_most_on_value(most, value, values) >= need

    def _bound_members(self, members: Int64, shapes: IntP, counts: IntP, eligible: Bool) -> Int64:
        """[N] an upper bound on the members that fit on an empty node."""
        nodes, types = self.snapshot.node_allocatable, self.snapshot.node_type
        most = np.zeros(types.size, np.int64)
        for s, many, ok in zip(shapes.tolist(), counts.tolist(), eligible, strict=True):
            copies = _count_copies(self.snapshot.shape_request[s], nodes)
            most += np.minimum(many, copies) * ok[types]
        for r in range(nodes.shape[1]):
            together = np.cumsum(np.sort(members[:, r]), dtype=np.float64)
            most = np.minimum(most, np.searchsorted(together, nodes[:, r], side="right"))
        return most

    def _is_within_limits(self, queue: int, need: int, shapes: IntP, counts: IntP) -> bool:
        """Whether the least that any `need` members request is within L2, for each class."""
        of_class = np.repeat(self.snapshot.shape_class[shapes], counts)
        members = np.repeat(self.full_request[shapes], counts, axis=0)
        for c in np.unique(of_class).tolist():
            mine = members[of_class == c]
            at_least = max(0, need - (members.shape[0] - mine.shape[0]))
            least = _sum_least(mine, at_least)
            limit = self.known_limit[queue, c] * (1.0 + TOLERANCE)
            if ((least > limit) & (least > 0)).any():
                return False
        return True


def _find_most_on_value(count: Int64, value: Int32, values: int) -> int:
    """The greatest sum of `count` ([N]) over the nodes of one value."""
    has = value >= 0
    return int(np.bincount(value[has], weights=count[has], minlength=max(values, 1)).max())


def _sum_least(members: Int64, need: int) -> Float:
    """[R+F] the least that `need` of the members must request."""
    result: Float = np.sort(members, axis=0)[:need].sum(axis=0, dtype=np.float64)
    return result


def _count_copies(request: Int64, allocatable: Int64) -> Int64:
    """[N] the number of jobs with this request that fit on an empty node."""
    asked = request > 0
    if not asked.any():
        return np.full(allocatable.shape[0], np.iinfo(np.int32).max, np.int64)
    return np.asarray((allocatable[:, asked] // request[asked]).min(axis=1))
