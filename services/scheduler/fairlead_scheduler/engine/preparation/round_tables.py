"""The tables of a round's model in the same memory each time, of pools without gangs.

Most rounds place one job. Making the model's arrays, and writing their addresses down for the
kernels, took most of the time of such a round. Their sizes follow from the static part of the pool
(static_pool.py) and the numbers of jobs and levels, so they are retained with it, and each round
fills all of them again: nothing of one round is left in the next. Only one round of a pool runs at
a time. Large pools with preemption make new tables, because new memory that is not touched costs
nothing, and old memory has to be filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_scheduler.engine.compiler.decorators import (
    by_address,
    entry_point,
    pack_for_kernels,
    repack,
)
from fairlead_scheduler.engine.preparation.pool.prepared_pool import PreparedPool
from fairlead_scheduler.engine.snapshot import (
    Bool,
    Code,
    EngineSettings,
    Int32,
    Int64,
    Snapshot,
)
from fairlead_scheduler.engine.state import capacity_tree, empty_tables, round_state
from fairlead_scheduler.engine.state.round_model import (
    Entitlements,
    NodeCapacity,
    NodeTable,
    Placements,
    QueueOffers,
    QueueProgress,
    QueueUsage,
    RoundJobs,
    RoundModel,
    ShapeTable,
)

QUEUE_CORDONED: Final = int(Code.QUEUE_CORDONED)
NOTHING: Final = -1
UNBOUNDED: Final = np.iinfo(np.int64).max
"""No limit for a resource."""
_GROWTH: Final = 2
"""Arrays by job are made this many times as long as needed."""


class _Zeros:
    """Arrays in one block of memory that is filled with zeros at once."""

    def __init__(self, kind: type[np.int64 | np.uint8], size: int) -> None:
        self._block: npt.NDArray[Any] = np.zeros(size, kind)
        self._used = 0

    def take(self, *shape: int, view: type[np.generic] | None = None) -> npt.NDArray[Any]:
        """The next array of this shape, of the block's type or another of the same size."""
        size = int(np.prod(shape))
        part = self._block[self._used : self._used + size].reshape(shape)
        self._used += size
        assert self._used <= self._block.size, "the block was made large enough"
        return part if view is None else part.view(view)

    def clear(self) -> None:
        """Fill all arrays with zeros."""
        self._block.fill(0)


