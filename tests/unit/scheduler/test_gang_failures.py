"""What the end of one member means for its gang."""

import time

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_common.domain.records.events import FailureCategory, Gang, PreemptionCause
from fairlead_common.domain.records.leases import DesiredState
from fairlead_scheduler.rules.append_batches import AppendBatch
from fairlead_scheduler.state import view_validation
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import fold, leased, message, state, submitted
from tests.unit.scheduler.test_housekeeping import decide, events, held, kept

A, B, C = JobId("a"), JobId("b"), JobId("c")
RETURNED = ev.JobRunReturned(job_id=A, run=1, reason="no room")


def gang_of(*names: str, min_size: int | None = None, **fields: object) -> list[ev.AnyEvent]:
    """The submissions of a gang."""
    gang = Gang(name="g", size=len(names), min_size=min_size)
    return [submitted(name, gang=gang, **fields) for name in names]


def started(*names: str) -> list[ev.AnyEvent]:
    """Each got a node of its own."""
    return [leased(name, node=f"n{number}") for number, name in enumerate(names)]


def stops(units: list[AppendBatch]) -> set[str]:
    """The runs whose lease now asks them to stop."""
    records = [change.record for unit in units for change in unit.leases]
    return {
        record.key
        for record in records
        if record.value is not None
        and leases.decode(record.value).desired_state is DesiredState.STOP
    }


def back(view: View, *found: ev.AnyEvent) -> None:
    """The decisions come back through the log."""
    job_fold.fold_messages(view, [message(view.positions[0], *found)], {})


def test_a_member_that_cannot_start_requeues_its_gang_in_one_append() -> None:
    view = fold(gang_of("a", "b", "c"), started("a", "b", "c"), [RETURNED])
    (unit,) = decide(view, held("a-1", "b-1", "c-1"))
    requeued, *others = events([unit])
    assert isinstance(requeued, ev.JobRequeued)
    assert (requeued.job_id, requeued.counted, requeued.avoid_node) == (A, False, "e0/n0")
    assert {event.job_id for event in others if isinstance(event, ev.JobRunPreempting)} == {B, C}
    for event in others:
        assert isinstance(event, ev.JobRunPreempting)
        assert (event.cause, event.for_job) == (PreemptionCause.GANG, None)
        assert "gang g returns to the queue: member a could not start on e0/n0" in event.reason
    assert stops([unit]) == {"b-1", "c-1"}


def test_other_members_are_requeued_without_using_a_retry() -> None:
    view = fold(gang_of("a", "b", on_preemption="fail"), started("a", "b"), [RETURNED])
    back(view, *events(decide(view, held("a-1", "b-1"))))
    assert decide(view, held("b-1", desired_state=DesiredState.STOP)) == []
    back(view, ev.JobRunStopped(job_id=B, run=1, reason="asked to"))
    (event,) = events(decide(view, held("b-1", desired_state=DesiredState.STOP)))
    assert isinstance(event, ev.JobRequeued)
    assert not event.counted
    assert "member a could not start" in event.reason
    back(view, event)
    assert (state(view, "a"), state(view, "b")) == ("QUEUED", "QUEUED")


def test_members_wait_until_all_stopping_members_have_ended() -> None:
    view = fold(gang_of("a", "b"), started("a", "b"), [RETURNED])
    back(view, *events(decide(view, held("a-1", "b-1"))))
    excluded = marked(view)
    assert excluded == {"a", "b"}


def marked(view: View) -> set[str]:
    """The jobs that a round must leave alone."""
    return {view.jobs.rows.id_at(row) for row in kept(view, held()).excluded}


def test_a_member_above_min_size_is_requeued_alone() -> None:
    view = fold(gang_of("a", "b", "c", min_size=2), started("a", "b", "c"), [RETURNED])
    (event,) = events(decide(view, held("a-1", "b-1", "c-1")))
    assert isinstance(event, ev.JobRequeued)


def test_a_failure_before_the_start_of_a_member_counts_as_a_return() -> None:
    failed = ev.JobRunFailed(
        job_id=A, run=1, category=FailureCategory.START, reason="no such command"
    )
    view = fold(gang_of("a", "b"), started("a", "b"), [failed])
    requeued, other = events(decide(view, held("a-1", "b-1")))
    assert isinstance(requeued, ev.JobRequeued)
    assert not requeued.counted
    assert isinstance(other, ev.JobRunPreempting)


def test_a_member_that_failed_after_its_start_ends_alone() -> None:
    failed = ev.JobRunFailed(
        job_id=A, run=1, category=FailureCategory.EXIT_CODE, reason="exit code 3"
    )
    running = ev.JobRunRunning(job_id=A, run=1)
    view = fold(gang_of("a", "b"), started("a", "b"), [running, failed])
    (event,) = events(decide(view, held("a-1", "b-1")))
    assert isinstance(event, ev.JobFailed)


