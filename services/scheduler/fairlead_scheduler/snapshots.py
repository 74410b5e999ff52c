"""The one snapshot builder: view, clusters and queues in, the engine's arrays out. Pure.

The live cycle, the worked cases and simulations all use it. What depends on nodes only is kept
from one snapshot to the next and made anew when the clusters changed.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead_common import clusters as cluster_records
from fairlead_common import resources
from fairlead_common.classes import Preemption, PriorityClass
from fairlead_common.lifecycle import RunState
from fairlead_common.shapes import Shape
from fairlead_scheduler.buckets import Buckets
from fairlead_scheduler.clusters import Clusters
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, matching
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.queues import Queues
from fairlead_scheduler.settings import Rules
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view.columns import NodeName, View

Rows = npt.NDArray[np.intp]

_PREEMPTION: Final = {
    Preemption.ANY: engine.Preemption.ANY,
    Preemption.URGENCY: engine.Preemption.URGENCY,
    Preemption.NONE: engine.Preemption.NONE,
}


class Built(NamedTuple):
    """A snapshot and what its rows stand for in the view and the clusters."""

    snapshot: Snapshot
    rows: Rows
    """[J] row of the job in the view's columns."""
    nodes: list[NodeName]
    """[N]"""
    shapes: list[int]
    """[S] number of the shape in the view."""
    gangs: list[c.GangName]
    """[G]"""


class _Nodes(NamedTuple):
    """The part of a snapshot that depends on the clusters only."""

    key: object
    names: list[NodeName]
    nodes: list[cluster_records.Node]
    resources: tuple[str, ...]
    number: npt.NDArray[np.int64]
    cordoned: npt.NDArray[np.bool_]


def pools(view: View, clusters: Clusters) -> list[str]:
    """Names of all pools that have nodes or were named by a job, in ascending order."""
    return sorted({node.pool for node in clusters.nodes.values()} | set(view.jobs.pools.values))


