"""The story of a job, as people read it."""

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.events import EventSequence, FailureCategory, JobFilter
from fairlead_common.domain.story import build_story

JOB = JobId("0".ljust(28, "0"))
OTHER = JobId("0".ljust(28, "1"))
SHAPE = {"shape": b"{}", "spec": b"{}", "digest": ""}


def submitted(job_id: JobId = JOB, **fields: object) -> ev.JobSubmitted:
    """A submission."""
    return ev.JobSubmitted(job_id=job_id, **SHAPE, **fields)  # type: ignore[arg-type]


def leased(run: int, job_id: JobId = JOB) -> ev.JobRunLeased:
    """A run on node n1 of e1."""
    return ev.JobRunLeased(job_id=job_id, run=run, executor="e1", node="n1")


def story_of(*events: ev.AnyEvent) -> list[tuple[str, str | None, str]]:
    """(Text, state, why it changes nothing) of the entries about the job."""
    sequence = EventSequence(queue="q", job_set="s", by="anna", events=list(events))
    entries = build_story(JOB, [(0, sequence)])
    return [(e.text, e.state and e.state.value, e.ignored) for e in entries]


def test_a_job_that_is_tried_twice() -> None:
    story = story_of(
        submitted(priority=7, client_id="trial"),
        leased(1),
        leased(1, OTHER),
        ev.JobRunPending(job_id=JOB, run=1),
        ev.JobRunRunning(job_id=JOB, run=1),
        ev.JobRunFailed(
            job_id=JOB, run=1, category=FailureCategory.OOM, reason="over 1 GiB", exit_code=137
        ),
        ev.JobRequeued(job_id=JOB, reason="retry 1 of 2", counted=True, avoid_node="n1"),
        leased(2),
        ev.JobRunRunning(job_id=JOB, run=2),
        ev.JobRunSucceeded(job_id=JOB, run=2),
        ev.JobSucceeded(job_id=JOB),
    )
    submission = (
        "submitted to queue q, job set s, class default, priority 7, pool default, client id trial"
    )
    assert story == [
        (submission, "QUEUED", ""),
        ("run 1 leased to node n1 of e1, pool default", "LEASED", ""),
        ("run 1 accepted by its executor", "PENDING", ""),
        ("run 1 started", "RUNNING", ""),
        ("run 1 failed (oom, exit code 137): over 1 GiB", "RUNNING", ""),
        ("queued again, counted as a retry, node n1 is avoided: retry 1 of 2", "QUEUED", ""),
        ("run 2 leased to node n1 of e1, pool default", "LEASED", ""),
        ("run 2 started", "RUNNING", ""),
        ("run 2 succeeded", "RUNNING", ""),
        ("succeeded", "SUCCEEDED", ""),
    ]


def test_events_that_change_nothing_say_why() -> None:
    story = story_of(
        ev.JobReleased(job_id=JOB),
        submitted(),
        submitted(priority=9),
        ev.JobReleased(job_id=JOB),
        ev.JobReprioritized(job_id=JOB, priority=0),
        ev.JobRunRunning(job_id=JOB, run=1),
        leased(1),
        leased(2),
        leased(2),
        ev.JobRunPreempting(job_id=JOB, run=1, cause=ev.PreemptionCause.GANG, reason=""),
        ev.JobRunLost(job_id=JOB, run=1, reason="silent"),
        ev.JobRunLost(job_id=JOB, run=1, reason="silent"),
        ev.JobPreemptRequested(job_id=JOB),
        ev.JobPreemptRequested(job_id=JOB),
        ev.JobRejected(job_id=JOB, code="x", reason=""),
        ev.JobCancelled(job_id=JOB, reason=""),
        ev.JobSucceeded(job_id=JOB),
        ev.JobReprioritized(job_id=JOB, priority=1),
    )
    assert [ignored for _, _, ignored in story] == [
        "the log has no submission of this job before",
        "",
        "the first submission of an id counts",
        "it is not held",
        "it has this priority",
        "the log has no lease of run 1",
        "",
        "it was LEASED",
        "run 2 was leased before",
        "its newest run is 2, not 1",
        "",
        "run 1 was LOST",
        "",
        "its run was being stopped (STOP_PREEMPT)",
        "it was LEASED",
        "",
        "it ended as CANCELLED",
        "it ended as CANCELLED",
    ]


def test_a_bulk_request_belongs_to_the_story_of_the_jobs_that_match_it() -> None:
    here = JobFilter(queue="q", executor="e1", states=(JobState.LEASED,))
    story = story_of(
        submitted(labels={"team": "a"}, hold=True, after=(OTHER,), start_after_ms=0),
        ev.JobsPreemptRequested(filter=here),
        ev.JobsReprioritized(filter=JobFilter(queue="q", labels={"team": "b"}), priority=1),
        ev.JobsReprioritized(filter=JobFilter(queue="q", labels={"team": "a"}), priority=1),
        leased(1),
        ev.JobsPreemptRequested(filter=here, reason="maintenance"),
        ev.JobsCancelRequested(filter=JobFilter(queue="q", job_set="s")),
        ev.JobCancelled(job_id=JOB, reason="by anna"),
        ev.JobsCancelRequested(filter=JobFilter(queue="q")),
    )
    assert [(text, state) for text, state, ignored in story if not ignored][1:] == [
        ("priority set to 1, with all jobs that match a filter", "QUEUED"),
        ("run 1 leased to node n1 of e1, pool default", "LEASED"),
        ("preemption requested, with all jobs that match a filter: maintenance", "LEASED"),
        ("cancellation requested, with all jobs that match a filter", "LEASED"),
        ("cancelled: by anna", "CANCELLED"),
    ]
    assert story[0][0].endswith(f"held, after {OTHER}, not before 1970-01-01T00:00:00.000Z")
    assert len(story) == 6


def test_a_line_has_time_state_event_and_author() -> None:
    sequence = EventSequence(
        queue="q", job_set="s", by="anna", events=[submitted(), ev.JobReleased(job_id=JOB)]
    )
    _, released = build_story(JOB, [(1_000, sequence)])
    assert released.line() == (
        "1970-01-01T00:00:01.000Z  QUEUED     released (changes nothing: it is not held) [anna]"
    )
