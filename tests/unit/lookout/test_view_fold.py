"""How the fold changes the view, one sentence at a time."""

import gc
import itertools
import weakref

from fairlead_common.domain import ids
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobFilter
from fairlead_lookout.domain import view_fold
from fairlead_lookout.domain.model import JobSet, StoredRecords
from fairlead_lookout.domain.transitions import REQUESTS_MAX
from tests.unit.lookout.builders import (
    JOB_SET,
    QUEUE,
    PlainView,
    cancel,
    failed,
    failed_run,
    job_id,
    leased,
    message,
    pending,
    requeued,
    resubmitted,
    running,
    submitted,
    succeeded,
)

URGENCY = events.PreemptionCause.URGENCY


def test_a_job_passes_all_states() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a")), message(1, leased("a"), pending("a"), running("a")))
    assert view.state("a") == "RUNNING"
    view.fold(message(2, *succeeded("a")))
    assert view.state("a") == "SUCCEEDED"
    assert view.counts() == {"SUCCEEDED": 1}
    assert view.types() == ["submitted", "leased", "pending", "running", "succeeded", "finished"]


def test_a_fold_is_freed_without_a_collection_of_garbage() -> None:
    fold = view_fold.JobFold(StoredRecords({}, {(QUEUE, JOB_SET): JobSet(1, (QUEUE, JOB_SET), 0)}))
    for _ in fold.apply([message(0, submitted("a")), message(1, leased("a"))]):
        pass
    fold.changes()
    freed = weakref.ref(fold)
    gc.disable()
    try:
        del fold
        assert freed() is None
    finally:
        gc.enable()


def test_events_name_the_user_who_requested_that_a_job_ends() -> None:
    view = PlainView()
    preempt = events.JobPreemptRequested(job_id=job_id("b"), reason="room")
    stopped = [events.JobRunStopped(job_id=job_id(name), run=1, reason="") for name in "ab"]
    view.fold(message(0, *[submitted(name) for name in "abc"], leased("a"), leased("b")))
    view.fold(message(1, cancel("a"), preempt, cancel("c"), by="ben"))
    view.fold(
        message(2, *stopped, events.JobCancelled(job_id=job_id("a"), reason=""), by="scheduler"),
        message(3, events.JobPreempted(job_id=job_id("b"), reason=""), by="scheduler"),
    )
    by = {
        (event["type"], event["jobId"]): event.get("by")
        for event in view.published[QUEUE, JOB_SET]
        if event["type"] in ("cancelling", "cancelled", "preempting", "preempted")
    }
    assert by == {
        ("cancelling", job_id("a")): "ben",
        ("cancelled", job_id("a")): "ben",
        ("preempting", job_id("b")): "ben",
        ("preempted", job_id("b")): "ben",
        ("cancelled", job_id("c")): "ben",
    }


def test_a_preemption_names_only_the_user_who_requested_that_one() -> None:
    view = PlainView()
    preempt = events.JobPreemptRequested(job_id=job_id("a"), reason="room")
    view.fold(message(0, submitted("a"), leased("a")), message(1, preempt, by="ben"))
    stopped = events.JobRunStopped(job_id=job_id("a"), run=1, reason="")
    view.fold(message(2, stopped, requeued("a"), leased("a", run=2), by="scheduler"))
    urgent = events.JobRunPreempting(job_id=job_id("a"), run=2, cause=URGENCY, reason="")
    stopped = events.JobRunStopped(job_id=job_id("a"), run=2, reason="")
    view.fold(message(3, urgent, stopped, requeued("a"), by="scheduler"))
    found = [one for one in view.published[QUEUE, JOB_SET] if one["type"] == "preempted"]
    assert [one.get("by") for one in found] == ["ben", None]


def test_the_newest_requests_of_users_are_recorded() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a")))
    for number in range(1, REQUESTS_MAX + 3):
        change = events.JobReprioritized(job_id=job_id("a"), priority=number, reason="later")
        view.fold(message(number, change, by=f"user-{number}"))
    found = view.cache.jobs[job_id("a")].user_requests
    assert [each.priority for each in found] == list(range(3, REQUESTS_MAX + 3))
    assert (found[-1].action, found[-1].by, found[-1].reason) == (
        "reprioritize",
        "user-12",
        "later",
    )