class Builder:
    """Builds the snapshots of one scheduler; keeps between them what did not change."""

    def __init__(self, classes: Sequence[PriorityClass], rules: Rules) -> None:
        self.classes = sorted(classes, key=lambda item: item.name)
        self.rules = rules
        self._class_row = {item.name: row for row, item in enumerate(self.classes)}
        self._nodes: dict[str, _Nodes] = {}
        self._types: dict[str, tuple[object, npt.NDArray[np.int32], npt.NDArray[np.uint8]]] = {}
        self.kept_before_ms = 0
        """Jobs submitted before were examined by an earlier leader: they are never rejected."""
        self.feasible_once: set[tuple[str, int]] = set()
        """(pool, shape) that was found feasible: such jobs are not rejected later (section 6)."""
        self.gangs_fitted: dict[str, set[c.GangName]] = {}
        """Gangs of each pool that were found feasible, of those that are still there."""

    def engine_settings(self) -> EngineSettings:
        """The rules as the engine takes them."""
        rules = self.rules
        assert rules.placement in ("best-fit", "spread", "pack", "fragmentation")
        return EngineSettings(
            protected_fraction=rules.protected_fraction_of_fair_share,
            round_limit=rules.round_limit,
            cost_multipliers=rules.cost_multipliers,
            lookback=rules.lookback,
            placement=rules.placement,  # type: ignore[arg-type]
            gang_assembly_timeout_ms=1000 * rules.gang_assembly_timeout_s,
        )

    def build(
        self,
        view: View,
        clusters: Clusters,
        queues: Queues,
        pool: str,
        *,
        now_ms: int,
        stale: frozenset[str] = frozenset(),
        buckets: Buckets | None = None,
        left_out: npt.NDArray[np.bool_] | None = None,
    ) -> Built:
        """The snapshot of a pool. `left_out` marks rows of jobs about which others decide now."""
        jobs = view.jobs
        nodes = self._pool_nodes(clusters, pool)
        rows, node_of = self._job_rows(view, nodes, pool, now_ms, left_out)
        queued = node_of < 0
        queue_names, queue_of = _queues(view, rows)
        shape_numbers, shape_of = np.unique(jobs.shape[rows], return_inverse=True)
        shape_list = [int(number) for number in shape_numbers]
        shapes = [jobs.shape_of(number) for number in shape_list]
        floating = tuple(sorted(self.rules.floating))
        names = _resource_names(nodes.resources, shapes, floating)
        types, table = self._matches(nodes, jobs, pool, shape_list)
        gangs = _gangs(view, rows, queue_names)
        label_names, gang_label = _gang_labels(view, gangs.names)
        avoid_job, avoid_node = _avoided(view, rows, nodes)
        fractions, amounts = self._limits(queues, queue_names, (*names, *floating))
        own = buckets or Buckets(Rules())
        snapshot = Snapshot(
            pool=pool,
            now_ms=now_ms,
            resources=names,
            floating=floating,
            floating_total=np.array([int(self.rules.floating[f]) for f in floating], np.int64),
            queue_names=queue_names,
            queue_weight=np.array([queues.get(name).weight for name in queue_names]),
            queue_cordoned=np.array([queues.get(n).cordoned for n in queue_names], np.bool_),
            queue_limit_fraction=fractions,
            queue_limit_amount=amounts,
            queue_tokens=np.array([own.queue(name).tokens(now_ms) for name in queue_names]),
            queue_burst=own.queue("").burst,
            tokens=own.all.tokens(now_ms),
            burst=own.all.burst,
            preemption_tokens=own.preemptions.tokens(now_ms),
            class_names=tuple(item.name for item in self.classes),
            class_value=np.array([item.value for item in self.classes], np.int64),
            class_preemption=np.array(
                [_PREEMPTION[item.preemption] for item in self.classes], np.uint8
            ),
            class_away_value=self._away_values(),
            shape_request=_amounts(shapes, names),
            shape_floating=_amounts(shapes, floating),
            shape_class=np.array(
                [self._class_of(jobs.shapes.values[n].priority_class) for n in shape_list],
                np.int32,
            ),
            shape_match=table,
            node_number=nodes.number,
            node_allocatable=_allocatable(nodes.nodes, names),
            node_type=types,
            node_flags=self._flags(view, nodes, stale),
            label_names=label_names,
            node_label=_node_labels(nodes.nodes, label_names),
            job_queue=queue_of,
            job_shape=shape_of.astype(np.int32).reshape(-1),
            job_priority=jobs.priority[rows],
            job_submission=jobs.number[rows],
            job_node=node_of,
            job_started_ms=jobs.leased_ms[rows],
            job_value=np.where(queued, 0, jobs.value[rows]),
            job_checkpoint_interval_ms=jobs.checkpoint_ms[rows],
            job_flags=self._job_flags(view, rows, pool, nodes),
            job_max_runtime_ms=jobs.runtime_ms_max[rows],
            avoid_job=avoid_job,
            avoid_node=avoid_node,
            job_gang=gangs.of_job,
            gang_queue=gangs.queue,
            gang_size=gangs.size,
            gang_min=gangs.min_size,
            gang_label=gang_label,
            gang_rest=gangs.rest,
            gang_started=gangs.started,
            gang_submitted_ms=gangs.submitted_ms,
            gang_fitted=self._fitted(pool, gangs.names) if gangs.names else None,
        )
        return Built(snapshot, rows, nodes.names, shape_list, gangs.names)

    def remember_feasible(self, built: Built, plan: Plan) -> None:
        """What the engine found feasible is not rejected later."""
        pool = built.snapshot.pool
        self.feasible_once.update(
            (pool, number)
            for number, ok in zip(built.shapes, plan.shape_feasible.tolist(), strict=True)
            if ok
        )
        before = self.gangs_fitted.get(pool, set())
        self.gangs_fitted[pool] = {
            name
            for name, ok in zip(built.gangs, plan.gang_feasible.tolist(), strict=True)
            if ok or name in before
        }

    def _fitted(self, pool: str, gangs: Sequence[c.GangName]) -> npt.NDArray[np.bool_]:
        fitted = self.gangs_fitted.get(pool, set())
        return np.array([name in fitted for name in gangs], np.bool_)

    def _class_of(self, name: str) -> int:
        row = self._class_row.get(name)
        if row is None:
            row = self._class_row[name] = len(self.classes)
            self.classes.append(PriorityClass(name=name, value=0))
        return row

    def _pool_nodes(self, clusters: Clusters, pool: str) -> _Nodes:
        kept = self._nodes.get(pool)
        if kept is not None and kept.key == clusters.version:
            return kept
        chosen = [(clusters.numbers[n], n) for n, x in clusters.nodes.items() if x.pool == pool]
        chosen.sort()
        nodes = [clusters.nodes[name] for _, name in chosen]
        found = {resource for node in nodes for resource in node.allocatable}
        made = _Nodes(
            key=clusters.version,
            names=[name for _, name in chosen],
            nodes=nodes,
            resources=tuple(found),
            number=np.array([number for number, _ in chosen], np.int64),
            cordoned=np.array([clusters.is_cordoned(node) for node in nodes], np.bool_),
        )
        self._nodes[pool] = made
        return made

    def _job_rows(
        self,
        view: View,
        nodes: _Nodes,
        pool: str,
        now_ms: int,
        left_out: npt.NDArray[np.bool_] | None,
    ) -> tuple[Rows, npt.NDArray[np.int32]]:
        """Rows of the jobs that may start now or whose run holds room, and the node's row or -1."""
        jobs = view.jobs
        span = slice(0, jobs.used)
        here = jobs.pools.find(pool)
        flags = jobs.flags[span]
        mine = (flags & c.FREE) == 0
        mine &= jobs.pool[span] == (-1 if here is None else here)
        queued = mine & (jobs.state[span] == c.QUEUED) & ((flags & c.NOT_BEFORE_LONG) == 0)
        queued &= jobs.start_after_ms[span] <= now_ms
        if left_out is not None:
            queued &= ~left_out[span]
        live = mine & c.IS_LIVE_RUN[jobs.run_state[span]] & ((flags & c.ROOM_GIVEN) == 0)
        node_row = _node_rows(view, nodes)
        node_of = np.where(live, node_row[np.where(live, jobs.node[span], 0)], np.int32(-1))
        rows = np.flatnonzero(queued | (live & (node_of >= 0)))
        return rows, node_of[rows].astype(np.int32)

    def _matches(
        self, nodes: _Nodes, jobs: c.Columns, pool: str, shape_numbers: list[int]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
        key = (nodes.key, tuple(shape_numbers))
        kept = self._types.get(pool)
        if kept is not None and kept[0] == key:
            return kept[1], kept[2]
        rules = [
            self._shape_rules(jobs.shape_of(n), jobs.shapes.values[n].priority_class)
            for n in shape_numbers
        ]
        relevant = matching.relevant_labels(rules)
        numbers: dict[matching.NodeType, int] = {}
        types = np.zeros(len(nodes.nodes), np.int32)
        for row, node in enumerate(nodes.nodes):
            taints = [matching.Taint(t.key, t.value, t.effect) for t in node.taints]
            kind = matching.reduce(node.name, node.labels, taints, relevant)
            types[row] = numbers.setdefault(kind, len(numbers))
        table = matching.table(rules, list(numbers))
        self._types[pool] = (key, types, table)
        return types, table

    def _shape_rules(self, shape: Shape, class_name: str) -> matching.ShapeRules:
        away = self.classes[self._class_of(class_name)].away_node_types
        return matching.ShapeRules(
            node_selector=tuple(sorted(shape.node_selector.items())),
            affinity=tuple(
                matching.Term(
                    tuple(
                        matching.Requirement(r.key, r.operator, r.values)
                        for r in term.match_expressions
                    ),
                    tuple(
                        matching.Requirement(r.key, r.operator, r.values) for r in term.match_fields
                    ),
                )
                for term in shape.affinity
            )
            or None,
            tolerations=tuple(
                matching.Toleration(t.key, t.operator, t.value, t.effect) for t in shape.tolerations
            ),
            away=tuple(
                tuple(matching.Taint(t.key, t.value, t.effect) for t in entry.taints)
                for entry in away
            ),
        )

    def _away_values(self) -> npt.NDArray[np.int64] | None:
        width = max((len(item.away_node_types) for item in self.classes), default=0)
        if width == 0:
            return None
        values = np.full((len(self.classes), width), engine.NO_AWAY, np.int64)
        for row, item in enumerate(self.classes):
            values[row, : len(item.away_node_types)] = [a.value for a in item.away_node_types]
        return values

    def _limits(
        self, queues: Queues, names: tuple[str, ...], resource_names: tuple[str, ...]
    ) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.float64] | None]:
        """L2: [Q, C, R+F] fractions and amounts, None where nobody set any."""
        shape = (len(names), len(self.classes), len(resource_names))
        column = {resource: at for at, resource in enumerate(resource_names)}
        fractions, amounts = np.full(shape, np.inf), np.full(shape, np.inf)
        general = {item.name: item.limits for item in self.classes if item.limits}
        for class_name, limits in (general | self.rules.class_limits).items():
            for resource, fraction in limits.items():
                if resource in column and class_name in self._class_row:
                    fractions[:, self._class_row[class_name], column[resource]] = fraction
        for at, name in enumerate(names):
            for class_name, limits_of in queues.get(name).limits.items():
                for resource, limit in limits_of.items():
                    if resource not in column or class_name not in self._class_row:
                        continue
                    place = (at, self._class_row[class_name], column[resource])
                    if isinstance(limit, str):
                        amounts[place] = resources.parse(resource, limit, round_up=False)
                    else:
                        fractions[place] = min(fractions[place], limit)
        return (
            fractions if np.isfinite(fractions).any() else None,
            amounts if np.isfinite(amounts).any() else None,
        )

    def _flags(self, view: View, nodes: _Nodes, stale: frozenset[str]) -> npt.NDArray[np.uint8]:
        flags = np.where(nodes.cordoned, np.uint8(engine.NodeFlag.CORDONED), np.uint8(0))
        lagging = _lagging(view, self.rules.max_unacknowledged_leases)
        for row, name in enumerate(nodes.names) if stale or lagging else ():
            if name.executor in stale:
                flags[row] |= engine.NodeFlag.LOST
            if name.executor in lagging:
                flags[row] |= engine.NodeFlag.LAGGING
        return flags

    def _job_flags(self, view: View, rows: Rows, pool: str, nodes: _Nodes) -> npt.NDArray[np.uint8]:
        jobs = view.jobs
        flags = jobs.flags[rows]
        stopping = (flags & c.STOPPING) != 0
        stopping |= c.IS_ENDED[jobs.state[rows]]
        kept = (flags & c.INFEASIBLE_WAITS) != 0
        kept |= jobs.submitted_ms[rows] < self.kept_before_ms
        known = np.zeros(len(jobs.shapes), np.bool_)
        known[[number for name, number in self.feasible_once if name == pool]] = True
        kept |= len(nodes.nodes) == 0
        result: npt.NDArray[np.uint8] = (
            stopping * np.uint8(engine.JobFlag.STOPPING)
            + kept * np.uint8(engine.JobFlag.KEPT)
            + known[jobs.shape[rows]] * np.uint8(engine.JobFlag.FITTED)
        ).astype(np.uint8)
        return result


