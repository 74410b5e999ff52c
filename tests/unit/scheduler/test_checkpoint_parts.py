"""Buckets, clusters, units: the small parts."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.ids import JobId, RunId
from fairlead_common.domain.records import clusters as records
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Avoidance, Heartbeat, Node
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.domain.records.leases import DesiredState
from fairlead_common.log import Entry, Record
from fairlead_scheduler.rules.append_batches import (
    LEASES_PER_APPEND_MAX,
    AppendBatch,
    group_into_appends,
)
from fairlead_scheduler.rules.lease_changes import LeaseChange, lease_state
from fairlead_scheduler.snapshots.tables.node_table import AllNodes
from fairlead_scheduler.state.cluster_state import Clusters
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs.job_table import JobSet
from fairlead_scheduler.state.pool_rules import Rate, Rules
from fairlead_scheduler.state.queue_state import Queues
from fairlead_scheduler.state.token_buckets import Bucket, PoolBuckets, SavedBuckets
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import leased, message, submitted


def entry(record: Record, time_ms: int = 0) -> Entry:
    return Entry(0, 0, record.key, record.value, time_ms)


def heartbeat(executor: str) -> Entry:
    return entry(records.heartbeat_record(Heartbeat(executor=executor)))


def node(name: str, **fields: object) -> Entry:
    made = Node(executor="e0", name=name, allocatable={"cpu": 1})
    return entry(records.node_record(msgspec.structs.replace(made, **fields)))


def test_a_bucket_starts_full_refills_by_time_and_never_overflows() -> None:
    bucket = Bucket(Rate(per_second=2, burst=5))
    assert bucket.tokens(0) == 5
    bucket.take(5, 0)
    assert bucket.tokens(1_000) == 2
    assert bucket.tokens(60_000) == 5


def test_a_bucket_without_a_rate_never_runs_dry() -> None:
    bucket = Bucket(None)
    bucket.take(1e9, 0)
    assert bucket.tokens(0) == float("inf")


def test_time_before_the_last_use_adds_no_tokens() -> None:
    bucket = Bucket(Rate(per_second=2, burst=5))
    bucket.take(5, 10_000)
    assert bucket.tokens(1_000) == 0
    assert bucket.tokens(10_500) == 1


RATES = Rules(
    rate=Rate(per_second=1, burst=10),
    queue_rate=Rate(per_second=1, burst=4),
    preemption_rate=Rate(per_second=1, burst=2),
)


def test_folding_leases_gives_the_levels_of_the_buckets() -> None:
    view = View(PoolBuckets(RATES))
    jobs = [submitted(name) for name in ("a", "b", "c")]
    job_fold.fold_messages(
        view, [message(0, *jobs), message(1, leased("a"), leased("b"), leased("a"))], {}
    )
    at_ms = 1_000
    buckets = view.buckets.pool("default")
    assert (buckets.all.tokens(at_ms), buckets.queue("q").tokens(at_ms)) == (8, 2)
    job_fold.fold_messages(view, [message(1, leased("c"))], {})  # read again: it changes nothing
    assert buckets.all.tokens(at_ms) == 8


def test_fair_share_preemptions_of_a_gang_use_tokens_and_urgency_none() -> None:
    view = View(PoolBuckets(RATES))
    jobs = [submitted(name) for name in ("a", "b", "c", "x", "y")]
    job_fold.fold_messages(
        view, [message(0, *jobs, *(leased(name) for name in ("a", "b", "c")))], {}
    )
    causes = (("a", "fair-share", "x"), ("b", "gang", "x"), ("c", "urgency", "y"))
    preempting = [
        ev.JobRunPreempting(
            job_id=JobId(name),
            run=1,
            cause=ev.PreemptionCause(cause),
            reason="",
            for_job=JobId(preemptor),
        )
        for name, cause, preemptor in causes
    ]
    job_fold.fold_messages(view, [message(1, *preempting)], {})
    assert view.buckets.pool("default").preemptions.tokens(1_000) == 0


def test_saved_buckets_have_the_same_levels() -> None:
    before = PoolBuckets(RATES)
    before.pool("p").take_start_tokens("q", 4, 1_000)
    levels = msgspec.json.decode(msgspec.json.encode(before.save()), type=dict[str, SavedBuckets])
    after = PoolBuckets(RATES, levels).pool("p")
    assert after.queue("q").tokens(2_000) == 1
    assert after.all.tokens(2_000) == 7
    assert after.preemptions.tokens(2_000) == 2


def test_silence_counts_only_while_the_log_is_read() -> None:
    clusters = Clusters()
    clusters.fold([heartbeat("e0"), heartbeat("e1")])
    clusters.add_silence(5)
    assert clusters.find_silent_executors(0) == frozenset()
    clusters.fold([heartbeat("e1")])
    clusters.add_silence(31)
    assert clusters.find_silent_executors(30) == {"e0"}
    clusters.fold([heartbeat("e0")])
    clusters.add_silence(1)
    assert clusters.find_silent_executors(0) == {"e1"}


def test_a_node_that_comes_back_has_its_old_number() -> None:
    clusters = Clusters()
    clusters.fold([node("n0"), node("n1"), Entry(0, 0, "e0/n0", None, 0), node("n2"), node("n0")])
    assert {name.node: number for name, number in clusters.numbers.items()} == {
        "n0": 0,
        "n1": 1,
        "n2": 2,
    }


def test_saved_numbers_override_those_of_a_standby() -> None:
    clusters = Clusters()
    clusters.fold([node("n0"), node("n1")])
    clusters.restore_numbers({("e0", "n1"): 7})
    assert {name.node: number for name, number in clusters.numbers.items()} == {"n1": 7, "n0": 8}
    assert clusters.unsaved == [("e0", "n0", 8)]


def test_cordons_and_unschedulable_nodes_exclude_new_runs() -> None:
    clusters, nodes = Clusters(), AllNodes()

    def cordoned() -> list[bool]:
        nodes.update(clusters)
        found: list[bool] = nodes.of("default").cordoned.tolist()
        return found

    clusters.fold([node("n0"), node("n1", unschedulable=True)])
    assert cordoned() == [False, True]
    for mark in (Cordon(executor="e0"), Cordon(executor="e0", node="n0")):
        clusters.cordon(mark)
        assert cordoned() == [True, True]
        clusters.cordon(msgspec.structs.replace(mark, cordoned=False))
        assert cordoned() == [False, True]
    clusters.fold([node("n0", unschedulable=True), node("n1")])
    assert cordoned() == [True, False]


def test_an_avoided_node_is_excluded_too_until_a_report_without_it() -> None:
    clusters, nodes = Clusters(), AllNodes()
    avoided = node("n0", unschedulable=True, avoided=Avoidance(3, "no disk", 60_000))
    for report, excluded in ((avoided, True), (node("n0"), False)):
        clusters.fold([report])
        nodes.update(clusters)
        assert nodes.of("default").avoided.tolist() == [excluded]
        assert nodes.of("default").cordoned.tolist() == [excluded]


def test_the_higher_version_of_a_queue_counts() -> None:
    queues, clusters = Queues(), Clusters()
    newer, older = Queue(name="a", version=2, weight=2.0), Queue(name="a", version=1, weight=1.0)
    for queue in (newer, older):
        queues.fold([entry(configuration.record(queue))], clusters)
    assert queues.get("a").weight == 2.0


ODD_QUEUES = {
    "weight 0": (Queue(name="a", weight=0), "not above 0"),
    "a negative weight": (Queue(name="a", weight=-3), "not above 0"),
    "an unreadable limit": (Queue(name="a", limits={"p": {"cpu": "lots"}}), "is not a quantity"),
    "a negative fraction": (Queue(name="a", limits={"p": {"cpu": -0.5}}), "not a fraction"),
}


@pytest.mark.parametrize(("odd", "why"), ODD_QUEUES.values(), ids=ODD_QUEUES.keys())
def test_an_invalid_queue_record_is_tolerated(odd: Queue, why: str) -> None:
    queues = Queues()
    queues.fold([entry(configuration.record(odd))], Clusters())
    found = queues.get("a")
    assert found.weight == 1.0
    assert not any(found.limits.values())
    assert why in queues.invalid_records["queue/a"]
    queues.fold([entry(configuration.record(Queue(name="a", version=2)))], Clusters())
    assert not queues.invalid_records


def test_an_unreadable_record_is_skipped_and_reported() -> None:
    clusters, queues = Clusters(), Queues()
    bad = Entry(0, 0, "e0/n0", b'{"type":"node","allocatable":{"cpu":null}}', 0)
    clusters.fold([bad, node("n1")])
    queues.fold([Entry(0, 0, "queue/a", b'{"type":"queue","weight":null}', 0)], clusters)
    assert [name.node for name in clusters.nodes] == ["n1"]
    assert "cannot be decoded" in clusters.invalid_records["e0/n0"]
    assert "cannot be decoded" in queues.invalid_records["queue/a"]


def test_a_node_with_negative_amounts_has_zero_and_is_reported() -> None:
    clusters = Clusters()
    clusters.fold([node("n0", allocatable={"cpu": -4})])
    assert "less than 0 of cpu" in clusters.invalid_records["e0/n0"]
    clusters.fold([node("n0", allocatable={"cpu": 4})])
    assert not clusters.invalid_records


def leases_of(number: int, count: int) -> tuple[LeaseChange, ...]:
    """So many leases that belong together."""
    runs = [RunId(f"{number}-{n}") for n in range(count)]
    return tuple(
        LeaseChange(run, lease_state("e", DesiredState.RUN), Record("fairlead.leases.e", run, b"x"))
        for run in runs
    )


def unit(number: int, leases: int) -> AppendBatch:
    """A unit of one fact and so many leases."""
    fact = ev.JobSucceeded(job_id=JobId(f"j{number}"))
    return AppendBatch(((JobSet("q", f"s{number % 3}"), fact),), leases_of(number, leases))


@given(st.lists(st.integers(0, 900), max_size=30))
def test_appends_contain_whole_batches_and_stay_within_bounds(sizes: list[int]) -> None:
    units = [unit(number, leases) for number, leases in enumerate(sizes)]
    seen_leases: list[str] = []
    seen_jobs: list[str] = []
    for appended, changes, _ in group_into_appends(units):
        leases = [r for r in appended if r.topic != "fairlead.jobs"]
        assert len(leases) <= LEASES_PER_APPEND_MAX
        jobs = [
            event.job_id
            for record in appended
            if record.topic == "fairlead.jobs" and record.value is not None
            for event in ev.decode(record.value).events
            if isinstance(event, ev.JobSucceeded)
        ]
        assert [change.record for change in changes] == leases
        numbers = {record.key.split("-")[0] for record in leases}
        assert {f"j{n}" for n in numbers} <= set(jobs)
        seen_jobs += jobs
        seen_leases += [record.key for record in leases]
    assert sorted(seen_jobs) == sorted(f"j{n}" for n in range(len(sizes)))
    assert len(seen_leases) == len(set(seen_leases)) == sum(sizes)


def test_appends_of_nothing_but_leases_stay_within_bounds_too() -> None:
    units = [
        AppendBatch((), leases_of(number, 1)) for number in range(2 * LEASES_PER_APPEND_MAX + 1)
    ]
    sizes = [len(append.records) for append in group_into_appends(units)]
    assert sizes == [LEASES_PER_APPEND_MAX, LEASES_PER_APPEND_MAX, 1]
