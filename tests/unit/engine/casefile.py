"""Runs the worked cases against the bare engine: a case becomes snapshots, without any service.

The service's own runner (`python -m fairlead_scheduler.cases`) goes through events and folds; this
one is independent of it, so that a rule can be worked on with nothing but the engine.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, explain, matching, schedule
from fairlead_scheduler.engine.snapshot import (
    NO_AWAY,
    Cause,
    Code,
    JobFlag,
    NodeFlag,
    Preemption,
    Rest,
)

CASES = Path(__file__).parents[2] / "cases"
GPU = "nvidia.com/gpu"
CLASSES: list[dict[str, Any]] = [
    {"name": "p0", "value": 0},
    {"name": "p1", "value": 1},
    {"name": "p2", "value": 2},
    {"name": "p3", "value": 3},
    {"name": "p2np", "value": 2, "preemption": "none"},
    {"name": "p3np", "value": 3, "preemption": "none"},
    {"name": "p2u", "value": 2, "preemption": "urgency"},
    {"name": "home", "value": 30000},
    {"name": "away", "value": 30000, "away": [("gpu", 29000), ("large", 29000)]},
    {"name": "awaylow", "value": 30000, "away": [("gpu", 28000), ("large", 28000)]},
]
SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
CAUSES = {Cause.FAIR_SHARE: "fair-share", Cause.URGENCY: "urgency", Cause.GANG: "gang"}


def amount(resource: str, text: Any) -> int:
    """A quantity in the engine's units."""
    if isinstance(text, str) and text[-2:] in SUFFIXES:
        return int(float(text[:-2]) * SUFFIXES[text[-2:]])
    return round(float(text) * (1000 if resource == "cpu" else 1))


def names(sets: Any) -> list[str]:
    """`[a0-2, b1]` as `[a0, a1, a2, b1]`."""
    result = []
    for item in [sets] if isinstance(sets, str) else sets:
        found = re.fullmatch(r"(.*?)(\d+)-(\d+)", item)
        if found:
            low, high = int(found[2]), int(found[3])
            result += [f"{found[1]}{i}" for i in range(low, high + 1)]
        else:
            result.append(item)
    return result


@dataclass
class Job:
    """One job of a case."""

    name: str
    queue: str
    group: dict[str, Any]
    submission: int
    gang: str | None
    state: str = "queued"
    node: str | None = None
    since: int = 0
    value: int = 0
    has_run: bool = False


@dataclass
class Node:
    """One node of a case."""

    name: str
    number: int
    spec: dict[str, Any]
    resources: dict[str, int]
    cordoned: bool = False


@dataclass
class World:
    """A case under way."""

    case: dict[str, Any]
    nodes: dict[str, Node] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    cordoned: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    cordoned_executors: set[str] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=dict)
    buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    left_over: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.settings: dict[str, Any] = self.case.get("settings", {})
        self.classes = CLASSES + self.case.get("priorityClasses", [])
        for name, queue in self.case.get("queues", {}).items():
            if queue.get("cordoned"):
                self.cordoned.add(name)
        self.add_nodes(self.case["nodes"])

    def add_nodes(self, specs: list[dict[str, Any]]) -> None:
        for spec in specs:
            for _ in range(spec.get("count", 1)):
                i = self.counters.get(spec["name"], 0)
                self.counters[spec["name"]] = i + 1
                name = f"{spec['name']}{i}"
                resources = {r: amount(r, v) for r, v in spec["resources"].items()}
                if "gpu" in resources:
                    resources[GPU] = resources.pop("gpu")
                self.nodes[name] = Node(
                    name,
                    sum(self.counters.values()),
                    spec,
                    resources,
                    spec.get("unschedulable", False),
                )

    def submit(self, group: dict[str, Any], now: int) -> None:
        gang = group.get("gang")
        for i in range(group.get("count", 1)):
            name = f"{group['id']}{i}"
            label = None if gang is None else str(gang.get("name", group["id"]))
            job = Job(name, group["queue"], group, len(self.jobs), label)
            if "running" in group:
                job.state, job.node = "running", group["running"]["onNode"]
                job.since, job.has_run = group["running"]["since"], True
                job.value = self.class_of(job)["value"]
            self.jobs[name] = job

    def class_of(self, job: Job) -> dict[str, Any]:
        wanted = job.group.get("priorityClass", "p0")
        return next(c for c in self.classes if c["name"] == wanted)

    def bucket(self, key: str, setting: str, now: int) -> tuple[float, float]:
        """Tokens now and burst of a bucket; inf without the setting."""
        if setting not in self.settings:
            return np.inf, np.inf
        rate = self.settings[setting]
        tokens, at = self.buckets.get(key, (float(rate["burst"]), float(now)))
        return min(rate["burst"], tokens + (now - at) * rate["perSecond"]), float(rate["burst"])


