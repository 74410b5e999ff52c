"""`python -m fairlead_scheduler.cases [--json] FILE...`: worked cases of the scheduling rules.

A case is turned into events and fed to the same pure `apply`, cluster fold and snapshot builder as
the service, and the same `schedule` decides; there is no log and no database. The form of a case
is described in `tests/cases/README.md`.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import yaml

from fairlead_common import clusters as cluster_records
from fairlead_common import configuration, resources, shapes
from fairlead_common import events as ev
from fairlead_common.classes import AwayNodeType, Preemption, PriorityClass
from fairlead_common.clusters import Heartbeat, Node, Taint
from fairlead_common.ids import JobId
from fairlead_common.log import Entry
from fairlead_common.log.protocol import Record
from fairlead_scheduler import planning
from fairlead_scheduler.buckets import Buckets
from fairlead_scheduler.clusters import Clusters
from fairlead_scheduler.deciding import use_up
from fairlead_scheduler.engine import Plan, explain, schedule
from fairlead_scheduler.engine import snapshot as engine
from fairlead_scheduler.queues import Queues
from fairlead_scheduler.settings import Rate, Rules
from fairlead_scheduler.snapshots import Builder, Built
from fairlead_scheduler.view import apply
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view.columns import View

_GPU_TAINT: Final = Taint(key="gpu", value="true")
_LARGE_TAINT: Final = Taint(key="large", value="true")


def _away(value: int) -> tuple[AwayNodeType, ...]:
    return (
        AwayNodeType(taints=(_GPU_TAINT,), value=value),
        AwayNodeType(taints=(_LARGE_TAINT,), value=value),
    )


FIXTURE_CLASSES: Final = (
    *(PriorityClass(name=f"p{value}", value=value) for value in range(4)),
    PriorityClass(name="p2np", value=2, preemption=Preemption.NONE),
    PriorityClass(name="p3np", value=3, preemption=Preemption.NONE),
    PriorityClass(name="p2u", value=2, preemption=Preemption.URGENCY),
    PriorityClass(name="home", value=30_000),
    PriorityClass(name="away", value=30_000, away_node_types=_away(29_000)),
    PriorityClass(name="awaylow", value=30_000, away_node_types=_away(28_000)),
)


class _Node(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str
    resources: dict[str, str | int | float]
    count: int = 1
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    pool: str = "default"
    executor: str = "e0"
    unschedulable: bool = False


class _Gang(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str | None = None
    size: int | None = None
    min_size: int | None = None
    uniformity_label: str | None = None
    rest: str = "wait"


class _Running(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    on_node: str
    since: float = 0


class _Affinity(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    node_selector_terms: tuple[shapes.SelectorTerm, ...] = ()


class _Group(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    id: str
    queue: str
    count: int = 1
    cpu: str | int | float | None = None
    memory: str | int | float | None = None
    gpu: int | None = None
    resources: dict[str, str | int | float] = {}
    priority_class: str = "p0"
    priority: int = 0
    node_selector: dict[str, str] = {}
    affinity: _Affinity | None = None
    tolerations: tuple[shapes.Toleration, ...] = ()
    gang: _Gang | None = None
    max_runtime_seconds: int | None = None
    running: _Running | None = None


class _Queue(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    weight: float = 1.0
    cordoned: bool = False
    limits: dict[str, dict[str, float | str]] = {}


class _SameLabel(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    jobs: list[str]
    label: str


class _Expect(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    scheduled: list[str] | None = None
    preempted: list[str] | None = None
    queued: list[str] | None = None
    scheduled_count: int | None = None
    preempted_count: int | None = None
    running: dict[str, int] = {}
    on_node: dict[str, str] = {}
    same_node: list[list[str]] = []
    same_label: _SameLabel | None = None
    reasons: dict[str, str] = {}
    causes: dict[str, str] = {}
    shares: dict[str, dict[str, float]] = {}
    rejected: dict[str, str] = {}
    failed: dict[str, str] = {}


class _Round(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    at: float | None = None
    submit: list[_Group] = []
    finish: list[str] = []
    cancel: list[str] = []
    cordon_nodes: list[str] = []
    uncordon_nodes: list[str] = []
    remove_nodes: list[str] = []
    add_nodes: list[_Node] = []
    resize_nodes: dict[str, dict[str, str | int | float]] = {}
    cordon_queues: list[str] = []
    uncordon_queues: list[str] = []
    lose_executors: list[str] = []
    restore_executors: list[str] = []
    cordon_executors: list[str] = []
    uncordon_executors: list[str] = []
    repeat: int = 1
    expect: _Expect = msgspec.field(default_factory=_Expect)


class _Settings(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    protected_fraction_of_fair_share: float = 0.0
    round_limit: dict[str, float] = {}
    rate: Rate | None = None
    queue_rate: Rate | None = None
    preemption_rate: Rate | None = None
    lookback: int = 0
    floating: dict[str, float] = {}
    class_limits: dict[str, dict[str, float]] = {}
    cost_multipliers: dict[str, float] = {}
    max_unacknowledged_leases: int = 2_500
    requeue_preempted: bool = False


class Case(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """One case of a file."""

    name: str
    nodes: list[_Node]
    rounds: list[_Round]
    settings: _Settings = msgspec.field(default_factory=_Settings)
    priority_classes: list[PriorityClass] = []
    queues: dict[str, _Queue] = {}


class Decided(msgspec.Struct, rename="camel", omit_defaults=False):
    """What one round decided, as `--json` prints it."""

    case: str
    round: int
    placed: dict[str, str]
    preempted: dict[str, dict[str, str]]
    waiting: dict[str, str]
    rejected: dict[str, str]
    failed: dict[str, str]
    shares: dict[str, dict[str, float]]
    ms: float


def expand(names: Iterable[str]) -> list[str]:
    """`a0-3` is `a0, a1, a2, a3`."""
    result: list[str] = []
    for name in names:
        match = re.fullmatch(r"(.*?)(\d+)-(\d+)", name)
        if match is None:
            result.append(name)
        else:
            result += [f"{match[1]}{n}" for n in range(int(match[2]), int(match[3]) + 1)]
    return result


def _keyed(expected: Mapping[str, str]) -> dict[str, str]:
    return {name: value for key, value in expected.items() for name in expand([key])}


class Cluster:
    """The little world in which a case happens."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.view, self.clusters, self.queues = View(), Clusters(), Queues()
        given = msgspec.to_builtins(case.settings)
        self.requeue = given.pop("requeuePreempted")
        for field in ("costMultipliers", "roundLimit"):
            given[field] = {_resource(name): value for name, value in given[field].items()}
        rules = msgspec.convert(given, Rules)
        self.builder = Builder((*FIXTURE_CLASSES, *case.priority_classes), rules)
        self.engine = self.builder.engine_settings()
        self.buckets = Buckets(rules.rate, rules.queue_rate, rules.preemption_rate)
        self.stale: set[str] = set()
        self.position = 0
        self.versions = 0
        self.node_counts: dict[str, int] = {}
        self.job_sets: dict[str, str] = {}
        self.round = -1
        self.now_ms = 0
        for node in case.nodes:
            self.add_nodes(node)
        for name, queue in case.queues.items():
            self.configure(name, queue.weight, queue.cordoned, queue.limits)

    # Telling the folds ------------------------------------------------------------------

    def append(self, queue: str, events: Sequence[ev.AnyEvent], at_ms: int | None = None) -> None:
        """Feed events of a queue to the view, as one message."""
        sequence = ev.EventSequence(queue=queue, job_set="s", by="case", events=list(events))
        time_ms = self.now_ms if at_ms is None else at_ms
        apply.apply(self.view, [apply.Message(0, self.position, time_ms, sequence)], {})
        self.position += 1

    def _report(self, record: Record) -> None:
        self.clusters.apply([Entry(0, 0, record.key, record.value, self.now_ms)])

    def add_nodes(self, group: _Node) -> None:
        """Nodes of a group, numbered on from those of the same name."""
        if group.executor not in self.clusters.heard:
            heartbeat = Heartbeat(executor=group.executor)
            self._report(cluster_records.heartbeat_record(heartbeat))
        first = self.node_counts.get(group.name, 0)
        self.node_counts[group.name] = first + group.count
        for number in range(first, first + group.count):
            node = Node(
                executor=group.executor,
                name=f"{group.name}{number}",
                pool=group.pool,
                allocatable=_parse_all(group.resources, round_up=False),
                labels=group.labels,
                taints=group.taints,
                unschedulable=group.unschedulable,
            )
            self._report(cluster_records.node_record(node))

    def node(self, name: str) -> Node:
        """The node of that name."""
        return next(n for key, n in self.clusters.nodes.items() if key.node == name)

    def change_node(self, name: str, **changes: Any) -> None:  # whatever fields a Node has
        """The node reports itself with these fields changed."""
        self._report(
            cluster_records.node_record(msgspec.structs.replace(self.node(name), **changes))
        )

    def configure(
        self, name: str, weight: float, cordoned: bool, limits: dict[str, dict[str, float | str]]
    ) -> None:
        """The queue gets this configuration."""
        self.versions += 1
        queue = configuration.Queue(
            name=name, version=self.versions, weight=weight, cordoned=cordoned, limits=limits
        )
        record = configuration.record(queue)
        self.queues.apply([Entry(0, 0, record.key, record.value, 0)], self.clusters)

    def cordon_executor(self, name: str, cordoned: bool) -> None:
        """An operator's mark."""
        self.versions += 1
        self.clusters.cordon(
            configuration.Cordon(executor=name, version=self.versions, cordoned=cordoned)
        )

    # One round --------------------------------------------------------------------------

    def begin(self, turn: _Round, again: int) -> None:
        """Apply what a round brings; `again` counts its repetitions."""
        self.round += 1
        at = self.round if turn.at is None else turn.at + again
        self.now_ms = round(1000 * at)
        if again:
            return
        for name in expand(turn.finish):
            self._end(name, ev.JobRunSucceeded, ev.JobSucceeded(job_id=JobId(name)))
        for name in expand(turn.cancel):
            self._cancel(name)
        self._change_nodes(turn)
        for name in turn.cordon_queues + turn.uncordon_queues:
            queue = self.queues.get(name)
            self.configure(name, queue.weight, name in turn.cordon_queues, queue.limits)
        self.stale = (self.stale | set(turn.lose_executors)) - set(turn.restore_executors)
        for name in turn.cordon_executors + turn.uncordon_executors:
            self.cordon_executor(name, name in turn.cordon_executors)
        for group in turn.submit:
            self._submit(group)

    def _change_nodes(self, turn: _Round) -> None:
        for name in turn.cordon_nodes:
            self.change_node(name, unschedulable=True)
        for name in turn.uncordon_nodes:
            self.change_node(name, unschedulable=False)
        for name, amounts in turn.resize_nodes.items():
            changed = self.node(name).allocatable | _parse_all(amounts, round_up=False)
            self.change_node(name, allocatable=changed)
        for name in turn.remove_nodes:
            node = self.node(name)
            for job_id in self._running_on(c.NodeName(node.executor, name)):
                self._end(job_id, None, ev.JobRequeued(job_id=job_id, reason="node-lost"))
            self._report(cluster_records.node_gone_record(node.executor, name))
        for group in turn.add_nodes:
            self.add_nodes(group)

    def _running_on(self, name: c.NodeName) -> list[JobId]:
        jobs = self.view.jobs
        number = jobs.nodes.find(name)
        rows = [row for row in self.view.live_rows().tolist() if jobs.node[row] == number]
        return [jobs.ids[row] for row in rows if c.IS_LIVE_RUN[jobs.run_state[row]]]

    def _queue_of(self, name: str) -> str:
        row = self.view.jobs.rows[JobId(name)]
        return self.view.jobs.queues.values[int(self.view.jobs.queue[row])]

    def _end(
        self, name: str, run_event: type[ev.JobRunSucceeded] | None, event: ev.AnyEvent
    ) -> None:
        row = self.view.jobs.rows[JobId(name)]
        run = int(self.view.jobs.run[row])
        ended: ev.AnyEvent = (
            run_event(job_id=JobId(name), run=run)
            if run_event is not None
            else ev.JobRunLost(job_id=JobId(name), run=run, reason="gone")
        )
        self.append(self._queue_of(name), [ended, event])

    def _cancel(self, name: str) -> None:
        job_id = JobId(name)
        queue = self._queue_of(name)
        self.append(queue, [ev.JobCancelRequested(job_id=job_id)])
        row = self.view.jobs.rows[job_id]
        if c.IS_LIVE_RUN[self.view.jobs.run_state[row]]:
            run = int(self.view.jobs.run[row])
            stopped = ev.JobRunStopped(job_id=job_id, run=run, reason="")
            self.append(queue, [stopped, ev.JobCancelled(job_id=job_id, reason="")])

    def _submit(self, group: _Group) -> None:
        events: list[ev.AnyEvent] = [
            ev.JobSubmitted(
                job_id=JobId(f"{group.id}{number}"),
                shape=_shape(group),
                spec=msgspec.Raw(b"{}"),
                digest="",
                priority=group.priority,
                priority_class=group.priority_class,
                runtime_s_max=group.max_runtime_seconds,
                gang=_gang(group),
            )
            for number in range(group.count)
        ]
        self.append(group.queue, events)
        if group.running is None:
            return
        node = self.node(group.running.on_node)
        values = {item.name: item.value for item in self.builder.classes}
        leased: list[ev.AnyEvent] = [
            ev.JobRunLeased(
                job_id=JobId(f"{group.id}{number}"),
                run=1,
                executor=node.executor,
                node=node.name,
                value=values[group.priority_class],
            )
            for number in range(group.count)
        ]
        self.append(group.queue, leased, at_ms=round(1000 * group.running.since))

    def decide(self) -> tuple[Built, Plan, Decided]:
        """Run the engine and fold its decisions back."""
        built = self.builder.build(
            self.view,
            self.clusters,
            self.queues,
            "default",
            now_ms=self.now_ms,
            stale=frozenset(self.stale),
            buckets=self.buckets,
        )
        begun = time.perf_counter()
        plan = schedule(built.snapshot, self.engine)
        ms = 1000 * (time.perf_counter() - begun)
        self.builder.remember_feasible(built, plan.shape_feasible)
        use_up(self.buckets, built, plan)
        decided = self._decided(built, plan, ms)
        self._fold(built, plan, decided)
        return built, plan, decided

    def _decided(self, built: Built, plan: Plan, ms: float) -> Decided:
        ids = [self.view.jobs.ids[row] for row in built.rows.tolist()]
        placed = zip(plan.placed_job.tolist(), plan.placed_node.tolist(), strict=True)
        preempted = {
            ids[job]: {
                "cause": planning.CAUSES[engine.Cause(cause)].value,
                "for": ids[taker],
            }
            for job, cause, taker in zip(
                plan.preempted_job.tolist(),
                plan.preempted_cause.tolist(),
                plan.preempted_for.tolist(),
                strict=True,
            )
        }
        shares = plan.shares
        return Decided(
            case=self.case.name,
            round=self.round,
            placed={ids[job]: built.nodes[node].node for job, node in placed},
            preempted=preempted,
            waiting=_reasons(built, plan, ids),
            rejected=_coded(ids, plan.rejected_job.tolist(), plan.rejected_code.tolist()),
            failed=_coded(ids, plan.failed_job.tolist(), plan.failed_code.tolist()),
            shares={
                name: {
                    "weight": float(shares.weight[row]),
                    "fair": float(shares.fair[row]),
                    "uncapped": float(shares.uncapped[row]),
                    "actual": float(shares.actual[row]),
                    "demand": float(shares.demand[row]),
                }
                for row, name in enumerate(built.snapshot.queue_names)
            },
            ms=round(ms, 3),
        )

    def _fold(self, built: Built, plan: Plan, decided: Decided) -> None:
        for name in decided.preempted:
            job_id, queue = JobId(name), self._queue_of(name)
            run = int(self.view.jobs.run[self.view.jobs.rows[job_id]])
            end: ev.AnyEvent = (
                ev.JobRequeued(job_id=job_id, reason="preempted")
                if self.requeue
                else ev.JobPreempted(job_id=job_id, reason="preempted")
            )
            self.append(queue, [ev.JobRunStopped(job_id=job_id, run=run, reason=""), end])
        values = plan.placed_value.tolist()
        for (name, node), value in zip(decided.placed.items(), values, strict=True):
            row = self.view.jobs.rows[JobId(name)]
            leased = ev.JobRunLeased(
                job_id=JobId(name),
                run=int(self.view.jobs.run[row]) + 1,
                executor=self.node(node).executor,
                node=node,
                value=value,
            )
            self.append(self._queue_of(name), [leased])
        for name, code in decided.rejected.items():
            rejected = ev.JobRejected(job_id=JobId(name), code=code, reason="")
            self.append(self._queue_of(name), [rejected])
        for name, code in decided.failed.items():
            failed = ev.JobFailed(
                job_id=JobId(name), category=ev.FailureCategory.ADMISSION, reason=code
            )
            self.append(self._queue_of(name), [failed])

    def running(self) -> dict[str, int]:
        """Live runs by queue."""
        jobs = self.view.jobs
        counts: dict[str, int] = {}
        for row in self.view.live_rows().tolist():
            if c.IS_LIVE_RUN[jobs.run_state[row]]:
                name = jobs.queues.values[int(jobs.queue[row])]
                counts[name] = counts.get(name, 0) + 1
        return counts

    def queued(self) -> set[str]:
        """Jobs that wait."""
        jobs = self.view.jobs
        return {jobs.ids[row] for row in self.view.live_rows() if jobs.state[row] == c.QUEUED}

    def place_of(self, name: str) -> str | None:
        """The node of a live run."""
        jobs = self.view.jobs
        row = jobs.rows.get(JobId(name))
        if row is None or not c.IS_LIVE_RUN[jobs.run_state[row]]:
            return None
        return jobs.nodes.values[int(jobs.node[row])].node


