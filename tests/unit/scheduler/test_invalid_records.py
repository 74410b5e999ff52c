"""Whatever the log holds, a cycle decides without raising: odd queues, nodes, classes and gangs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import clusters as records
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Heartbeat, Node
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.domain.records.events import FailureCategory, Gang, RetryPolicy
from fairlead_common.domain.scheduling import shapes
from fairlead_common.domain.scheduling.priority_classes import PriorityClass
from fairlead_common.domain.scheduling.shapes import Taint
from fairlead_common.log import Entry, Record
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.service.reporter import Reporter
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.pool_rules import Rate, Rules
from tests.example_numbers import EXAMPLES
from tests.unit.scheduler.facts import leased, message, submitted

NAMES = [f"j{number}" for number in range(8)]
SETTINGS = SchedulerSettings(
    priority_classes=(
        PriorityClass(name="default", value=0),
        PriorityClass(name="high", value=9, limits={"cpu": 0.5}),
    ),
    rules=Rules(
        protected_fraction_of_fair_share=0,
        rate=Rate(per_second=1, burst=3),
        floating={"licence": 2.0},
        gang_assembly_timeout_s=5,
    ),
)

amounts = st.sampled_from([-5, 0, 1, 1000, 4000, 2**44])
shape = st.builds(
    lambda cpu, other, much: shapes.encode(shapes.Shape(requests={"cpu": cpu, other: much})),
    st.sampled_from([0, 500, 1000, 2**44]),
    st.sampled_from(["memory", "licence", "gpu"]),
    st.integers(0, 3),
)
gang = st.sampled_from(
    [
        Gang(name="pair", size=2),
        Gang(name="loose", size=4, min_size=1, rest="fail"),
        Gang(name="rack", size=3, min_size=2, uniformity_label="rack"),
        Gang(name="pair", size=3),
    ]
)
retry = st.builds(
    RetryPolicy,
    limit=st.integers(0, 2),
    on=st.just((FailureCategory.OOM, FailureCategory.START)),
    memory_factor=st.sampled_from([1.0, 16.0]),
    avoid_node=st.booleans(),
)
jobs = st.builds(
    lambda name, **fields: submitted(name, **fields),
    st.sampled_from(NAMES),
    shape=shape,
    priority_class=st.sampled_from(["default", "high", "gone"]),
    gang=st.none() | gang,
    retry=st.none() | retry,
    when_infeasible=st.sampled_from(["wait", "reject"]),
    runtime_s_max=st.sampled_from([None, 1]),
)
run_events = st.builds(
    lambda kind, name, run: kind(JobId(name), run),
    st.sampled_from(
        [
            lambda job_id, run: leased(job_id, run, "n0"),
            lambda job_id, run: leased(job_id, run, "nowhere"),
            lambda job_id, run: ev.JobRunRunning(job_id=job_id, run=run),
            lambda job_id, run: ev.JobRunReturned(job_id=job_id, run=run, reason="no"),
            lambda job_id, run: ev.JobRunFailed(
                job_id=job_id, run=run, category=FailureCategory.OOM, reason="no"
            ),
            lambda job_id, run: ev.JobCancelRequested(job_id=job_id),
            lambda job_id, run: ev.JobPreemptRequested(job_id=job_id),
        ]
    ),
    st.sampled_from(NAMES),
    st.integers(1, 2),
)
nodes = st.builds(
    lambda name, cpu, label, taints: records.node_record(
        Node(
            executor="e0",
            name=name,
            allocatable={"cpu": cpu, "memory": 2**44, "gpu": cpu},
            labels=label,
            taints=taints,
        )
    ),
    st.sampled_from(["n0", "n1", "n2"]),
    amounts,
    st.sampled_from([{}, {"rack": "a"}, {"rack": "b"}]),
    st.sampled_from([(), (Taint(key="k", effect="Nonsense"),)]),
)
cluster_records = st.one_of(
    nodes,
    st.just(records.heartbeat_record(Heartbeat(executor="e0"))),
    st.just(records.removed_node_record("e0", "n0")),
)
configured = st.one_of(
    st.builds(
        Queue,
        name=st.just("q"),
        version=st.integers(1, 5),
        weight=st.sampled_from([-1.0, 0.0, 1.0, 1e300]),
        cordoned=st.booleans(),
        deleted=st.booleans(),
        order=st.sampled_from(["fifo", "fair", "lifo"]),
        limits=st.sampled_from(
            [{}, {"high": {"cpu": "x"}}, {"gone": {"cpu": 0.1}}, {"default": {"nothing": "1"}}]
        ),
        retry_policy=st.none() | retry,
    ),
    st.builds(Cordon, executor=st.just("e0"), version=st.integers(1, 5), cordoned=st.booleans()),
).map(configuration.record)


def entry(record: Record) -> Entry:
    return Entry(0, 0, record.key, record.value, 0)


@settings(max_examples=EXAMPLES or 75)
@given(
    turns=st.lists(
        st.tuples(
            st.lists(st.one_of(jobs, jobs, run_events), max_size=6),
            st.lists(cluster_records, max_size=4),
            st.lists(configured, max_size=2),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_cycle_never_raises_and_its_decisions_can_be_folded(
    turns: list[tuple[list[ev.AnyEvent], list[Record], list[Record]]],
) -> None:
    harness = SchedulerHarness(SETTINGS.rules)
    view, clusters, queues = harness.view, harness.clusters, harness.queues
    decider = harness.make_decider(SETTINGS)
    reporter = Reporter(item.name for item in SETTINGS.priority_classes)
    for turn, (events, cluster, configuration_) in enumerate(turns):
        now_ms = 4_000 * turn
        job_fold.fold_messages(
            view, [message(view.positions.get(0, 0), *events, time_ms=now_ms)], {}
        )
        clusters.fold(map(entry, cluster))
        clusters.add_silence(40)
        queues.fold(map(entry, configuration_), clusters)
        housekeeping = decider.decide_housekeeping(now_ms)
        units = list(housekeeping.batches())
        for pool in decider.pools():
            decided = decider.decide_round(pool, housekeeping, now_ms, lambda: 0.0)
            if decided is None:
                continue
            reporter.report_round(
                view, decided.built, decided.plan, queues, now_ms=now_ms, steps_ms={}
            )
            reporter.report_failure(view, pool, "as if", now_ms=now_ms)
            units += decider.make_batches(decided)
        for unit in units:
            for _, event in unit.facts:
                if isinstance(event, ev.JobRunLeased):
                    assert event.node in {name.node for name in clusters.nodes}
            facts = [event for _, event in unit.facts]
            if facts:
                job_fold.fold_messages(
                    view, [message(view.positions[0], *facts, time_ms=now_ms)], {}
                )