def request(group: dict[str, Any]) -> dict[str, int]:
    """What one job of the group asks for."""
    result: dict[str, int] = {r: amount(r, group[r]) for r in ("cpu", "memory") if r in group}
    if "gpu" in group:
        result[GPU] = amount(GPU, group["gpu"])
    result.update({r: amount(r, v) for r, v in group.get("resources", {}).items()})
    return result


def rules(group: dict[str, Any], away: list[tuple[str, int]]) -> matching.ShapeRules:
    """What the group asks of nodes beside amounts."""

    def expressions(items: list[dict[str, Any]]) -> tuple[matching.Requirement, ...]:
        return tuple(
            matching.Requirement(i["key"], i["operator"], tuple(map(str, i.get("values", ()))))
            for i in items
        )

    terms = group.get("affinity")
    return matching.ShapeRules(
        node_selector=tuple(sorted(group.get("nodeSelector", {}).items())),
        affinity=None
        if terms is None
        else tuple(
            matching.Term(
                expressions(term.get("matchExpressions", [])),
                expressions(term.get("matchFields", [])),
            )
            for term in terms["nodeSelectorTerms"]
        ),
        tolerations=tuple(
            matching.Toleration(
                t.get("key", ""),
                t.get("operator", "Equal"),
                str(t.get("value", "")),
                t.get("effect", ""),
            )
            for t in group.get("tolerations", [])
        ),
        away=tuple((matching.Taint(kind, "true", "NoSchedule"),) for kind, _ in away),
    )