def _node_rows(view: View, nodes: _Nodes) -> npt.NDArray[np.int32]:
    """number of a node's name in the view -> row in the snapshot, -1 where it is not here."""
    interned = view.jobs.nodes
    result = np.full(max(1, len(interned)), -1, np.int32)
    for row, name in enumerate(nodes.names):
        number = interned.find(name)
        if number is not None:
            result[number] = row
    return result


def _lagging(view: View, most: int) -> frozenset[str]:
    """L9: executors that have not taken up more than `most` leases."""
    jobs = view.jobs
    waiting = jobs.run_state[: jobs.used] == c.RUN_CODE[RunState.LEASED]
    waiting &= (jobs.flags[: jobs.used] & c.FREE) == 0
    counts: dict[str, int] = {}
    for number, count in zip(
        *np.unique(jobs.node[: jobs.used][waiting], return_counts=True), strict=True
    ):
        if number >= 0:
            executor = jobs.nodes.values[int(number)].executor
            counts[executor] = counts.get(executor, 0) + int(count)
    return frozenset(executor for executor, count in counts.items() if count > most)


def _queues(view: View, rows: Rows) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    used, inverse = np.unique(view.jobs.queue[rows], return_inverse=True)
    names = [view.jobs.queues.values[int(number)] for number in used]
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.zeros(len(names), np.int32)
    rank[order] = np.arange(len(names), dtype=np.int32)
    return tuple(names[at] for at in order), rank[inverse.reshape(-1)]


