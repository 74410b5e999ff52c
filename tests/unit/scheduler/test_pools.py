"""Pools are whatever jobs and nodes name: anybody may name as many as he likes."""

from typing import Any

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import configuration, scheduling_reports
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.records.scheduling_reports import QueueShare
from fairlead_common.log import Entry, Record
from fairlead_scheduler.engine import EngineSettings, Plan, Snapshot, schedule
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.service.reporter import Reporter
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.snapshots.builder import BARE_POOLS_MAX
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.folds.end_events import ROW_RELEASE_DELAY_MS
from fairlead_scheduler.state.pool_rules import PoolRules, Rate, Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.token_buckets import PoolBuckets, SavedBuckets
from fairlead_scheduler.state.view import View, forget_names
from tests.unit.scheduler.facts import fold, message, submitted


def tell(clusters: Clusters, *cluster_records: Record) -> None:
    clusters.fold([Entry(0, 0, record.key, record.value, 0) for record in cluster_records])


def view_with_many_pools(count: int) -> View:
    """So many pools were named before job `a` named one more, `late`."""
    view = fold()
    for number in range(count):
        view.jobs.pools.number(f"p{number}")
    job_fold.fold_messages(view, [message(0, submitted("a", pool="late"))], {})
    return view


def test_a_job_is_folded_however_many_pools_were_named_before() -> None:
    view = view_with_many_pools(1 << 16)
    assert view.jobs.pools.values[view.jobs.pool[view.jobs.rows[JobId("a")]]] == "late"


def test_pools_without_nodes_are_limited_until_they_get_nodes() -> None:
    harness = SchedulerHarness(view=view_with_many_pools(BARE_POOLS_MAX))
    decider = harness.make_decider(SchedulerSettings())
    decider.decide_round("p0", decider.decide_housekeeping(0), 0, lambda: 0.0)
    assert len(decider.pools()) == BARE_POOLS_MAX
    assert "late" not in decider.pools()
    harness.report_node(
        Node(executor="e", name="n", pool="late", allocatable={"cpu": 4000, "memory": 2**30})
    )
    harness.clusters.add_silence(1)
    assert "late" in decider.pools()
    decided = decider.decide_round("late", decider.decide_housekeeping(1), 1, lambda: 0.0)
    assert decided is not None
    assert decided.plan.placed_job.size == 1