def snapshot(
    world: World, now: int, mixer: random.Random | None = None
) -> tuple[Snapshot, list[Job], list[Node]]:
    """The pool as the engine sees it; rows of jobs and nodes beside it, mixed if so wished."""
    jobs = [j for j in world.jobs.values() if j.state in ("queued", "running")]
    nodes = list(world.nodes.values())
    if mixer is not None:
        mixer.shuffle(jobs)
        mixer.shuffle(nodes)
    queues = sorted({j.queue for j in world.jobs.values()} | set(world.case.get("queues", {})))
    floating = world.settings.get("floating", {})
    found = {r for n in nodes for r in n.resources} | {r for j in jobs for r in request(j.group)}
    resources = tuple(sorted((found | {"cpu", "memory"}) - set(floating)))
    class_names = [c["name"] for c in world.classes]
    deep = max(len(c.get("away", [])) for c in world.classes)

    shapes: dict[Any, int] = {}
    wanted, asked, of_class, shape = [], [], [], []
    for job in jobs:
        kind = world.class_of(job)
        needs = request(job.group)
        asks = rules(job.group, kind.get("away", []))
        key = (tuple(sorted(needs.items())), asks, kind["name"])
        if key not in shapes:
            shapes[key] = len(shapes)
            wanted.append(needs)
            asked.append(asks)
            of_class.append(class_names.index(kind["name"]))
        shape.append(shapes[key])

    relevant = matching.relevant_labels(asked)
    types: dict[matching.NodeType, int] = {}
    node_type = []
    for node in nodes:
        taints = [
            matching.Taint(t["key"], str(t.get("value", "")), t["effect"])
            for t in node.spec.get("taints", [])
        ]
        reduced = matching.reduce(node.name, node.spec.get("labels", {}), taints, relevant)
        node_type.append(types.setdefault(reduced, len(types)))
    match = np.full((len(asked), 1 + deep, len(types)), 1, np.uint8)
    if asked:
        made = matching.table(asked, list(types))
        match[:, : made.shape[1]] = made

    flags = []
    for node in nodes:
        executor = node.spec.get("executor", "e0")
        flag = NodeFlag.LOST if executor in world.lost else NodeFlag(0)
        if node.cordoned or executor in world.cordoned_executors:
            flag |= NodeFlag.CORDONED
        flags.append(int(flag))

    gang_names = sorted({j.gang for j in jobs if j.gang})
    running = {j.gang for j in jobs if j.state == "running"}
    ended = {j.gang for j in world.jobs.values() if j.has_run and j.state in ("ended", "preempted")}
    world.left_over |= {g for g in gang_names if g in ended and g not in running}
    specs = [next(j.group for j in jobs if j.gang == g) for g in gang_names]
    sizes = [s["gang"].get("size", s.get("count", 1)) for s in specs]
    labels = sorted({s["gang"]["uniformityLabel"] for s in specs if "uniformityLabel" in s["gang"]})
    values = np.full((len(labels), len(nodes)), -1, np.int32)
    for u, label in enumerate(labels):
        ordered = sorted(
            {n.spec["labels"][label] for n in nodes if label in n.spec.get("labels", {})}
        )
        for i, node in enumerate(nodes):
            if label in node.spec.get("labels", {}):
                values[u, i] = ordered.index(node.spec["labels"][label])

    queue_limit = np.full((len(queues), len(class_names), len(resources) + len(floating)), np.inf)
    both = resources + tuple(floating)
    for kind, amounts in world.settings.get("classLimits", {}).items():
        for r, f in amounts.items():
            queue_limit[:, class_names.index(kind), both.index(r)] = f
    for name, queue in world.case.get("queues", {}).items():
        for kind, amounts in queue.get("limits", {}).items():
            for r, f in amounts.items():
                queue_limit[queues.index(name), class_names.index(kind), both.index(r)] = f

    rows = {n.name: i for i, n in enumerate(nodes)}
    tokens, burst = world.bucket("", "rate", now)
    per_queue = [world.bucket("queue/" + q, "queueRate", now) for q in queues]
    away_value = np.full((len(class_names), deep), NO_AWAY, np.int64)
    for c, kind in enumerate(world.classes):
        for k, (_, value) in enumerate(kind.get("away", [])):
            away_value[c, k] = value
    made_snapshot = Snapshot(
        pool="default",
        now_ms=now * 1000,
        resources=resources,
        floating=tuple(floating),
        floating_total=np.array([int(v) for v in floating.values()], np.int64),
        queue_names=tuple(queues),
        queue_weight=np.array(
            [float(world.case.get("queues", {}).get(q, {}).get("weight", 1)) for q in queues]
        ),
        queue_cordoned=np.array([q in world.cordoned for q in queues], np.bool_),
        queue_limit_fraction=queue_limit if np.isfinite(queue_limit).any() else None,
        queue_tokens=np.array([t for t, _ in per_queue], np.float64),
        queue_burst=per_queue[0][1] if per_queue else np.inf,
        tokens=tokens,
        burst=burst,
        preemption_tokens=world.bucket("preemption", "preemptionRate", now)[0],
        class_names=tuple(class_names),
        class_value=np.array([c["value"] for c in world.classes], np.int64),
        class_preemption=np.array(
            [Preemption[c.get("preemption", "any").upper()] for c in world.classes], np.uint8
        ),
        class_away_value=away_value,
        shape_request=np.array(
            [[w.get(r, 0) for r in resources] for w in wanted], np.int64
        ).reshape(len(wanted), len(resources)),
        shape_floating=np.array(
            [[w.get(r, 0) for r in floating] for w in wanted], np.int64
        ).reshape(len(wanted), len(floating)),
        shape_class=np.array(of_class, np.int32),
        shape_match=match,
        node_number=np.array([n.number for n in nodes], np.int64),
        node_allocatable=np.array(
            [[n.resources.get(r, 0) for r in resources] for n in nodes], np.int64
        ).reshape(len(nodes), len(resources)),
        node_type=np.array(node_type, np.int32),
        node_flags=np.array(flags, np.uint8),
        label_names=tuple(labels),
        node_label=values,
        job_queue=np.array([queues.index(j.queue) for j in jobs], np.int32),
        job_shape=np.array(shape, np.int32),
        job_priority=np.array([j.group.get("priority", 0) for j in jobs], np.int64),
        job_submission=np.array([j.submission for j in jobs], np.int64),
        job_node=np.array([-1 if j.node is None else rows[j.node] for j in jobs], np.int32),
        job_gang=np.array([gang_names.index(j.gang) if j.gang else -1 for j in jobs], np.int32),
        job_started_ms=np.array([j.since * 1000 for j in jobs], np.int64),
        job_value=np.array([j.value for j in jobs], np.int64),
        job_flags=np.array([JobFlag.KEPT if j.name in world.kept else 0 for j in jobs], np.uint8),
        job_max_runtime_ms=np.array(
            [j.group.get("maxRuntimeSeconds", 0) * 1000 for j in jobs], np.int64
        ),
        gang_queue=np.array([queues.index(s["queue"]) for s in specs], np.int32),
        gang_size=np.array(sizes, np.int32),
        gang_min=np.array(
            [s["gang"].get("minSize", n) for s, n in zip(specs, sizes, strict=True)], np.int32
        ),
        gang_label=np.array(
            [
                labels.index(s["gang"]["uniformityLabel"]) if "uniformityLabel" in s["gang"] else -1
                for s in specs
            ],
            np.int32,
        ),
        gang_rest=np.array([Rest[s["gang"].get("rest", "wait").upper()] for s in specs], np.uint8),
        gang_started=np.array([g in ended for g in gang_names], np.bool_),
        gang_submitted_ms=np.zeros(len(gang_names), np.int64),
    )
    return made_snapshot, jobs, nodes