class _FilledTables:
    """Tables whose arrays have one value each, in one block of memory per type and value."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        """`tables`: new ones by field, without content."""
        self._sizes: dict[tuple[str, int | float], int] = {}
        for table in tables.values():
            self._add_sizes(table)
        self._blocks = {key: np.full(size, key[1], key[0]) for key, size in self._sizes.items()}
        self._used = dict.fromkeys(self._blocks, 0)
        self.tables = {field: self._move(table) for field, table in tables.items()}
        """The tables with arrays in the blocks."""

    def _add_sizes(self, table: Any) -> None:
        if isinstance(table, np.ndarray) and table.size:
            key = self._find_key(table)
            self._sizes[key] = self._sizes.get(key, 0) + table.size
        elif isinstance(table, tuple):
            for field in table:
                self._add_sizes(field)

    def _move(self, table: Any) -> Any:
        if isinstance(table, np.ndarray) and table.size:
            key = self._find_key(table)
            first = self._used[key]
            self._used[key] += table.size
            return self._blocks[key][first : first + table.size].reshape(table.shape)
        return table._make(map(self._move, table)) if hasattr(table, "_make") else table

    def _find_key(self, array: npt.NDArray[Any]) -> tuple[str, int | float]:
        value = array.flat[0].item()
        assert (array == value).all(), "new tables have no content"
        return array.dtype.char, value

    def clear(self) -> None:
        """Fill all arrays with their values."""
        for (_, value), block in self._blocks.items():
            block.fill(value)


class _LevelTables(NamedTuple):
    """The fields of `NodeCapacity` that only rounds with preemption read."""

    preemptible: Int64
    evicted: Int64
    runs_at_level: Int64


_BY_LEVEL: Final = "by_level"


class RoundTables:
    """The model of the last round of a pool, whose arrays the next one fills."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: EngineSettings,
        start: PreparedPool,
        levels: int,
        others: Mapping[str, Any],
        packed_others: Mapping[str, Any],
    ) -> None:
        """`levels`: 0 for rounds without preemption. `others`: by field the tables that only rounds
        with preemption read, each array with one value; without preemption they are not written.
        `packed_others`: the tables among them that are packed already.
        """
        jobs = snapshot.job_queue.size if levels else 0
        shapes = start.static.shapes
        queues, classes = len(snapshot.queue_names), snapshot.class_value.size
        kinds, amounts = shapes.request.shape[0], start.capacity.total.size
        nodes, resources = snapshot.node_number.size, shapes.request.shape[1]
        integers = 14 * queues + kinds + amounts + shapes.type_bits.size + round_state.COUNTERS
        self._integers = _Zeros(np.int64, integers)
        self._bytes = _Zeros(np.uint8, queues * kinds + 5 * queues)
        whole = self._integers.take
        size = 1 << max(nodes - 1, 0).bit_length()
        by_level = _LevelTables(
            preemptible=np.zeros((nodes if levels else 0, levels, resources), np.int64),
            evicted=np.zeros((nodes if levels else 0, levels, resources), np.int64),
            runs_at_level=np.zeros(levels, np.int64),
        )
        self._filled = _FilledTables({**others, _BY_LEVEL: by_level} if levels else {})
        made = {**others, **self._filled.tables}
        self._capacity = NodeCapacity(
            tree=np.zeros((2 * size, resources), np.int64),
            tree_types=np.zeros(2 * size, np.uint64),
            cursor=whole(*shapes.type_bits.shape),
            **made.pop(_BY_LEVEL, by_level)._asdict(),
        )
        self._usage = QueueUsage(
            held=np.zeros((queues, amounts), np.int64),
            counted=np.zeros((queues, amounts), np.int64),
            by_class=np.zeros((queues, classes, amounts), np.int64),
            started=whole(amounts),
            tokens=np.zeros(2 + queues),
            share_steps=whole(queues),
            evicted_runs=whole(queues),
        )
        self._progress = self._make_progress(queues, kinds)
        none = np.zeros(0, np.int32)
        self._placements = Placements(none, none, none, np.zeros(jobs + 1, np.int32))
        self._jobs = _make_jobs(jobs, queues)
        self._sources = _make_sources(snapshot, start)
        self._packed_sources = pack_for_kernels(self._sources)
        self._entitlements = make_entitlements(snapshot, settings, start)
        self._model = RoundModel(
            shapes=shapes,
            nodes=_make_node_table(start),
            jobs=self._jobs,
            entitlements=self._entitlements,
            capacity=self._capacity,
            usage=self._usage,
            progress=self._progress,
            offers=self._make_offers(queues),
            placements=self._placements,
            counters=whole(round_state.COUNTERS),
            **made,
        )
        known = {**packed_others, "shapes": start.static.packed_shapes}
        self._packed = pack_for_kernels(self._model, known)

    def _make_progress(self, queues: int, kinds: int) -> QueueProgress:
        whole, flags = self._integers.take, self._bytes.take
        return QueueProgress(
            skip_code=flags(queues, kinds),
            unfit_queues=whole(kinds),
            jobs_left=np.zeros((queues, kinds), np.int32),
            open_shapes=whole(queues),
            members_left=whole(queues),
            stop_code=flags(queues),
            examined=whole(queues),
            next_queued=np.zeros(queues, np.int64),
            next_within=np.zeros(queues, np.int64),
            handled=np.zeros(0, np.uint8),
            unfit=np.zeros((queues, 2), np.int64),
            next_evicted=whole(queues),
            next_member=whole(queues),
            members_end=whole(queues),
        )

    def _make_offers(self, queues: int) -> QueueOffers:
        whole, flags = self._integers.take, self._bytes.take
        return QueueOffers(
            kind=flags(queues),
            job=whole(queues),
            heap=whole(queues),
            class_value=whole(queues),
            over_budget=flags(queues, view=np.bool_),
            share=whole(queues, view=np.float64),
            size=whole(queues, view=np.float64),
            runs=flags(queues, view=np.bool_),
            replaces_first=flags(queues, view=np.bool_),
            fits_free_at=whole(queues),
        )

    def fill(
        self,
        snapshot: Snapshot,
        start: PreparedPool,
        shapes: ShapeTable,
        position: Int32,
        queued: Int32,
        first: Int64,
    ) -> tuple[RoundModel, RoundModel]:
        """The model of a round, and the same packed for kernels; both until the next call.

        `position`: [N] rows of nodes in the order of N3; `queued`: rows in the order of R3;
        `first`: [Q+1] where each queue begins in them.
        """
        self._integers.clear()
        self._bytes.clear()
        self._filled.clear()
        self._fill_jobs(snapshot, queued)
        fill_entitlements(self._entitlements, snapshot, start)
        usage, sources, progress = self._usage, self._sources, self._progress
        usage.by_class[...] = start.queues.held
        usage.tokens[0] = snapshot.tokens
        usage.tokens[1:-1] = np.inf if snapshot.queue_tokens is None else snapshot.queue_tokens
        usage.tokens[-1] = snapshot.preemption_tokens
        sources.usable[:] = start.usable
        sources.free[...] = start.free
        sources.position[:] = position
        sources.first[:] = first
        progress.jobs_left[...] = start.queued
        progress.skip_code[...] = start.static.first_codes
        self._renew_model(shapes)
        fill_nodes(self._packed, self._packed_sources)
        capacity_tree.fill_inner_nodes(self._capacity.tree, self._capacity.tree_types)
        fill_queues(self._packed, self._packed_sources)
        count_open_shapes(start.pairs, self._packed)
        return self._model, self._packed

    def _renew_model(self, shapes: ShapeTable) -> None:
        """Put tables into the model that are other objects than in the last round."""
        before = self._model
        if (
            before.shapes is not shapes
            or before.jobs is not self._jobs
            or before.progress is not self._progress
            or before.placements is not self._placements
        ):
            self._model = before._replace(
                shapes=shapes,
                jobs=self._jobs,
                progress=self._progress,
                placements=self._placements,
            )
            self._packed = repack(self._model, self._packed)

    def _fill_jobs(self, snapshot: Snapshot, queued: Int32) -> None:
        """The columns of jobs; new tables only where they are longer than the last ones."""
        jobs, size = snapshot.job_queue.size, queued.size
        if self._progress.handled.size < jobs:
            handled = np.empty(_GROWTH * jobs, np.uint8)
            self._progress = self._progress._replace(handled=handled)
        self._progress.handled[:jobs].fill(0)
        before = self._jobs
        if self._placements.job.size < size:
            job, node, away = (np.empty(_GROWTH * size, np.int32) for _ in range(3))
            self._placements = self._placements._replace(job=job, position=node, away=away)
            before = before._replace(order=np.empty(_GROWTH * size, np.int32))
        before.order[:size] = queued
        now = before._replace(
            shape=snapshot.job_shape,
            queue=snapshot.job_queue,
            priority=snapshot.job_priority,
            submission=snapshot.job_submission,
        )
        if not all(map(is_, now, self._jobs)):
            self._jobs = now