def _resource(name: str) -> str:
    return resources.GPU if name == "gpu" else name


def _parse_all(amounts: Mapping[str, str | int | float], *, round_up: bool) -> dict[str, int]:
    return {
        _resource(name): resources.parse(_resource(name), amount, round_up=round_up)
        for name, amount in amounts.items()
    }


def _shape(group: _Group) -> msgspec.Raw:
    amounts = dict(group.resources)
    for name, amount in (("cpu", group.cpu), ("memory", group.memory), ("gpu", group.gpu)):
        if amount is not None:
            amounts[name] = amount
    return shapes.encode(
        shapes.Shape(
            requests=_parse_all(amounts, round_up=True),
            node_selector=group.node_selector,
            affinity=group.affinity.node_selector_terms if group.affinity else (),
            tolerations=group.tolerations,
        )
    )


def _gang(group: _Group) -> ev.Gang | None:
    gang = group.gang
    if gang is None:
        return None
    return ev.Gang(
        name=gang.name or group.id,
        size=gang.size or group.count,
        min_size=gang.min_size,
        uniformity_label=gang.uniformity_label,
        rest=gang.rest,
    )


def _coded(ids: Sequence[JobId], jobs: Sequence[int], codes: Sequence[int]) -> dict[str, str]:
    return {
        ids[job]: explain.NAMES[engine.Code(code)] for job, code in zip(jobs, codes, strict=True)
    }


