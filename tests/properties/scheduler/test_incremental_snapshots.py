"""Snapshots that are kept from round to round say what the view says, whatever happened to it.

`FAIRLEAD_EXAMPLES` says how many random histories are tried; without it the same few each time.
"""

import copy
import gc
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fairlead_common.domain.ids import GroupId, JobId
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Avoidance, Node
from fairlead_common.domain.records.events import FailureCategory, Gang, JobFilter, PreemptionCause
from fairlead_common.domain.scheduling import shapes
from fairlead_common.domain.scheduling.priority_classes import (
    AwayNodeType,
    Preemption,
    PriorityClass,
)
from fairlead_common.domain.scheduling.shapes import Taint
from fairlead_common.log import Entry
from fairlead_scheduler.engine import schedule
from fairlead_scheduler.engine.preparation.pool.static_pool import StaticPool, renew_static_pool
from fairlead_scheduler.engine.round import never
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.snapshots import Builder, BuiltSnapshot
from fairlead_scheduler.snapshots.builder import SLACK
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.job_index import FEW
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.view import View, forget_names
from tests.example_numbers import EXAMPLES
from tests.properties.scheduler import plain

POOLS = ("default", "other")
CLASSES = (
    PriorityClass(name="low", value=-10),
    PriorityClass(name="default", value=0),
    PriorityClass(name="high", value=10, preemption=Preemption.URGENCY),
    PriorityClass(
        name="guest", value=0, away_node_types=(AwayNodeType(taints=(Taint("gpu"),), value=-20),)
    ),
)
RULES = Rules(max_unacknowledged_leases=2, gang_assembly_timeout_s=50)
SHAPES = (
    shapes.Shape(requests={"cpu": 1000}),
    shapes.Shape(requests={"cpu": 2000, "memory": 5}),
    shapes.Shape(requests={"cpu": 1000, "gpu": 1}),
    shapes.Shape(requests={"cpu": 1000}, node_selector={"zone": "a"}),
    shapes.Shape(requests={"cpu": 99_000}),
    shapes.Shape(
        requests={"cpu": 1000},
        preferred=(
            shapes.Preference(7, shapes.SelectorTerm((shapes.Requirement("zone", "In", ("a",)),))),
        ),
    ),
)
picks = st.integers(0, 1 << 16)


def setup_module() -> None:
    """Collect what earlier tests left. Hypothesis parses this module, and Python 3.11 fails with
    "AST constructor recursion depth mismatch" if finalizers run inside of its parser."""
    gc.collect()