def _make_jobs(jobs: int, queues: int) -> RoundJobs:
    none, no_gang = np.zeros(0, np.int32), np.full(jobs, -1, np.int32)
    return RoundJobs(
        shape=none,
        queue=none,
        gang=no_gang,
        role=no_gang,
        priority=np.zeros(0, np.int64),
        submission=np.zeros(0, np.int64),
        order=none,
        order_end=np.zeros(queues, np.int64),
        avoided=empty_tables.avoided_nodes(0, 0),
        level_max=np.zeros(0, np.int64),
    )


def _make_node_table(start: PreparedPool) -> NodeTable:
    return NodeTable(
        node_type=np.zeros(start.usable.size, np.int64),
        number=np.zeros(start.usable.size, np.int64),
        waste_order=start.static.fit_order,
        value_first=np.zeros((0, 1), np.int64),
        value_positions=np.zeros((0, 0), np.int64),
    )


def _make_sources(snapshot: Snapshot, start: PreparedPool) -> FillSources:
    """What does not change while the static part of the pool is the same, and memory for the
    rest."""
    return FillSources(
        node_type=snapshot.node_type,
        node_number=snapshot.node_number,
        node_bits=start.static.node_bits,
        usable=np.zeros_like(start.usable),
        free=np.zeros_like(start.free),
        position=np.zeros(start.usable.size, np.int32),
        cordoned=snapshot.queue_cordoned,
        first=np.zeros(snapshot.queue_cordoned.size + 1, np.int64),
    )


