"""What is said after a round, and what is not said twice."""

from collections.abc import Sequence

from fairlead_common.domain.ids import GroupId, JobId, RunId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import scheduling_reports
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.records.events import Gang
from fairlead_common.domain.records.group_terms import Topology, TopologyMode
from fairlead_common.domain.records.leases import DesiredState
from fairlead_common.domain.records.scheduling_reports import (
    GroupNearness,
    QueueShare,
    Report,
    RoundReport,
    WaitingReport,
)
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.rules.housekeeping import Housekeeping
from fairlead_scheduler.rules.lease_changes import Leases, LeaseState
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.service.reporter import Reporter
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import fold, leased, message, submitted
from tests.unit.scheduler.test_groups import ID, announced, job

SETTINGS = SchedulerSettings()
CLASSES = [item.name for item in SETTINGS.priority_classes]


def harness_of(view: View, cores: Sequence[int], *queues: Queue) -> SchedulerHarness:
    """A scheduler with these jobs and queues, and a node of each of these sizes."""
    harness = SchedulerHarness(view=view)
    for number, count in enumerate(cores):
        node = Node(executor="e0", name=f"n{number}", allocatable={"cpu": 1000 * count})
        harness.report_node(node)
    harness.configure(*queues)
    return harness


def said(
    view: View,
    cores: Sequence[int],
    *queues: Queue,
    reporter: Reporter | None = None,
    leases: Leases | None = None,
    now_ms: int = 10_000,
) -> dict[str, Report]:
    """What a round of the default pool says, by key."""
    harness = harness_of(view, cores, *queues)
    decider = harness.make_decider(SETTINGS, leases=leases)
    decisions: Housekeeping = decider.decide_housekeeping(now_ms)
    decided = decider.decide_round("default", decisions, now_ms, lambda: 0.0)
    assert decided is not None
    made = (reporter or Reporter(CLASSES)).report_round(
        view,
        decided.built,
        decided.plan,
        harness.queues,
        decisions.unconfirmed,
        now_ms=now_ms,
        steps_ms={},
    )
    return {
        record.key: scheduling_reports.decode(record.value)
        for record in made
        if record.value is not None
    }


def waiting(found: dict[str, Report]) -> WaitingReport:
    """The only reason."""
    (one,) = [report for report in found.values() if isinstance(report, WaitingReport)]
    return one


def test_a_queue_report_has_skipped_jobs_by_reason_and_the_first_job() -> None:
    view = fold([submitted("a"), submitted("b"), submitted("c")])
    share = said(view, (1,))["default/q"]
    assert isinstance(share, QueueShare)
    assert (share.scheduled, share.queued) == (1, 2)
    assert share.skipped == {"insufficient-resources": 2}
    assert (share.first_waiting, share.first_position) == ("b", 1)


def test_reports_beyond_the_limit_follow_in_later_rounds() -> None:
    kinds = [shapes.encode(shapes.Shape(requests={"cpu": 1000 * cpu})) for cpu in range(2, 9)]
    view = fold([submitted(f"j{at}", shape=kind) for at, kind in enumerate(kinds)])
    reporter, keys = Reporter(CLASSES, reports_max=4), set[str]()
    for turn in range(5):
        found = said(view, (), reporter=reporter)
        assert len(found) <= 4
        keys |= {key for key, report in found.items() if isinstance(report, WaitingReport)}
        if not reporter.has_more("default"):
            break
        assert turn < 4
    assert len(keys) == len(kinds)


def test_jobs_of_a_pool_without_nodes_have_that_reason() -> None:
    """Also where a limit of their queue, a fraction of the pool, is 0."""
    for queue in (Queue(name="q"), Queue(name="q", limits={"default": {"cpu": 0.5}})):
        found = said(fold([submitted("a")]), (), queue)
        assert (waiting(found).code, waiting(found).sentence) == (
            "no-matching-node",
            "Pool default has no nodes. Start an executor that reports nodes in this pool.",
        )
        share = found["default/q"]
        assert isinstance(share, QueueShare)
        assert share.skipped == {"no-matching-node": 1}


def test_jobs_of_a_cordoned_queue_have_its_author_and_reason() -> None:
    queue = Queue(name="q", cordoned=True, reason="holiday")
    found = waiting(said(fold([submitted("a")]), (1,), queue))
    assert (found.code, found.sentence) == (
        "queue-cordoned",
        "Queue q is cordoned (holiday): it starts no new jobs until it is uncordoned.",
    )


def test_jobs_of_a_deleted_queue_wait_with_that_reason() -> None:
    queue = Queue(name="q", deleted=True)
    found = waiting(said(fold([submitted("a")]), (1,), queue))
    assert found.code == "queue-cordoned"
    assert "was deleted" in found.sentence


def test_jobs_of_a_removed_class_continue_with_a_note() -> None:
    view = fold([submitted(name, priority_class="gone") for name in ("a", "b")])
    found = waiting(said(view, (1,)))
    assert "Priority class gone is no longer configured" in found.sentence


def test_the_reason_in_a_fair_queue_says_how_many_jobs_are_ahead() -> None:
    """G11."""
    small = shapes.encode(shapes.Shape(requests={"cpu": 500}))
    view = fold([submitted("a", shape=small), submitted("b"), submitted("c")])
    stopped = ev.JobRunStopped(job_id=JobId("a"), run=1, reason="preempted")
    again = ev.JobRequeued(job_id=JobId("a"), reason="preempted")
    job_fold.fold_messages(view, [message(1, leased("a"), time_ms=0)], {})
    job_fold.fold_messages(view, [message(2, stopped, again, time_ms=90_000)], {})
    found = said(view, (1,), Queue(name="q", order="fair"), now_ms=95_000)
    reports = [report for report in found.values() if isinstance(report, WaitingReport)]
    sentences = {report.shape: report.sentence for report in reports}
    assert len(sentences) == 2
    ahead = " Queue q is ordered by weighted running time: 1 job is ahead."
    assert [sentence.endswith(ahead) for sentence in sentences.values()].count(True) == 1
    shares = found["default/q"]
    assert isinstance(shares, QueueShare)
    assert (shares.first_waiting, shares.first_position) == ("c", 1)