def _reasons(built: Built, plan: Plan, ids: Sequence[JobId]) -> dict[str, str]:
    """The reason of every queued job that was not placed."""
    snapshot, reasons = built.snapshot, plan.reasons
    code_of = {
        key: explain.NAMES[engine.Code(code)]
        for *key_parts, code in zip(
            reasons.queue.tolist(),
            reasons.shape.tolist(),
            reasons.gang.tolist(),
            reasons.code.tolist(),
            strict=True,
        )
        for key in [tuple(key_parts)]
    }
    placed = set(plan.placed_job.tolist())
    waiting: dict[str, str] = {}
    for job, node in enumerate(snapshot.job_node.tolist()):
        if node >= 0 or job in placed:
            continue
        queue, shape = int(snapshot.job_queue[job]), int(snapshot.job_shape[job])
        gang = -1 if snapshot.job_gang is None else int(snapshot.job_gang[job])
        code = code_of.get((queue, -1, gang)) if gang >= 0 else None
        code = code or code_of.get((queue, shape, -1))
        if code is not None:
            waiting[ids[job]] = code
    return waiting


# Comparing ----------------------------------------------------------------------------------


def check(world: Cluster, decided: Decided, expect: _Expect) -> list[str]:
    """What the round should have done and did not, in words."""
    faults: list[str] = []

    def same(what: str, want: object, got: object) -> None:
        if want != got:
            faults.append(f"{what}: wanted {want}, got {got}")

    for what, names, got in (
        ("scheduled", expect.scheduled, set(decided.placed)),
        ("preempted", expect.preempted, set(decided.preempted)),
        ("queued", expect.queued, world.queued()),
    ):
        if names is not None:
            same(what, sorted(expand(names)), sorted(got))
    for what, count, number in (
        ("scheduledCount", expect.scheduled_count, len(decided.placed)),
        ("preemptedCount", expect.preempted_count, len(decided.preempted)),
    ):
        if count is not None:
            same(what, count, number)
    running = world.running()
    for queue, count in expect.running.items():
        same(f"running of {queue}", count, running.get(queue, 0))
    for name, node in _keyed(expect.on_node).items():
        same(f"node of {name}", node, world.place_of(name))
    for name, code in _keyed(expect.reasons).items():
        same(f"reason of {name}", code, decided.waiting.get(name))
    for name, cause in _keyed(expect.causes).items():
        same(f"cause of {name}", cause, decided.preempted.get(name, {}).get("cause"))
    for name, code in _keyed(expect.rejected).items():
        same(f"rejection of {name}", code, decided.rejected.get(name))
    for name, code in _keyed(expect.failed).items():
        same(f"failure of {name}", code, decided.failed.get(name))
    for queue, values in expect.shares.items():
        for share, value in values.items():
            got_share = decided.shares.get(queue, {}).get(share, 0.0)
            if abs(got_share - value) > 1e-4:
                faults.append(f"{share} share of {queue}: wanted {value}, got {got_share:.5f}")
    return faults + _check_together(world, expect)