def test_the_first_submission_of_an_id_counts() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a", priority=1)))
    view.fold(message(1, submitted("a", priority=2)), message(2, submitted("a", priority=3)))
    assert view.cache.jobs[job_id("a")].priority == 1
    assert view.counts() == {"QUEUED": 1}
    assert view.types() == ["submitted"]


def test_a_submission_repeated_within_one_message_counts_once() -> None:
    view = PlainView()
    changes = view.fold(message(0, submitted("a"), submitted("a")))
    assert len(changes.submitted) == 1
    assert view.cache.job_sets[QUEUE, JOB_SET].jobs == 1


def test_a_lost_run_that_had_succeeded_is_the_success_of_its_queued_job() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), pending("a"), running("a")))
    view.fold(message(1, events.JobRunLost(job_id=job_id("a"), run=1, reason="silent")))
    view.fold(message(2, requeued("a")), message(3, *succeeded("a")))
    assert view.state("a") == "SUCCEEDED"
    run = view.runs[job_id("a"), 1]
    assert (run.state, run.reason, run.exit_code) == ("SUCCEEDED", None, 0)
    assert view.cache.job_sets[QUEUE, JOB_SET].held == {}


def test_events_of_an_unknown_job_change_nothing() -> None:
    view = PlainView()
    changes = view.fold(message(0, leased("ghost"), cancel("ghost"), *succeeded("ghost")))
    assert not changes.jobs
    assert not changes.older_runs
    assert not changes.lines


def test_a_late_event_of_an_older_run_touches_only_that_run() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), pending("a"), running("a")))
    view.fold(message(1, events.JobRunLost(job_id=job_id("a"), run=1, reason="silent")))
    view.fold(message(2, requeued("a"), leased("a", run=2)))
    type_count = len(view.types())
    view.fold(message(3, pending("a", run=1), *succeeded("a", run=1)[:1]))
    assert view.state("a") == "LEASED"
    assert view.runs[job_id("a"), 1].state == "SUCCEEDED"
    assert len(view.types()) == type_count


def test_an_older_run_that_never_ended_is_still_followed() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), running("a"), requeued("a")))
    view.fold(message(1, leased("a", run=2)))
    view.fold(message(2, failed_run("a", run=1)))
    assert view.runs[job_id("a"), 1].state == "FAILED"
    assert view.state("a") == "LEASED"


def test_a_queued_job_ends_when_its_cancellation_is_asked_for() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), cancel("a")))
    assert view.state("a") == "CANCELLED"
    assert view.published[QUEUE, JOB_SET][1]["reason"] == "enough"
    assert view.published[QUEUE, JOB_SET][1]["by"] == "anna"


def test_a_running_job_shows_that_it_is_being_cancelled_and_keeps_its_state() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), running("a"), cancel("a"), cancel("a")))
    assert view.state("a") == "RUNNING"
    assert view.cache.jobs[job_id("a")].stopping == "cancel"
    view.fold(
        message(1, events.JobRunStopped(job_id=job_id("a"), run=1, reason="asked to")),
        message(2, events.JobCancelled(job_id=job_id("a"), reason="enough")),
    )
    assert view.state("a") == "CANCELLED"
    assert view.cache.jobs[job_id("a")].stopping is None
    assert view.types()[-3:] == ["cancelling", "cancelled", "finished"]


def test_a_job_that_succeeds_while_it_is_being_cancelled_has_succeeded() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), running("a"), cancel("a")))
    view.fold(message(1, *succeeded("a")))
    assert view.state("a") == "SUCCEEDED"
    assert view.cache.jobs[job_id("a")].stopping is None


def test_a_lease_of_a_cancelled_job_creates_a_run_and_does_not_change_the_job() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), cancel("a")), message(1, leased("a")))
    assert view.state("a") == "CANCELLED"
    assert view.runs[job_id("a"), 1].state == "LEASED"
    assert view.types() == ["submitted", "cancelled", "finished"]


def test_an_ended_job_stays_as_it_ended() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), running("a"), *succeeded("a")))
    failed = events.JobFailed(
        job_id=job_id("a"), category=events.FailureCategory.OOM, reason="late"
    )
    view.fold(message(1, failed, requeued("a"), cancel("a")))
    assert view.state("a") == "SUCCEEDED"
    assert view.cache.jobs[job_id("a")].reason is None