def test_members_that_wait_for_stopping_ones_have_that_reason() -> None:
    both = [submitted(name, gang=Gang(name="g", size=2)) for name in ("a", "b")]
    returned = ev.JobRunReturned(job_id=JobId("a"), run=1, reason="no room")
    view = fold(both, [leased("a"), leased("b", node="n1")], [returned])
    decider = harness_of(view, (1, 1)).make_decider(SETTINGS)
    for unit in decider.decide_housekeeping(5_000).batches():
        job_fold.fold_messages(
            view, [message(view.positions[0], *(event for _, event in unit.facts))], {}
        )
    found = waiting(said(view, (1, 1)))
    assert (found.code, found.gang, found.jobs) == ("gang-stopping", "g", 1)
    assert found.sentence.startswith("Members of gang g are being stopped.")


def test_members_of_a_group_that_wait_for_stopping_ones_name_no_id() -> None:
    runs = [leased(job(name)) for name in ("ps-0", "trainer-0")]
    stops = ev.JobRunPreempting(
        job_id=job("ps-0"), run=1, cause=ev.PreemptionCause.GROUP, reason="the group restarts"
    )
    returned = ev.JobRunReturned(job_id=job("trainer-0"), run=1, reason="no room")
    requeued = ev.JobRequeued(job_id=job("trainer-0"), reason="no room")
    view = fold(announced(), [*runs, stops, returned, requeued])
    found = said(view, (1,))[f"default/q/g/s/{ID}"]
    assert isinstance(found, WaitingReport)
    assert (found.code, found.sentence) == (
        "gang-stopping",
        "Members of the group are being stopped. The others wait until these have ended, so that"
        " all members start together.",
    )


def test_jobs_whose_lost_run_perhaps_exists_have_that_reason() -> None:
    """By kind, and by gang: all members of a gang wait for the run of one."""
    both = [submitted(name, gang=Gang(name="g", size=2)) for name in ("b", "c")]
    lost = [ev.JobRunLost(job_id=JobId(name), run=1, reason="silent") for name in ("a", "b", "c")]
    again = [ev.JobRequeued(job_id=JobId(name), reason="lost") for name in ("a", "b", "c")]
    starts = [leased("a"), leased("b"), leased("c")]
    view = fold([submitted("a"), *both], starts, lost, again)
    leases = Leases()
    leases.by_run = {
        RunId(f"{name}-1"): LeaseState("e0", DesiredState.STOP, given_up=True) for name in "ab"
    }
    leases.given_up = {RunId("a-1"): JobId("a"), RunId("b-1"): JobId("b")}
    found = said(view, (1, 1), leases=leases)
    reasons = [report for report in found.values() if isinstance(report, WaitingReport)]
    assert {(report.code, report.gang) for report in reasons} == {
        ("lost-run", ""),
        ("lost-run", "g"),
    }
    assert all("perhaps still exists" in report.sentence for report in reasons)


def test_unchanged_reports_are_not_repeated() -> None:
    view, reporter = fold([submitted("a")]), Reporter(CLASSES)
    assert len(said(view, (), reporter=reporter)) == 3
    assert said(view, (), reporter=reporter) == {}


def test_a_failing_pool_is_the_reason_of_its_waiting_jobs() -> None:
    gang = Gang(name="g", size=2)
    view, reporter = fold([submitted("a"), submitted("b", gang=gang)]), Reporter(CLASSES)
    said(view, (0,), reporter=reporter)
    made = reporter.report_failure(view, "default", "ValueError: bad", now_ms=20_000)
    found = [scheduling_reports.decode(record.value) for record in made if record.value is not None]
    reasons = [report for report in found if isinstance(report, WaitingReport)]
    assert {(report.code, report.gang) for report in reasons} == {
        ("pool-failing", ""),
        ("pool-failing", "g"),
    }
    assert all("ValueError: bad" in report.sentence for report in reasons)
    (round_,) = [report for report in found if isinstance(report, RoundReport)]
    assert (round_.outcome, round_.error, round_.waiting) == ("failed", "ValueError: bad", 2)
    assert reporter.report_failure(view, "default", "ValueError: bad", now_ms=21_000) == []
    again = said(view, (0,), reporter=reporter)["default"]
    assert isinstance(again, RoundReport)
    assert again.outcome == "finished"


def test_a_running_group_with_a_topology_has_a_report_of_its_hops() -> None:
    """T5. It is written once."""
    group = GroupId(JobId("0k01kzm9q5n7s8t9v2w3x4y5z6g1"))
    topology = Topology(mode=TopologyMode.PREFERRED)
    terms = ev.Group(roles=(ev.GroupRole("w", 2, 2),), topology=topology)
    announced = ev.GroupSubmitted(group=group, terms=terms, digest="")
    names = [submitted(f"w{n}", group=ev.GroupMember(group, "w", n)) for n in range(2)]
    view, reporter = fold([announced, *names]), Reporter(CLASSES)
    found = said(view, [1, 1], reporter=reporter).values()
    (report,) = [each for each in found if isinstance(each, GroupNearness)]
    assert (report.group, report.job_set, report.hops) == (group, "s", {"w": 2})
    again = said(view, [1, 1], reporter=reporter).values()
    assert not any(isinstance(each, GroupNearness) for each in again)