class History(RuleBasedStateMachine):
    """A scheduler's state, to which anything may happen in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.view, self.clusters, self.queues = View(), Clusters(), Queues()
        self.whole = View()
        """The same history, of which no name is ever forgotten."""
        self.exact, self.lazy = self._builder(slack=0, few=0), self._builder()
        self.engine = self.exact.engine_settings()
        self.clock = RoundClock(never, self.engine)
        self.static: dict[tuple[Builder, str], StaticPool] = {}
        """What the last round of each builder and pool used of nodes, shapes and queues."""
        self.now_ms, self.number, self.version = 1_000, 0, 0
        self.excluded: set[int] = set()
        self.templates: dict[GroupId, ev.JobSubmitted] = {}
        self.stale: frozenset[str] = frozenset()
        for name in ("n0", "n1"):
            self._report(Node(executor="e0", name=name, allocatable={"cpu": 4000, "memory": 50}))

    def _report(self, node: Node) -> None:
        record = cluster_records.node_record(node)
        self.clusters.fold([Entry(0, 0, record.key, record.value, self.now_ms)])

    def _tell(self, *events: ev.AnyEvent, queue: str = "q0") -> None:
        position = self.view.positions.get(0, 0)
        sequence = ev.EventSequence(queue=queue, job_set="s", by="test", events=list(events))
        for view in (self.view, self.whole):
            job_fold.fold_messages(view, [job_fold.Message(0, position, self.now_ms, sequence)], {})

    def _some(self, pick: int, live: bool | None = None) -> JobId | None:
        """A job, if there is one: with a live run, without, or any."""
        jobs = self.view.jobs
        ids = [
            job_id
            for job_id, row in sorted(jobs.rows.items())
            if live is None or job_table.LIVE_RUN[jobs.run_state[row]] == live
        ]
        return ids[pick % len(ids)] if ids else None

    def _run(self, job_id: JobId) -> int:
        return int(self.view.jobs.run[self.view.jobs.rows[job_id]])

    @rule(
        queue=st.sampled_from(["q2", "q0", "q1"]),
        shape=st.sampled_from(SHAPES),
        count=st.integers(1, 4),
        kind=st.sampled_from(["plain", "hold", "after", "later", "gang", "retry", "waits"]),
        class_name=st.sampled_from(["default", "low", "high", "guest", "unheard"]),
        pool=st.sampled_from(POOLS),
        pick=picks,
    )
    def submit(
        self,
        queue: str,
        shape: shapes.Shape,
        count: int,
        kind: str,
        class_name: str,
        pool: str,
        pick: int,
    ) -> None:
        fields: dict[str, Any] = {}
        match kind:
            case "hold":
                fields["hold"] = True
            case "after" if (other := self._some(pick)) is not None:
                fields["after"] = (other,)
            case "later":
                fields["start_after_ms"] = self.now_ms + pick % 5_000
            case "gang":
                label = "zone" if pick % 2 else None
                fields["gang"] = Gang(f"g{pick % 3}", 3, 1 + pick % 3, label)
            case "retry":
                fields["retry"] = ev.RetryPolicy(limit=2)
            case "waits":
                fields["when_infeasible"] = "wait"
            case _:
                pass
        jobs = []
        for _ in range(count):
            self.number += 1
            jobs.append(
                ev.JobSubmitted(
                    job_id=JobId(f"j{self.number:04d}"),
                    shape=shapes.encode(shape),
                    spec=msgspec.Raw(b"{}"),
                    digest="",
                    priority=pick % 3,
                    priority_class=class_name,
                    pool=pool,
                    **fields,
                )
            )
        self._tell(*jobs, queue=queue)

    @rule(
        queue=st.sampled_from(["q0", "q1"]),
        shape=st.sampled_from(SHAPES[:4]),
        pool=st.sampled_from(POOLS),
        freeze_s=st.sampled_from([0, 20]),
        pick=picks,
    )
    def submit_group(
        self, queue: str, shape: shapes.Shape, pool: str, freeze_s: int, pick: int
    ) -> None:
        self.number += 1
        group = GroupId(f"group{self.number:04d}")
        roles = (ev.GroupRole("a", 1, 1 + pick % 2), ev.GroupRole("b", pick % 3, 2))
        terms = ev.Group(roles=roles, freeze_s=freeze_s, step_max=pick % 2)
        template = ev.JobSubmitted(
            job_id=JobId(""), shape=shapes.encode(shape), spec=msgspec.Raw(b"{}"), digest="",
            priority=pick % 3, priority_class=("default", "high")[pick % 2], pool=pool,
        )  # fmt: skip
        self.templates[group] = template
        submitted = ev.GroupSubmitted(group=group, terms=terms, digest="")
        self._tell(submitted, *self._members(group, terms), queue=queue)

    def _members(self, group: GroupId, terms: ev.Group, but: Any = ()) -> list[ev.JobSubmitted]:
        """New members for all places of a group, without those in `but`."""
        made = []
        for role in terms.roles:
            for index in range(role.max):
                if (role.name, index) not in but:
                    self.number += 1
                    member = ev.GroupMember(group, role.name, index, terms.generation)
                    job_id = JobId(f"j{self.number:04d}")
                    template = self.templates[group]
                    made.append(msgspec.structs.replace(template, job_id=job_id, group=member))
        return made

    @rule(pick=picks, how=st.sampled_from(["scale", "recreate", "restart", "run", "cancel", "end"]))
    def change_group(self, pick: int, how: str) -> None:
        if not self.view.groups:
            return
        group = sorted(self.view.groups)[pick % len(self.view.groups)]
        state = self.view.groups[group]
        terms, queue = state.terms, state.job_set.queue
        events: dict[str, ev.AnyEvent] = {
            "restart": ev.GroupRestarting(group=group, reason="", counted=True),
            "run": ev.GroupRunning(group=group),
            "cancel": ev.GroupCancelRequested(group=group),
            "end": ev.GroupFailed(group=group, reason=""),
        }
        if how in events:
            self._tell(events[how], queue=queue)
            return
        least = pick % 2
        roles = (terms.roles[0], ev.GroupRole("b", least, least + pick % 3))
        if how == "recreate":
            terms = msgspec.structs.replace(terms, generation=terms.generation + 1)
            self._tell(ev.GroupChanged(group=group, terms=terms), queue=queue)
            self._tell(*self._members(group, terms), queue=queue)
            return
        terms = msgspec.structs.replace(terms, roles=roles, step_max=pick % 3)
        rare = self.view.jobs.rare_properties
        rows = [self.view.jobs.rows[one] for one in self.view.gang_members.get(state.gang_name, ())]
        present = {
            (member.role, member.index)
            for row in rows
            if (member := rare[row].member) is not None and member.generation == terms.generation
        }
        new = self._members(group, terms, present)
        self._tell(ev.GroupChanged(group=group, terms=terms), *new, queue=queue)

    @rule(pick=picks, node=st.sampled_from(["n0", "n1", "n2", "n3"]), value=st.integers(-1, 1))
    def lease(self, pick: int, node: str, value: int) -> None:
        job_id = self._some(pick, live=False)
        if job_id is not None:
            run = self._run(job_id) + 1
            self._tell(
                ev.JobRunLeased(job_id=job_id, run=run, executor="e0", node=node, value=value)
            )

    @rule(pick=picks, kind=st.sampled_from([ev.JobRunPending, ev.JobRunRunning]))
    def move(self, pick: int, kind: type[ev.JobRunPending] | type[ev.JobRunRunning]) -> None:
        job_id = self._some(pick, live=True)
        if job_id is not None:
            self._tell(kind(job_id=job_id, run=self._run(job_id)))

    @rule(pick=picks, how=st.sampled_from(["well", "badly", "returned", "lost"]))
    def end(self, pick: int, how: str) -> None:
        job_id = self._some(pick, live=True)
        if job_id is None:
            return
        run = self._run(job_id)
        ends: dict[str, ev.AnyEvent] = {
            "well": ev.JobRunSucceeded(job_id=job_id, run=run),
            "badly": ev.JobRunFailed(
                job_id=job_id, run=run, category=FailureCategory.OOM, reason=""
            ),
            "returned": ev.JobRunReturned(job_id=job_id, run=run, reason=""),
            "lost": ev.JobRunLost(job_id=job_id, run=run, reason=""),
        }
        self._tell(ends[how])

    @rule(pick=picks, shape=st.sampled_from([None, *SHAPES]), avoids=st.booleans())
    def requeue(self, pick: int, shape: shapes.Shape | None, avoids: bool) -> None:
        job_id = self._some(pick, live=False)
        if job_id is None:
            return
        raw = msgspec.Raw(b"") if shape is None else shapes.encode(shape)
        avoid = f"e0/n{pick % 3}" if avoids else None
        self._tell(ev.JobRequeued(job_id=job_id, reason="", avoid_node=avoid, shape=raw))

    @rule(pick=picks, how=st.sampled_from(["done", "failed", "cancelled"]))
    def decide(self, pick: int, how: str) -> None:
        job_id = self._some(pick)
        if job_id is None:
            return
        ends: dict[str, ev.AnyEvent] = {
            "done": ev.JobSucceeded(job_id=job_id),
            "failed": ev.JobFailed(job_id=job_id, category=FailureCategory.OOM, reason=""),
            "cancelled": ev.JobCancelled(job_id=job_id, reason=""),
        }
        self._tell(ends[how])

    @rule(pick=picks, what=st.sampled_from(["cancel", "preempt", "release", "priority"]))
    def ask(self, pick: int, what: str) -> None:
        job_id = self._some(pick)
        if job_id is None:
            return
        lease_events: dict[str, ev.AnyEvent] = {
            "cancel": ev.JobCancelRequested(job_id=job_id),
            "preempt": ev.JobPreemptRequested(job_id=job_id),
            "release": ev.JobReleased(job_id=job_id),
            "priority": ev.JobReprioritized(job_id=job_id, priority=pick % 7),
        }
        self._tell(lease_events[what])

    @rule(queue=st.sampled_from(["q0", "q1"]), cancel=st.booleans())
    def ask_of_many(self, queue: str, cancel: bool) -> None:
        chosen = JobFilter(queue=queue)
        if cancel:
            self._tell(ev.JobsCancelRequested(filter=chosen), queue=queue)
        else:
            self._tell(ev.JobsReprioritized(filter=chosen, priority=5), queue=queue)

    @rule(pick=picks, preemptor=picks)
    def give_room(self, pick: int, preemptor: int) -> None:
        job_id = self._some(pick, live=True)
        if job_id is not None:
            self._tell(
                ev.JobRunPreempting(
                    job_id=job_id,
                    run=self._run(job_id),
                    cause=PreemptionCause.URGENCY,
                    reason="",
                    for_job=self._some(preemptor),
                )
            )

    @rule(
        name=st.sampled_from(["n0", "n1", "n2"]),
        pool=st.sampled_from(POOLS),
        cpu=st.sampled_from([2000, 4000, 8000]),
        gpus=st.integers(0, 1),
        zone=st.sampled_from(["a", "b", None]),
        closed=st.sampled_from(["no", "cordoned", "avoided"]),
    )
    def report(
        self, name: str, pool: str, cpu: int, gpus: int, zone: str | None, closed: str
    ) -> None:
        self._report(
            Node(
                executor="e1" if name == "n2" else "e0",
                name=name,
                pool=pool,
                labels={} if zone is None else {"zone": zone},
                taints=(Taint("gpu", "", "NoSchedule"),) if gpus else (),
                allocatable={"cpu": cpu, "memory": 50} | ({"gpu": 2} if gpus else {}),
                unschedulable=closed != "no",
                avoided=Avoidance(3, "x", 1) if closed == "avoided" else None,
            )
        )

    @rule(name=st.sampled_from(["n0", "n1", "n2"]))
    def lose(self, name: str) -> None:
        executor = "e1" if name == "n2" else "e0"
        self.clusters.fold([Entry(0, 0, f"{executor}/{name}", None, self.now_ms)])

    @rule(node=st.sampled_from([None, "n0"]), on=st.booleans())
    def cordon(self, node: str | None, on: bool) -> None:
        self.version += 1
        mark = configuration.Cordon(executor="e0", node=node, cordoned=on, version=self.version)
        record = configuration.record(mark)
        self.queues.fold([Entry(0, 0, record.key, record.value, 0)], self.clusters)

    @rule(name=st.sampled_from(["q0", "q1"]), order=st.sampled_from(configuration.ORDERS))
    def order_queue(self, name: str, order: str) -> None:
        self.version += 1
        queue = configuration.Queue(name=name, order=order, version=self.version)
        record = configuration.record(queue)
        self.queues.fold([Entry(0, 0, record.key, record.value, 0)], self.clusters)

    @rule(ms=st.integers(1, 40_000))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(
        picks=st.lists(picks, max_size=3), stale=st.sampled_from([frozenset(), frozenset({"e0"})])
    )
    def look_away(self, picks: list[int], stale: frozenset[str]) -> None:
        chosen = [self._some(pick) for pick in picks]
        self.excluded = {self.view.jobs.rows[job_id] for job_id in chosen if job_id is not None}
        self.stale = stale

    @rule()
    def start_from_a_checkpoint(self) -> None:
        self.view = copy.deepcopy(self.view)
        self.exact, self.lazy = self._builder(slack=0, few=0), self._builder()
        self.static.clear()

    @rule(spare=st.sampled_from([0, -100]))
    def forget_names(self, spare: int) -> None:
        forget_names(self.view, spare)

    def _builder(self, slack: int = SLACK, few: int = FEW) -> Builder:
        return Builder(CLASSES, RULES, self.view, self.clusters, self.queues, slack=slack, few=few)

    def _build(self, builder: Builder, pool: str) -> BuiltSnapshot:
        builder.update(self.now_ms, self.excluded)
        return builder.build(pool, now_ms=self.now_ms, stale=self.stale)

    @invariant()
    def jobs_have_the_names_that_they_would_have_if_none_were_forgotten(self) -> None:
        assert plain.names(self.view) == plain.names(self.whole)

    @invariant()
    def the_view_is_valid(self) -> None:
        self.view.validate()

    @invariant()
    def snapshots_say_what_the_view_says(self) -> None:
        for pool in POOLS:
            jobs = plain.jobs(self.view, self.clusters, pool, self.now_ms, self.excluded)
            gangs = plain.gangs(self.view, jobs, self.now_ms, RULES.group_freeze_s_max)
            nodes = plain.nodes(self.view, self.clusters, pool, self.stale, 2)
            for builder in (self.exact, self.lazy):
                built = self._build(builder, pool)
                assert builder.list_violations() == []
                assert plain.told_of_jobs(self.view, built) == jobs
                assert plain.told_of_gangs(built) == gangs
                assert plain.told_of_nodes(built) == nodes
                times = plain.weighted_times(self.view, self.queues, jobs, self.now_ms)
                assert plain.told_of_times(self.view, built) == times
                plain.check_kept(built)
            exact = self._build(self.exact, pool).snapshot
            assert set(exact.queue_names) == {job["queue"] for job in jobs.values()}
            assert len(exact.shape_class) == len({job["shape"] for job in jobs.values()})

    @invariant()
    def plans_are_those_of_snapshots_made_anew(self) -> None:
        for pool in POOLS:
            anew = self._build(self._builder(), pool)
            want = plain.told_of_plan(self.view, anew, schedule(anew.snapshot, self.engine))
            for builder in (self.exact, self.lazy):
                built = self._build(builder, pool)
                static = self.static.get((builder, pool))
                static = renew_static_pool(static, built.snapshot, self.engine, self.clock)
                self.static[builder, pool] = static
                plan = schedule(built.snapshot, self.engine, static=static)
                assert plain.told_of_plan(self.view, built, plan) == want


TestHistories = History.TestCase
TestHistories.settings = settings(
    max_examples=EXAMPLES or 10,
    stateful_step_count=40,
    deadline=None,
    derandomize=not EXAMPLES,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
