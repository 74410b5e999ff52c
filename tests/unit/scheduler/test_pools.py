"""Pools are whatever jobs and nodes name: anybody may name as many as he likes."""

from fairlead_common import clusters as records
from fairlead_common import configuration, reports
from fairlead_common import events as ev
from fairlead_common.clusters import Heartbeat, Node
from fairlead_common.configuration import Queue
from fairlead_common.ids import JobId
from fairlead_common.log import Entry, Record
from fairlead_common.reports import QueueShare
from fairlead_scheduler.buckets import PoolBuckets
from fairlead_scheduler.clusters import Clusters
from fairlead_scheduler.deciding import Decider
from fairlead_scheduler.leasing import Leases
from fairlead_scheduler.queues import Queues
from fairlead_scheduler.reporting import Reporter
from fairlead_scheduler.settings import Rate, Rules, SchedulerSettings
from fairlead_scheduler.snapshots.builder import BARE_POOLS_MAX
from fairlead_scheduler.view import apply
from fairlead_scheduler.view.columns import View
from fairlead_scheduler.view.ending import LINGER_MS
from fairlead_scheduler.view.forgetting import forget_names
from tests.unit.scheduler.facts import fold, message, submitted


def tell(clusters: Clusters, *told: Record) -> None:
    clusters.apply([Entry(0, 0, record.key, record.value, 0) for record in told])


def view_with_many_pools(count: int) -> View:
    """So many pools were named before job `a` named one more, `late`."""
    view = fold()
    for number in range(count):
        view.jobs.pools.number(f"p{number}")
    apply.apply(view, [message(0, submitted("a", pool="late"))], {})
    return view


def test_a_job_is_folded_however_many_pools_were_named_before() -> None:
    view = view_with_many_pools(1 << 16)
    assert view.jobs.pools.values[view.jobs.pool[view.jobs.rows[JobId("a")]]] == "late"


def test_of_pools_without_nodes_so_many_are_looked_at_and_another_when_its_nodes_come() -> None:
    view, clusters = view_with_many_pools(BARE_POOLS_MAX), Clusters()
    decider = Decider(SchedulerSettings(), view, clusters, Queues(), Leases(), began_ms=0)
    decider.round("p0", decider.due(0), 0, lambda: 0.0)
    assert len(decider.pools()) == BARE_POOLS_MAX
    assert "late" not in decider.pools()
    tell(
        clusters,
        records.heartbeat_record(Heartbeat(executor="e")),
        records.node_record(
            Node(executor="e", name="n", pool="late", allocatable={"cpu": 4000, "memory": 2**30})
        ),
    )
    clusters.tick(1)
    assert "late" in decider.pools()
    decided = decider.round("late", decider.due(1), 1, lambda: 0.0)
    assert decided is not None
    assert decided.plan.placed_job.size == 1


def reported(pool: str, queues: int) -> dict[str, bytes]:
    """What an earlier leader said of queues of this pool."""
    made = [
        reports.record(
            QueueShare(
                pool=pool,
                queue=f"q{number}",
                weight=1.0,
                weight_share=0.1,
                fair_share=0.1,
                uncapped_share=0.1,
                actual_share=0.1,
                demand_share=0.1,
                queued=1,
                running=0,
            )
        )
        for number in range(queues)
    ]
    return {record.key: record.value for record in made if record.value is not None}


def test_what_was_said_of_a_pool_that_is_gone_is_taken_back_a_part_at_a_time() -> None:
    reporter = Reporter(reports_max=3)
    gone, here = reported("gone", 5), reported("here", 1)
    reporter.read_back({**gone, **here})
    taken_back = [record for _ in range(3) for record in reporter.forget(["here", "new"])]
    assert {record.key for record in taken_back} == gone.keys()
    assert all(record.value is None for record in taken_back)
    assert reporter.forget(["here", "new"]) == []


def test_pools_come_and_go_without_end() -> None:
    view, clusters = fold(), Clusters()
    decider = Decider(SchedulerSettings(), view, clusters, Queues(), Leases(), began_ms=0)
    for number in range(30):
        job, at, time_ms = f"j{number}", 2 * number, LINGER_MS * number
        told = message(at, submitted(job, pool=f"p{number}"), time_ms=time_ms)
        apply.apply(view, [told], {})
        decider.round(f"p{number}", decider.due(0), 0, lambda: 0.0)
        over = message(at + 1, ev.JobCancelRequested(job_id=JobId(job)), time_ms=time_ms)
        apply.apply(view, [over], {})
        forget_names(view, spare=3)
    decider.due(0)
    assert len(decider.pools()) <= 6
    assert len(view.jobs.pools) <= 6


def test_buckets_that_are_full_again_are_forgotten() -> None:
    rules = Rules(queue_rate=Rate(per_second=1.0, burst=10), rate=Rate(per_second=100.0, burst=100))
    buckets = PoolBuckets(rules)
    for number in range(100):
        buckets.pool(f"p{number % 10}").started(f"q{number}", 5, 1_000 * number)
    levels = buckets.levels()
    assert sum(len(each.queues) for each in levels.values()) <= 10
    assert buckets.levels() == levels
    assert buckets.pool("p1").queue("q1").tokens(100_000) == 10


def test_buckets_without_rates_are_not_kept() -> None:
    buckets = PoolBuckets(Rules())
    for number in range(100):
        buckets.pool(f"p{number}").started(f"q{number}", 5, 1_000)
    assert buckets.levels() == {}


def test_a_queue_that_submit_has_forgotten_is_forgotten() -> None:
    queues, clusters = Queues(), Clusters()
    record = configuration.record(Queue(name="q", version=3, weight=5.0, deleted=True))
    queues.apply([Entry(0, 0, record.key, record.value, 0)], clusters)
    version = queues.version
    queues.apply([Entry(0, 1, record.key, None, 0)], clusters)
    assert not queues.by_name
    assert queues.version > version


def test_a_job_that_ends_before_what_it_waits_for_is_waited_with_no_more() -> None:
    view = fold([submitted("b", after=("never",))])
    assert view.dependents.keys() == {"never"}
    apply.apply(view, [message(1, ev.JobCancelRequested(job_id=JobId("b")))], {})
    assert view.dependents == {}