def test_a_failed_run_is_published_with_the_decision_about_its_job() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), running("a"), failed_run("a")))
    assert view.types() == ["submitted", "leased", "running"]
    view.fold(message(1, requeued("a")))
    public_event = view.published[QUEUE, JOB_SET][3]
    assert (public_event["type"], public_event["willRetry"], public_event["exitCode"]) == (
        "runFailed",
        True,
        3,
    )
    assert view.types()[4:] == ["requeued"]
    view.fold(message(2, leased("a", run=2), failed_run("a", run=2)))
    view.fold(
        message(
            3,
            events.JobFailed(
                job_id=job_id("a"),
                category=events.FailureCategory.EXIT_CODE,
                reason="exit code 3",
                exit_code=3,
            ),
        )
    )
    assert view.types()[6:] == ["runFailed", "failed", "finished"]
    assert view.published[QUEUE, JOB_SET][6]["willRetry"] is False


def test_a_preempted_run_is_published_and_its_job_is_queued_again() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), running("a")))
    preempting = events.JobRunPreempting(
        job_id=job_id("a"),
        run=1,
        cause=events.PreemptionCause.FAIR_SHARE,
        reason="above its share",
        for_job=job_id("b"),
    )
    view.fold(message(1, preempting))
    assert view.cache.jobs[job_id("a")].stopping == "preempt"
    view.fold(message(2, requeued("a")))
    assert view.state("a") == "QUEUED"
    assert view.cache.jobs[job_id("a")].stopping is None
    assert view.runs[job_id("a"), 1].cause == "fair-share"
    assert view.types()[3:] == ["preempting", "preempted", "requeued"]
    assert view.published[QUEUE, JOB_SET][3]["forJob"] == job_id("b")


def test_the_cause_of_a_preemption_is_in_the_job_until_the_run_ends() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), running("a")))
    wanted = events.JobFilter(queue=QUEUE)
    view.fold(message(1, events.JobsPreemptRequested(filter=wanted, reason="room")))
    assert view.runs[job_id("a"), 1].cause is None
    job = view.cache.jobs[job_id("a")]
    assert (job.stop_cause, job.stop_reason) == ("request", "room")
    view.fold(message(2, events.JobRunStopped(job_id=job_id("a"), run=1, reason="asked to")))
    run = view.runs[job_id("a"), 1]
    assert (run.state, run.cause, run.reason) == ("STOPPED", "request", "room")
    view.fold(message(3, events.JobPreempted(job_id=job_id("a"), reason="room")))
    job = view.cache.jobs[job_id("a")]
    assert (job.state, job.stop_cause, job.stop_reason) == ("PREEMPTED", None, None)


def test_a_run_that_fails_while_being_preempted_has_both_reasons() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), running("a")))
    view.fold(message(1, events.JobPreemptRequested(job_id=job_id("a"), reason="room")))
    view.fold(message(2, failed_run("a"), requeued("a"), leased("a", run=2)))
    old, new = view.runs[job_id("a"), 1], view.runs[job_id("a"), 2]
    assert (old.cause, old.reason) == ("request", "exit code 3")
    assert (new.cause, new.reason) == (None, None)


def test_a_job_set_has_finished_each_time_its_last_live_job_ends() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), submitted("b"), cancel("a")))
    assert "finished" not in view.types()
    view.fold(message(1, cancel("b")))
    assert view.published[QUEUE, JOB_SET][-1]["counts"] == {"CANCELLED": 2}
    view.fold(message(2, submitted("c"), cancel("c")))
    assert view.types().count("finished") == 2


def test_a_filter_matches_the_jobs_at_its_position() -> None:
    view = PlainView()
    wanted = JobFilter(queue=QUEUE, job_set=JOB_SET)
    view.fold(message(0, submitted("before")))
    view.fold(
        message(1, submitted("same"), events.JobsCancelRequested(filter=wanted), submitted("after"))
    )
    assert view.state("before") == "CANCELLED"
    assert view.state("same") == "CANCELLED"
    assert view.state("after") == "QUEUED"