def _check_together(world: Cluster, expect: _Expect) -> list[str]:
    faults = []
    for names in expect.same_node:
        nodes = {world.place_of(name) for name in expand(names)} - {None}
        if len(nodes) > 1:
            faults.append(f"{names} should be on one node, they are on {sorted(map(str, nodes))}")
    if expect.same_label is not None:
        jobs, label = expand(expect.same_label.jobs), expect.same_label.label
        placed = [node for name in jobs if (node := world.place_of(name)) is not None]
        values = {world.node(node).labels.get(label) for node in placed}
        if len(values) > 1:
            faults.append(f"{jobs} should share one {label}, they are on {values}")
    return faults


def play(case: Case) -> tuple[list[Decided], list[str]]:
    """All rounds of a case: what they decided, and what was not as expected."""
    world = Cluster(case)
    decided_all: list[Decided] = []
    faults: list[str] = []
    for turn in case.rounds:
        for again in range(turn.repeat):
            world.begin(turn, again)
            _, _, decided = world.decide()
            decided_all.append(decided)
            found = check(world, decided, turn.expect)
            faults += [f"round {world.round}: {fault}" for fault in found]
    return decided_all, faults


def read(path: Path) -> list[Case]:
    """The cases of a file. Raises `msgspec.ValidationError` naming the place of a fault."""
    return msgspec.convert(yaml.safe_load(path.read_text()), list[Case])


def main(arguments: Sequence[str] | None = None) -> int:
    """A line per case, then `N passed, N failed`; 1 if any failed."""
    parser = argparse.ArgumentParser(prog="python -m fairlead_scheduler.cases", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print what each round decided")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    out = sys.stdout
    passed = failed = 0
    for path in options.files:
        try:
            cases = read(path)
        except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
            sys.exit(f"{path}: {error}")
        for case in cases:
            decided, faults = play(case)
            passed, failed = passed + (not faults), failed + bool(faults)
            if options.json:
                for item in decided:
                    out.write(json.dumps(cast(dict[str, Any], msgspec.to_builtins(item))) + "\n")
                continue
            out.write(f"{'FAIL' if faults else 'ok  '} {path.name}: {case.name}\n")
            for fault in faults:
                out.write(f"     {fault}\n")
    if not options.json:
        out.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