def make_entitlements(
    snapshot: Snapshot, settings: EngineSettings, start: PreparedPool
) -> Entitlements:
    """A table for `fill_entitlements` to fill."""
    queues, capacity = len(snapshot.queue_names), start.capacity
    return Entitlements(
        cost_factor=np.zeros_like(capacity.factor),
        weight=snapshot.queue_weight,
        budget=np.zeros(queues),
        initial_share=np.zeros(queues),
        entitled_share=np.zeros(queues),
        class_limit=np.zeros_like(capacity.limit),
        round_limit=np.zeros_like(capacity.round_limit),
        floating_left=np.full(capacity.total.size, UNBOUNDED, np.int64),
        now_ms=np.zeros(1, np.int64),
        lookback=settings.lookback,
    )


def fill_entitlements(made: Entitlements, snapshot: Snapshot, start: PreparedPool) -> None:
    """Write what queues are entitled to when a round starts."""
    made.cost_factor[:] = start.capacity.factor
    made.budget[:], made.initial_share[:], made.entitled_share[:] = start.queues.per_weight
    made.class_limit[...] = start.capacity.limit
    made.round_limit[:] = start.capacity.round_limit
    if snapshot.floating:  # L7; there is no such limit for resources of nodes
        nodes = len(snapshot.resources)
        made.floating_left[nodes:] = snapshot.floating_total - start.beside[nodes:]
    made.now_ms[0] = snapshot.now_ms


@by_address
class FillSources(NamedTuple):
    """What `fill_nodes` and `fill_queues` copy into a model."""

    node_type: Int32
    """[N]"""
    node_number: Int64
    """[N]"""
    node_bits: capacity_tree.Bits
    """[N]"""
    usable: Bool
    """[N]"""
    free: Int64
    """[N, R]"""
    position: Int32
    """[N] rows of nodes in the order of N3"""
    cordoned: Bool
    """[Q]"""
    first: Int64
    """[Q+1] where each queue begins in the order of queued jobs"""


@entry_point
def fill_nodes(model: RoundModel, sources: FillSources) -> None:
    """Write the table of nodes and the leaves of their tree, in the order of N3."""
    size = model.capacity.tree_types.size // 2
    for p in range(sources.position.size):
        n = sources.position[p]
        model.nodes.node_type[p] = sources.node_type[n]
        model.nodes.number[p] = sources.node_number[n]
        bits = sources.node_bits[n] if sources.usable[n] else np.uint64(0)
        model.capacity.tree_types[size + p] = bits
        for r in range(sources.free.shape[1]):
            model.capacity.tree[size + p, r] = sources.free[n, r]


@entry_point
def fill_queues(model: RoundModel, sources: FillSources) -> None:
    """Write what queues hold, and the order of their jobs. The other columns of these tables are
    zeros."""
    usage, progress = model.usage, model.progress
    for q in range(sources.cordoned.size):
        for r in range(usage.held.shape[1]):
            usage.held[q, r] = 0
            for c in range(usage.by_class.shape[1]):
                usage.held[q, r] += usage.by_class[q, c, r]
            usage.counted[q, r] = usage.held[q, r]
        if sources.cordoned[q]:
            progress.stop_code[q] = QUEUE_CORDONED
        progress.next_queued[q] = sources.first[q]
        progress.next_within[q] = sources.first[q]
        progress.unfit[q, 0] = NOTHING
        progress.unfit[q, 1] = NOTHING
        model.jobs.order_end[q] = sources.first[q if sources.cordoned[q] else q + 1]


@entry_point
def count_open_shapes(pairs: Int64, model: RoundModel) -> None:
    """Count the pairs of each queue that are open: with jobs left, and not skipped. `pairs`: as
    in `PreparedPool`; the counts are zeros before."""
    progress = model.progress
    for p in range(pairs.shape[0]):
        q = pairs[p, 0]
        s = pairs[p, 1]
        if progress.jobs_left[q, s] > 0 and progress.skip_code[q, s] == 0:
            progress.open_shapes[q] += 1