def engine_settings(world: World) -> EngineSettings:
    """The case's settings as the engine's."""
    given = world.settings
    multipliers = {GPU if k == "gpu" else k: v for k, v in given.get("costMultipliers", {}).items()}
    return EngineSettings(
        protected_fraction=given.get("protectedFractionOfFairShare", 0),
        round_limit=given.get("roundLimit", {}),
        cost_multipliers=multipliers,
        lookback=given.get("lookback", 0),
    )


@dataclass
class Outcome:
    """What a round decided, by names."""

    placed: dict[str, str]
    preempted: dict[str, tuple[str, str]]
    waiting: dict[str, str]
    rejected: dict[str, str]
    failed: dict[str, str]
    shares: dict[str, dict[str, float]]
    running: dict[str, int]
    on_node: dict[str, str]
    plan: Plan
    snapshot: Snapshot


def one_round(world: World, now: int, mixer: random.Random | None = None) -> Outcome:
    """Schedule once and apply the plan to the world."""
    made, jobs, nodes = snapshot(world, now, mixer)
    plan = schedule(made, engine_settings(world))
    explain_all(made, plan)
    code = {Code(c): text for c, text in explain.NAMES.items()}
    placed = {}
    for j, n, v in zip(plan.placed_job, plan.placed_node, plan.placed_value, strict=True):
        job = jobs[j]
        placed[job.name] = nodes[n].name
        job.state, job.node, job.since, job.has_run = "running", nodes[n].name, now, True
        job.value = int(v)
    preempted = {}
    for j, cause, taker in zip(
        plan.preempted_job, plan.preempted_cause, plan.preempted_for, strict=True
    ):
        job = jobs[j]
        preempted[job.name] = (CAUSES[Cause(int(cause))], jobs[taker].name)
        job.state = "queued" if world.settings.get("requeuePreempted") else "preempted"
        job.node = None
    rejected: dict[str, str] = {}
    failed: dict[str, str] = {}
    for rows, codes, into in (
        (plan.rejected_job, plan.rejected_code, rejected),
        (plan.failed_job, plan.failed_code, failed),
    ):
        for j, c in zip(rows, codes, strict=True):
            into[jobs[j].name] = code[Code(int(c))]
            jobs[j].state = "ended"
    for key, setting, used in (
        ("", "rate", plan.tokens_used),
        ("preemption", "preemptionRate", plan.preemption_tokens_used),
        *(
            (f"queue/{q}", "queueRate", int(u))
            for q, u in zip(made.queue_names, plan.queue_scheduled, strict=True)
        ),
    ):
        world.buckets[key] = (world.bucket(key, setting, now)[0] - used, float(now))
    reasons: dict[tuple[str | int, int], str] = {}
    for row in range(plan.reasons.code.size):
        of: tuple[str | int, int] = (
            ("gang", int(plan.reasons.gang[row]))
            if plan.reasons.gang[row] >= 0
            else (int(plan.reasons.queue[row]), int(plan.reasons.shape[row]))
        )
        reasons[of] = code[Code(int(plan.reasons.code[row]))]
    waiting = {}
    for i, job in enumerate(jobs):
        if job.state == "queued" and job.name not in preempted:
            gang = int(made.job_gang[i]) if made.job_gang is not None else -1
            single = (int(made.job_queue[i]), int(made.job_shape[i]))
            waiting[job.name] = reasons.get(("gang", gang), reasons.get(single, ""))
            world.kept.add(job.name)
    for name in preempted:
        if world.jobs[name].state == "queued":
            waiting[name] = "preempted"
    running: dict[str, int] = {}
    for job in jobs:
        if job.state == "running":
            running[job.queue] = running.get(job.queue, 0) + 1
    return Outcome(
        placed,
        preempted,
        waiting,
        rejected,
        failed,
        {
            q: {
                kind: float(getattr(plan.shares, kind)[i])
                for kind in ("weight", "fair", "uncapped", "actual", "demand")
            }
            for i, q in enumerate(made.queue_names)
        },
        running,
        {j.name: j.node for j in jobs if j.state == "running" and j.node},
        plan,
        made,
    )