def _resource_names(
    of_nodes: tuple[str, ...], shapes: Sequence[Shape], floating: tuple[str, ...]
) -> tuple[str, ...]:
    """What nodes offer and what jobs ask of a node; what nobody offers is nobody's to give."""
    asked = {name for shape in shapes for name in shape.requests}
    return tuple(
        sorted((set(of_nodes) | asked | {resources.CPU, resources.MEMORY}) - set(floating))
    )


def _amounts(shapes: Sequence[Shape], names: tuple[str, ...]) -> npt.NDArray[np.int64]:
    amounts = [[shape.requests.get(name, 0) for name in names] for shape in shapes]
    return np.array(amounts, np.int64).reshape(len(shapes), len(names))


def _allocatable(
    nodes: Sequence[cluster_records.Node], names: tuple[str, ...]
) -> npt.NDArray[np.int64]:
    amounts = [[max(0, node.allocatable.get(name, 0)) for name in names] for node in nodes]
    return np.array(amounts, np.int64).reshape(len(nodes), len(names))


class _Gangs(NamedTuple):
    """The gangs of a snapshot as columns; all None where there are none."""

    names: list[c.GangName] = []  # noqa: RUF012
    of_job: npt.NDArray[np.int32] | None = None
    queue: npt.NDArray[np.int32] | None = None
    size: npt.NDArray[np.int32] | None = None
    min_size: npt.NDArray[np.int32] | None = None
    rest: npt.NDArray[np.uint8] | None = None
    started: npt.NDArray[np.bool_] | None = None
    submitted_ms: npt.NDArray[np.int64] | None = None


