"""The life cycles of jobs and runs: what the table promises to every fold."""

from collections.abc import Mapping
from typing import TypeVar, get_args

import pytest

from fairlead_common.domain.lifecycle import (
    JOB_ENDED,
    JOB_STEPS,
    JOB_WITH_RUN,
    LIFE_CYCLE,
    NO_FLAG,
    REQUEST_CANCEL,
    REQUEST_PREEMPTION,
    RUN_ENDED,
    RUN_STEPS,
    STOPPING,
    JobFlag,
    JobState,
    RunState,
    is_impossible,
)
from fairlead_common.domain.records import events
from tests.unit.common import goldens

S = TypeVar("S", JobState, RunState)

JOB_TAGS = {tag for _, tag in JOB_STEPS}
RUN_TAGS = {tag for _, tag in RUN_STEPS}
GROUP_TAGS = {
    goldens.tag_of(kind)
    for kind in get_args(events.AnyEvent)
    if issubclass(kind, events.GroupEvent | events.ArrayEvent)
}
UNION_TAGS = {goldens.tag_of(kind) for kind in get_args(events.AnyEvent)}

NO_STEP = {
    "jobSubmitted": "it makes the job",
    "jobReleased": "a held job is QUEUED before and after",
    "jobPreemptRequested": "the run is asked to stop; the scheduler decides what follows",
    "jobsPreemptRequested": "as jobPreemptRequested",
    "jobReprioritized": "its place changes, not its state",
    "jobsReprioritized": "as jobReprioritized",
    "jobRunPreempting": "the run is asked to stop and holds its room until it has",
}
"""Events after which a job and its run are in the state in which they were, and why."""


def reached(steps: Mapping[tuple[S, str], S], start: S) -> set[S]:
    """Every state that some sequence of events leads to."""
    found, new = {start}, {start}
    while new:
        new = {to for (state, _), to in steps.items() if state in new} - found
        found |= new
    return found


def test_an_ended_job_stays_as_it_ended() -> None:
    assert not [state for state, _ in JOB_STEPS if state in JOB_ENDED]


def test_an_ended_run_is_final_except_a_lost_run_that_succeeded() -> None:
    leaving = {key: to for key, to in RUN_STEPS.items() if key[0] in RUN_ENDED}
    assert leaving == {(RunState.LOST, "jobRunSucceeded"): RunState.SUCCEEDED}


def test_every_state_of_a_job_can_be_reached_and_left_or_is_final() -> None:
    assert reached(JOB_STEPS, JobState.QUEUED) == set(JobState)
    assert {state for state, _ in JOB_STEPS} == set(JobState) - JOB_ENDED


def test_every_state_of_a_run_can_be_reached_and_left_or_is_final() -> None:
    assert reached(RUN_STEPS, RunState.LEASED) == set(RunState)
    assert {state for state, _ in RUN_STEPS} == set(RunState) - RUN_ENDED | {RunState.LOST}


def test_a_job_waits_holds_capacity_or_has_ended() -> None:
    assert {JobState.QUEUED} | JOB_WITH_RUN | JOB_ENDED == set(JobState)
    assert not JOB_WITH_RUN & JOB_ENDED


def test_the_tables_name_only_events_that_exist() -> None:
    assert JOB_TAGS | RUN_TAGS <= UNION_TAGS


def test_the_table_has_a_row_for_every_event() -> None:
    assert LIFE_CYCLE.keys() == UNION_TAGS


def test_every_event_has_a_step_or_a_reason_to_have_none() -> None:
    explained = JOB_TAGS | RUN_TAGS | NO_STEP.keys() | GROUP_TAGS
    assert explained == UNION_TAGS
    assert not (JOB_TAGS | RUN_TAGS) & NO_STEP.keys()


def test_every_flag_can_be_set_and_those_about_a_run_are_cleared_with_it() -> None:
    changes = [
        change for effect in LIFE_CYCLE.values() for change in (*effect.flags, *effect.others)
    ]
    sets = [flag for change in changes for flag in change.sets]
    assert set(sets) == set(JobFlag)
    requeued = LIFE_CYCLE["jobRequeued"].flags[0].apply(STOPPING | JobFlag.CAPACITY_REASSIGNED)
    assert requeued == NO_FLAG


def test_a_cancellation_comes_through_a_preemption_and_not_the_other_way_round() -> None:
    running = JobState.RUNNING
    assert REQUEST_CANCEL.applies(running, JobFlag.STOP_PREEMPT)
    assert not REQUEST_PREEMPTION.applies(running, JobFlag.STOP_CANCEL)
    assert not REQUEST_CANCEL.applies(running, JobFlag.STOP_CANCEL)
    assert not REQUEST_CANCEL.applies(JobState.QUEUED, NO_FLAG)


def test_only_a_decision_about_a_job_in_another_state_is_impossible() -> None:
    assert is_impossible(JobState.SUCCEEDED, "jobRequeued")
    assert is_impossible(JobState.RUNNING, "jobRunLeased")
    assert not is_impossible(JobState.RUNNING, "jobRequeued")
    reports = RUN_TAGS | {"jobCancelRequested", "jobReleased", "jobRunPreempting"}
    assert not any(is_impossible(state, tag) for state in JobState for tag in reports)


def test_a_decision_about_a_queued_job_may_find_it_cancelled() -> None:
    found = {tag for tag in UNION_TAGS if not is_impossible(JobState.CANCELLED, tag)}
    assert found >= {"jobRunLeased", "jobRejected", "jobFailed", "jobCancelled", "jobSucceeded"}
    assert not found & {"jobRequeued", "jobPreempted"}


@pytest.mark.parametrize("state", sorted(JOB_WITH_RUN))
def test_a_job_that_holds_capacity_can_end_in_every_way_or_be_requeued(
    state: JobState,
) -> None:
    ends = {to for (at, _), to in JOB_STEPS.items() if at is state}
    assert ends >= JOB_ENDED - {JobState.REJECTED} | {JobState.QUEUED}


def test_the_end_of_a_run_alone_never_ends_its_job() -> None:
    run_ends = {tag for (_, tag), to in RUN_STEPS.items() if to in RUN_ENDED}
    assert not run_ends & JOB_TAGS


def test_a_cancel_request_ends_only_queued_jobs() -> None:
    cancels = {state for state, tag in JOB_STEPS if tag == "jobCancelRequested"}
    assert cancels == {JobState.QUEUED}
    bulk = {state for state, tag in JOB_STEPS if tag == "jobsCancelRequested"}
    assert bulk == cancels