def reported(pool: str, queues: int) -> dict[str, bytes]:
    """What an earlier leader said of queues of this pool."""
    made = [
        scheduling_reports.record(
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


def test_reports_of_a_removed_pool_are_deleted_in_parts() -> None:
    reporter = Reporter(reports_max=3)
    gone, here = reported("gone", 5), reported("here", 1)
    reporter.restore({**gone, **here})
    taken_back = [record for _ in range(3) for record in reporter.retract_pools(["here", "new"])]
    assert {record.key for record in taken_back} == gone.keys()
    assert all(record.value is None for record in taken_back)
    assert reporter.retract_pools(["here", "new"]) == []


def test_pools_can_be_added_and_removed_without_limit() -> None:
    harness = SchedulerHarness()
    view, decider = harness.view, harness.make_decider(SchedulerSettings())
    for number in range(30):
        job, at, time_ms = f"j{number}", 2 * number, ROW_RELEASE_DELAY_MS * number
        cluster_records = message(at, submitted(job, pool=f"p{number}"), time_ms=time_ms)
        job_fold.fold_messages(view, [cluster_records], {})
        decider.decide_round(f"p{number}", decider.decide_housekeeping(0), 0, lambda: 0.0)
        over = message(at + 1, ev.JobCancelRequested(job_id=JobId(job)), time_ms=time_ms)
        job_fold.fold_messages(view, [over], {})
        forget_names(view, spare=3)
    decider.decide_housekeeping(0)
    assert len(decider.pools()) <= 6
    assert len(view.jobs.pools) <= 6


def test_full_buckets_are_removed() -> None:
    rules = Rules(queue_rate=Rate(per_second=1.0, burst=10), rate=Rate(per_second=100.0, burst=100))
    buckets = PoolBuckets(rules)
    for number in range(100):
        buckets.pool(f"p{number % 10}").take_start_tokens(f"q{number}", 5, 1_000 * number)
    levels = buckets.save()
    assert sum(len(each.queues) for each in levels.values()) <= 10
    assert buckets.save() == levels
    assert buckets.pool("p1").queue("q1").tokens(100_000) == 10


def test_buckets_without_rates_are_not_stored() -> None:
    buckets = PoolBuckets(Rules())
    for number in range(100):
        buckets.pool(f"p{number}").take_start_tokens(f"q{number}", 5, 1_000)
    assert buckets.save() == {}


GPU_RULES = Rules(
    placement="spread",
    rate=Rate(per_second=1.0, burst=2),
    floating={"licences": 5},
    class_limits={"default": {"cpu": 0.5}},
    pools={
        "gpu": PoolRules(placement="pack", rate=None, floating={"seats": 3}, lookback=7),
        "slow": PoolRules(queue_rate=Rate(per_second=1.0, burst=1)),
    },
)


def test_a_pool_has_its_own_rules_over_those_of_all() -> None:
    gpu, slow, other = (GPU_RULES.for_pool(name) for name in ("gpu", "slow", "other"))
    assert other is GPU_RULES
    assert (gpu.placement, gpu.lookback, gpu.rate) == ("pack", 7, None)
    assert gpu.floating == {"seats": 3}, "a value is replaced as a whole"
    assert gpu.class_limits == GPU_RULES.class_limits
    assert (slow.placement, slow.rate) == ("spread", GPU_RULES.rate)


def test_buckets_are_those_of_the_pools_rules() -> None:
    buckets = PoolBuckets(GPU_RULES)
    assert buckets.pool("gpu").all.burst == PoolBuckets(Rules()).pool("gpu").all.burst
    assert buckets.pool("other").all.burst == 2
    assert buckets.pool("slow").queue("q").burst == 1
    levels = {"slow": SavedBuckets(all=None, preemptions=None, queues={})}
    assert PoolBuckets(GPU_RULES, levels).pool("slow").queue("q").burst == 1


def test_each_round_uses_the_rules_of_its_pool() -> None:
    harness = SchedulerHarness(GPU_RULES)
    asked = {}

    def engine(snapshot: Snapshot, settings: EngineSettings, **more: Any) -> Plan:
        asked[snapshot.pool] = (settings.placement, settings.lookback, snapshot.floating)
        return schedule(snapshot, settings, **more)

    for at, pool in enumerate(("gpu", "other")):
        harness.fold_events("q", [submitted(f"j{at}", pool=pool)])
        node = Node(executor="e", name=pool, pool=pool, allocatable={"cpu": 4000, "memory": 2**40})
        harness.report_node(node)
    harness.clusters.add_silence(1)
    decider = harness.make_decider(SchedulerSettings(rules=GPU_RULES), engine=engine)
    for pool in decider.pools():
        decider.decide_round(pool, decider.decide_housekeeping(1), 1, lambda: 0.0)
    assert asked["gpu"] == ("pack", 7, ("seats",))
    assert asked["other"] == ("spread", 0, ("licences",))


def test_a_queue_deleted_by_submit_is_removed() -> None:
    queues, clusters = Queues(), Clusters()
    record = configuration.record(Queue(name="q", version=3, weight=5.0, deleted=True))
    queues.fold([Entry(0, 0, record.key, record.value, 0)], clusters)
    version = queues.version
    queues.fold([Entry(0, 1, record.key, None, 0)], clusters)
    assert not queues.by_name
    assert queues.version > version


def test_an_ended_job_is_removed_from_the_dependents() -> None:
    view = fold([submitted("b", after=("never",))])
    assert view.dependents.keys() == {"never"}
    job_fold.fold_messages(view, [message(1, ev.JobCancelRequested(job_id=JobId("b")))], {})
    assert view.dependents == {}


def test_jobs_start_at_their_rate_after_the_clock_was_set_back() -> None:
    """By an hour: a bucket refills from the first round on that sees it."""
    rules = Rules(rate=Rate(per_second=1.0, burst=2))
    harness = SchedulerHarness(rules)
    harness.report_node(Node(executor="e0", name="n0", allocatable={"cpu": 9000}))
    decider = harness.make_decider(SchedulerSettings(rules=rules))

    def count_starts(now_ms: int) -> int:
        made = decider.decide_round(
            "default", decider.decide_housekeeping(now_ms), now_ms, lambda: 0.0
        )
        assert made is not None
        facts = [fact for batch in decider.make_batches(made) for _, fact in batch.facts]
        if facts:
            harness.fold_events("q", facts, time_ms=now_ms)
        return len(facts)

    hour_ms = 3_600_000
    jobs = [submitted(f"j{number}") for number in range(8)]
    harness.fold_events("q", jobs, time_ms=hour_ms)
    assert [count_starts(hour_ms), count_starts(hour_ms)] == [2, 0]
    later_ms = hour_ms - 30_000
    assert count_starts(later_ms) == 0, "clocks differ a little: nothing is refilled"
    assert [count_starts(now_ms) for now_ms in (0, 500, 1_000, 3_500)] == [0, 0, 1, 2]