def test_a_filter_uses_the_states_at_its_position() -> None:
    view = PlainView()
    queued = JobFilter(queue=QUEUE, states=(JobState.QUEUED,))
    view.fold(message(0, submitted("a"), submitted("b"), leased("a")))
    view.fold(message(1, leased("b"), events.JobsCancelRequested(filter=queued)))
    assert view.cache.jobs[job_id("b")].stopping is None
    view.fold(message(2, requeued("a"), events.JobsCancelRequested(filter=queued)))
    assert view.state("a") == "CANCELLED"
    assert view.state("b") == "LEASED"


def test_a_filter_can_name_class_label_cluster_and_node() -> None:
    view = PlainView()
    view.fold(
        message(
            0,
            submitted("a", labels={"team": "x"}),
            submitted("b", priority_class="urgent"),
            submitted("c"),
            leased("c", node="n7"),
        )
    )
    for position, (wanted, name) in enumerate(
        [
            (JobFilter(queue=QUEUE, labels={"team": "x"}), "a"),
            (JobFilter(queue=QUEUE, classes=("urgent",)), "b"),
            (JobFilter(queue=QUEUE, executor="e", node="n7"), "c"),
        ],
        start=1,
    ):
        view.fold(message(position, events.JobsReprioritized(filter=wanted, priority=9)))
        changed = [job.id for job in view.cache.jobs.values() if job.priority == 9]
        assert job_id(name) in changed
        assert len(changed) == position


def test_a_filter_ignores_other_queues() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a")))
    view.fold(message(1, events.JobsCancelRequested(filter=JobFilter(queue="other"))))
    assert view.state("a") == "QUEUED"


def test_a_held_job_is_released_once() -> None:
    view = PlainView()
    released = events.JobReleased(job_id=job_id("a"))
    view.fold(message(0, submitted("a", hold=True)), message(1, released), message(2, released))
    assert not view.cache.jobs[job_id("a")].held
    assert view.types() == ["submitted", "queued"]


def test_no_two_events_have_the_same_id() -> None:
    view = PlainView()
    view.fold(message(4, submitted("a"), submitted("b")), message(9, leased("a")))
    partition = ids.job_set_partition(QUEUE, JOB_SET)
    assert [event["id"] for event in view.published[QUEUE, JOB_SET]] == [
        f"{partition}-{place}" for place in ("4-0", "4-1", "9-0")
    ]


def test_a_failed_job_that_is_submitted_again_is_superseded() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), leased("a"), failed_run("a"), failed("a")))
    view.fold(message(1, resubmitted("a", "a2")))
    assert view.cache.jobs[job_id("a")].superseded_by == job_id("a2")
    assert view.cache.job_sets[QUEUE, JOB_SET].superseded == 1


def test_a_job_is_superseded_only_by_its_first_resubmission() -> None:
    view = PlainView()
    view.fold(message(0, submitted("a"), cancel("a"), resubmitted("a", "a2")))
    view.fold(message(1, resubmitted("a", "a3")))
    assert view.cache.jobs[job_id("a")].superseded_by == job_id("a2")
    assert view.cache.job_sets[QUEUE, JOB_SET].superseded == 1


def test_jobs_that_are_live_or_succeeded_are_not_superseded() -> None:
    view = PlainView()
    view.fold(message(0, submitted("live"), submitted("done"), leased("done"), *succeeded("done")))
    view.fold(message(1, resubmitted("live", "b"), resubmitted("done", "c")))
    assert view.cache.jobs[job_id("live")].superseded_by is None
    assert view.cache.jobs[job_id("done")].superseded_by is None
    assert view.cache.job_sets[QUEUE, JOB_SET].superseded == 0


def test_a_job_is_not_superseded_from_another_job_set() -> None:
    view = PlainView()
    other = next(
        name
        for name in map("s{}".format, itertools.count())
        if ids.job_set_partition(QUEUE, name) == ids.job_set_partition(QUEUE, JOB_SET)
    )
    view.fold(message(0, submitted("a"), cancel("a")))
    view.fold(message(1, resubmitted("a", "b", other), job_set=other))
    assert view.cache.jobs[job_id("a")].superseded_by is None
    assert view.cache.job_sets[QUEUE, JOB_SET].superseded == 0