def test_a_gang_that_can_never_start_fails_as_a_whole_with_one_reason() -> None:
    view = fold(gang_of("a", "b", "c"), started("a", "b", "c"))
    for run in (1, 2, 3):
        back(view, ev.JobRunReturned(job_id=A, run=run, reason="no room"))
        found = events(decide(view, held(f"a-{run}", f"b-{run}", f"c-{run}")))
        back(view, *found)
        if run == 3:
            break
        for other in (B, C):
            back(view, ev.JobRunStopped(job_id=other, run=run, reason="asked to"))
        back(view, *events(decide(view, held())))
        nodes = [f"n{run * 3 + at}" for at in range(3)]
        back(view, *(leased(n, run + 1, at) for n, at in zip("abc", nodes, strict=True)))
    assert state(view, "a") == "FAILED"
    back(view, ev.JobRunStopped(job_id=B, run=3, reason="asked to"))
    back(view, ev.JobRunStopped(job_id=C, run=3, reason="asked to"))
    ends = events(decide(view, held()))
    assert [type(event) for event in ends] == [ev.JobFailed, ev.JobFailed]
    reasons = {event.reason for event in ends if isinstance(event, ev.JobFailed)}
    assert reasons == {
        "gang member a could not start: 3 nodes could not start the job;"
        " the last one reported: no room"
    }


def test_a_member_that_is_requeued_as_its_gang_fails_ends_too() -> None:
    view = fold(gang_of("a", "b"), started("a", "b"))
    for run in (1, 2):
        back(view, ev.JobRunReturned(job_id=A, run=run, reason="no room"))
        back(view, *events(decide(view, held(f"a-{run}", f"b-{run}"))))
        back(view, ev.JobRunStopped(job_id=B, run=run, reason="asked to"))
        back(view, *events(decide(view, held())))
        back(view, leased("a", run + 1, f"n{run}"), leased("b", run + 1, "n9"))
    back(view, *(ev.JobRunReturned(job_id=job, run=3, reason="no room") for job in (A, B)))
    both = events(decide(view, held("a-3", "b-3")))
    assert {type(event) for event in both} == {ev.JobFailed, ev.JobRequeued}
    back(view, *both)
    assert view_validation.list_view_violations(view) == []
    (end,) = events(decide(view, held()))
    assert isinstance(end, ev.JobFailed)
    assert (end.job_id, end.category) == (B, FailureCategory.ADMISSION)


def test_a_queued_member_that_is_cancelled_leaves_the_others_waiting() -> None:
    view = fold(gang_of("a", "b"), [ev.JobCancelRequested(job_id=A)])
    assert decide(view, held()) == []
    assert state(view, "b") == "QUEUED"


def test_a_later_member_with_other_gang_terms_fails_alone() -> None:
    first, later = Gang(name="g", size=3, min_size=2), Gang(name="g", size=2)
    view = fold([submitted("a", gang=first)], [submitted("b", gang=later)])
    (failed,) = events(decide(view, held()))
    assert isinstance(failed, ev.JobFailed)
    assert (failed.job_id, failed.category) == (B, FailureCategory.ADMISSION)
    assert failed.reason == (
        "gang g was submitted with size 3, minSize 2, rest wait,"
        " but this member was submitted with size 2, minSize 2, rest wait"
    )
    back(view, failed)
    assert state(view, "a") == "QUEUED"
    job_fold.fold_messages(view, [message(view.positions[0], submitted("c", gang=first))], {})
    assert view.gang_members[job_table.GangName("q", "s", "g")] == {A, C}


def test_a_stopping_member_does_not_hide_one_that_cannot_start() -> None:
    asked = ev.JobPreemptRequested(job_id=A)
    stopped = ev.JobRunStopped(job_id=A, run=1, reason="asked to")
    returned = ev.JobRunReturned(job_id=B, run=1, reason="no room")
    view = fold(gang_of("a", "b", "c"), started("a", "b", "c"), [asked], [stopped], [returned])
    assert stops(decide(view, held("a-1", "b-1", "c-1"))) == {"c-1"}


def test_a_member_of_a_failed_gang_fails() -> None:
    failed = ev.JobFailed(job_id=A, category=FailureCategory.ADMISSION, reason="no node")
    view = fold(gang_of("a", "b", "c")[:2], started("a"), [RETURNED], [failed])
    back(view, gang_of("a", "b", "c")[2])
    ended = [event for event in events(decide(view, held())) if isinstance(event, ev.JobFailed)]
    assert {event.job_id for event in ended} == {B, C}


def test_a_large_gang_without_a_start_fails_quickly() -> None:
    names = [f"m{number}" for number in range(2_000)]
    start, why = FailureCategory.START, "no such command"
    fails = [ev.JobRunFailed(job_id=JobId(n), run=1, category=start, reason=why) for n in names]
    view = fold(gang_of(*names), started(*names), fails)
    begun_s = time.process_time()
    decided = events(decide(view, held(*(f"{name}-1" for name in names))))
    back(view, *(ev.JobFailed(job_id=JobId(n), category=start, reason=why) for n in names))
    assert len(decided) == len(names)
    assert time.process_time() - begun_s < 2.0
