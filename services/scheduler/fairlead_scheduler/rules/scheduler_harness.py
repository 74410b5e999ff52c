"""A scheduler without a process: its state, which is fed with events and records, and its rounds.
Pure.

Worked cases, simulations, the warm-up of the kernels, benches and tests use it, so that all of them
fold and decide as the service does. Only the source of the records differs: the service reads them
from the log (`service/follower.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import clusters as cluster_records
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat, Node
from fairlead_common.domain.scheduling.priority_classes import DEFAULT_CLASSES, PriorityClass
from fairlead_common.log import Entry
from fairlead_common.log.protocol import Record
from fairlead_scheduler.engine import EngineSettings, Plan, schedule
from fairlead_scheduler.rules.decider import Decider, DeciderSettings, Engine
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.snapshots import Builder, BuiltSnapshot
from fairlead_scheduler.snapshots.builder import SLACK
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.job_table import EndedJob
from fairlead_scheduler.state.pool_rules import Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.token_buckets import Buckets, PoolBuckets
from fairlead_scheduler.state.view import View


class SchedulerHarness:
    """The jobs, nodes and queues of a scheduler, and the rounds that it decides about them.

    Events and records are folded as if they came from a log with one partition; `position` is the
    next position there. Rounds are decided by `run_round`, one pool at a time and whether anything
    changed or not, or, with housekeeping and the limits of the service, by a `make_decider`.
    """

    def __init__(
        self,
        rules: Rules | None = None,
        classes: Sequence[PriorityClass] = DEFAULT_CLASSES,
        *,
        view: View | None = None,
    ) -> None:
        """`view`: of jobs that were folded before; by default empty, with full buckets."""
        self.rules = rules or Rules()
        self.classes = tuple(classes)
        self.view = view or View(PoolBuckets(self.rules))
        self.clusters = Clusters()
        self.queues = Queues()
        self.position = 0

    # The state ----------------------------------------------------------------------------

    def fold_events(
        self,
        queue: str,
        events: Sequence[ev.AnyEvent],
        *,
        time_ms: int = 0,
        job_set: str = "s",
        by: str = "harness",
        known: Mapping[JobId, EndedJob] | None = None,
    ) -> None:
        """Fold events as one record of a job set. `known`: ended jobs that the events mention."""
        sequence = ev.EventSequence(queue=queue, job_set=job_set, by=by, events=[*events])
        message = job_fold.Message(0, self.position, time_ms, sequence)
        job_fold.fold_messages(self.view, [message], known or {})
        self.position += 1

    def fold_cluster_records(self, *records: Record, time_ms: int = 0) -> None:
        """Fold records of `fairlead.clusters`."""
        self.clusters.fold(_entries(records, time_ms))

    def report_node(self, node: Node, *, time_ms: int = 0) -> None:
        """Add or change a node. The first node of an executor is reported with a heartbeat."""
        if node.executor not in self.clusters.heard:
            heartbeat = cluster_records.heartbeat_record(Heartbeat(executor=node.executor))
            self.fold_cluster_records(heartbeat, time_ms=time_ms)
        self.fold_cluster_records(cluster_records.node_record(node), time_ms=time_ms)

    def configure(self, *items: configuration.Queue | configuration.Cordon) -> None:
        """Fold queues and cordons, which must have the version after their last one."""
        records = [configuration.record(item) for item in items]
        self.queues.fold(_entries(records, 0), self.clusters)

    # Decisions ----------------------------------------------------------------------------

    @cached_property
    def builder(self) -> Builder:
        """The snapshot builder of `run_round`."""
        return Builder(self.classes, self.rules, self.view, self.clusters, self.queues)

    def engine_settings(self, pool: str = "default") -> EngineSettings:
        """The settings of the rounds of a pool."""
        return self.builder.engine_settings(pool)

    def build_snapshot(
        self,
        pool: str = "default",
        *,
        now_ms: int = 0,
        stale: Iterable[str] = (),
        buckets: Buckets | None = None,
    ) -> BuiltSnapshot:
        """The snapshot of a pool. `stale`: executors to which nothing new goes.

        `buckets`: by default the view's, from which folded starts take tokens.
        """
        self.builder.update(now_ms)
        return self.builder.build(
            pool,
            now_ms=now_ms,
            stale=frozenset(stale),
            buckets=buckets or self.view.buckets.pool(pool),
        )

    def run_round(self, pool: str = "default", *, now_ms: int = 0) -> tuple[BuiltSnapshot, Plan]:
        """Decide a round of a pool. Its decisions are not folded."""
        built = self.build_snapshot(pool, now_ms=now_ms)
        plan = schedule(built.snapshot, self.engine_settings(pool))
        self.builder.remember_feasible(built, plan)
        return built, plan

    def make_decider(
        self,
        settings: DeciderSettings,
        *,
        leases: Leases | None = None,
        began_ms: int = 0,
        engine: Engine = schedule,
        slack: int = SLACK,
    ) -> Decider:
        """A leader's decider over this state as it is now. `settings` have the harness's rules."""
        return Decider(
            settings,
            self.view,
            self.clusters,
            self.queues,
            leases or Leases(),
            began_ms=began_ms,
            engine=engine,
            slack=slack,
        )


def _entries(records: Iterable[Record], time_ms: int) -> list[Entry]:
    return [Entry(0, 0, record.key, record.value, time_ms) for record in records]