_REST: Final = {"wait": engine.Rest.WAIT, "fail": engine.Rest.FAIL}


def _gangs(view: View, rows: Rows, queue_names: tuple[str, ...]) -> _Gangs:
    if not view.gangs:
        return _Gangs()
    place = {int(row): at for at, row in enumerate(rows)}
    of_job = np.full(len(rows), -1, np.int32)
    numbers: dict[c.GangName, int] = {}
    first_ms: list[int] = []
    for row, rare in view.jobs.rare.items():
        at = place.get(row)
        if at is None or rare.gang is None or rare.gang not in view.gangs:
            continue
        number = numbers.setdefault(rare.gang, len(numbers))
        if number == len(first_ms):
            first_ms.append(c.NEVER_MS)
        of_job[at] = number
        first_ms[number] = min(first_ms[number], int(view.jobs.submitted_ms[row]))
    if not numbers:
        return _Gangs()
    terms = [view.gangs[name] for name in numbers]
    return _Gangs(
        names=list(numbers),
        of_job=of_job,
        queue=np.array([queue_names.index(name.queue) for name in numbers], np.int32),
        size=np.array([term.size for term in terms], np.int32),
        min_size=np.array([term.min_size for term in terms], np.int32),
        rest=np.array([_REST[term.rest] for term in terms], np.uint8),
        started=np.array([name in view.gang_started for name in numbers], np.bool_),
        submitted_ms=np.array(
            [_assembles_since(view, name, at) for name, at in zip(numbers, first_ms, strict=True)],
            np.int64,
        ),
    )


def _assembles_since(view: View, gang: c.GangName, first_ms: int) -> int:
    """N9: a gang all of whose members are known is not late, wherever they are just now."""
    here = len(view.gang_members.get(gang, ()))
    return c.NEVER_MS if here >= view.gangs[gang].min_size else first_ms


def _gang_labels(
    view: View, gangs: Sequence[c.GangName]
) -> tuple[tuple[str, ...], npt.NDArray[np.int32] | None]:
    if not gangs:
        return (), None
    wanted = [view.gangs[name].uniformity_label for name in gangs]
    names = tuple(sorted({label for label in wanted if label is not None}))
    rows = [-1 if label is None else names.index(label) for label in wanted]
    return names, np.array(rows, np.int32)


def _node_labels(
    nodes: Sequence[cluster_records.Node], names: tuple[str, ...]
) -> npt.NDArray[np.int32] | None:
    if not names:
        return None
    result = np.full((len(names), len(nodes)), -1, np.int32)
    for at, label in enumerate(names):
        values = sorted({node.labels[label] for node in nodes if label in node.labels})
        number = {value: place for place, value in enumerate(values)}
        for row, node in enumerate(nodes):
            if label in node.labels:
                result[at, row] = number[node.labels[label]]
    return result


def _avoided(
    view: View, rows: Rows, nodes: _Nodes
) -> tuple[npt.NDArray[np.int32] | None, npt.NDArray[np.int32] | None]:
    avoiding = [(row, rare.avoid) for row, rare in view.jobs.rare.items() if rare.avoid]
    if not avoiding:
        return None, None
    place = {int(row): at for at, row in enumerate(rows)}
    at_node = {f"{name.executor}/{name.node}": at for at, name in enumerate(nodes.names)}
    pairs = [
        (place[row], at_node[name])
        for row, avoid in avoiding
        if row in place
        for name in avoid
        if name in at_node
    ]
    if not pairs:
        return None, None
    table = np.array(pairs, np.int32)
    return table[:, 0].copy(), table[:, 1].copy()


def next_start_ms(view: View, now_ms: int) -> int:
    """When the next queued job may start that may not start yet; `NEVER_MS` if there is none."""
    jobs = view.jobs
    span = slice(0, jobs.used)
    delayed = (jobs.state[span] == c.QUEUED) & (jobs.start_after_ms[span] > now_ms)
    delayed &= (jobs.flags[span] & c.FREE) == 0
    starts = jobs.start_after_ms[span][delayed]
    return int(starts.min()) if len(starts) else c.NEVER_MS