def explain_all(made: Snapshot, plan: Plan) -> None:
    """Every row has a sentence, and its counts add up to the nodes of the pool (E1, E3)."""
    for row in range(plan.reasons.code.size):
        assert explain.sentence(made, plan, row)
        assert plan.reasons.counts[row].sum() == made.node_number.size


def prepare(world: World, turn: dict[str, Any], now: int) -> None:
    """Apply what happens before a round."""
    for name in names(turn.get("finish", [])) + names(turn.get("cancel", [])):
        world.jobs[name].state, world.jobs[name].node = "ended", None
    for name in names(turn.get("cordonNodes", [])):
        world.nodes[name].cordoned = True
    for name in names(turn.get("uncordonNodes", [])):
        world.nodes[name].cordoned = False
    for name in names(turn.get("removeNodes", [])):
        del world.nodes[name]
        for job in world.jobs.values():
            if job.node == name:
                job.state, job.node = "queued", None
    world.add_nodes(turn.get("addNodes", []))
    for name, resources in turn.get("resizeNodes", {}).items():
        world.nodes[name].resources.update({r: amount(r, v) for r, v in resources.items()})
    world.cordoned |= set(turn.get("cordonQueues", []))
    world.cordoned -= set(turn.get("uncordonQueues", []))
    world.lost |= set(turn.get("loseExecutors", []))
    world.lost -= set(turn.get("restoreExecutors", []))
    world.cordoned_executors |= set(turn.get("cordonExecutors", []))
    world.cordoned_executors -= set(turn.get("uncordonExecutors", []))
    for group in turn.get("submit", []):
        world.submit(group, now)


def differences(world: World, expect: dict[str, Any], got: Outcome) -> list[str]:
    """What is not as expected, in words."""
    wrong = []

    def same(what: str, want: Any, have: Any) -> None:
        if want != have:
            wrong.append(f"{what}: want {want}, have {have}")

    for key, have in (
        ("scheduled", got.placed),
        ("preempted", got.preempted),
        ("queued", got.waiting),
    ):
        if key in expect:
            same(key, sorted(names(expect[key])), sorted(have))
    if "scheduledCount" in expect:
        same("scheduledCount", expect["scheduledCount"], len(got.placed))
    if "preemptedCount" in expect:
        same("preemptedCount", expect["preemptedCount"], len(got.preempted))
    for queue, number in expect.get("running", {}).items():
        same(f"running {queue}", number, got.running.get(queue, 0))
    for key, table in (
        ("onNode", got.on_node),
        ("reasons", got.waiting),
        ("causes", {k: v[0] for k, v in got.preempted.items()}),
        ("rejected", got.rejected),
        ("failed", got.failed),
    ):
        for jobs, want in expect.get(key, {}).items():
            for name in names(jobs):
                same(f"{key} {name}", want, table.get(name))
    for jobs in expect.get("sameNode", []):
        same(f"sameNode {jobs}", 1, len({got.on_node[n] for n in names(jobs) if n in got.on_node}))
    if "sameLabel" in expect:
        label = expect["sameLabel"]["label"]
        found = {
            world.nodes[got.on_node[n]].spec["labels"][label]
            for n in names(expect["sameLabel"]["jobs"])
            if n in got.on_node
        }
        same("sameLabel", 1, len(found))
    for queue, shares in expect.get("shares", {}).items():
        for kind, wanted in shares.items():
            share = got.shares[queue][kind]
            if abs(share - wanted) > 1e-4:
                wrong.append(f"share {queue} {kind}: want {wanted}, have {share}")
    return wrong


def run(case: dict[str, Any]) -> list[str]:
    """Run a case; what is not as expected, by round. Empty when it passes."""
    world = World(case)
    wrong = []
    now = -1
    for number, turn in enumerate(case["rounds"]):
        for again in range(turn.get("repeat", 1)):
            now = turn["at"] + again if "at" in turn else max(now + 1, number)
            prepare(world, turn if again == 0 else {}, now)
            got = one_round(world, now)
            wrong += [
                f"round {number}.{again}: {w}"
                for w in differences(world, turn.get("expect", {}), got)
            ]
    return wrong


def load() -> dict[str, dict[str, Any]]:
    """All cases by file and name."""
    return {
        f"{path.stem}: {case['name']}": case
        for path in sorted(CASES.glob("*.yaml"))
        for case in yaml.safe_load(path.read_text())
    }


__all__ = ["load", "replace", "run"]
