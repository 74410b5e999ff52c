"""The actions that pages offer, by the state of the job."""

import pytest

from fairlead_common.domain.lifecycle import JobState
from fairlead_lookout.http.pages.jobs.permitted_actions import (
    list_possible,
    list_possible_of_array,
)


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        ("QUEUED", "cancel reprioritize resubmit"),
        ("LEASED", "cancel preempt reprioritize resubmit"),
        ("PENDING", "cancel preempt reprioritize resubmit"),
        ("RUNNING", "cancel preempt reprioritize resubmit"),
        ("SUCCEEDED", "resubmit"),
        ("FAILED", "resubmit"),
        ("CANCELLED", "resubmit"),
        ("PREEMPTED", "resubmit"),
        ("REJECTED", "resubmit"),
    ],
)
def test_the_state_of_a_job_decides_what_can_be_done(state: str, actions: str) -> None:
    assert state in JobState.__members__
    assert list_possible([state]) == actions.split()


def test_a_run_that_is_being_stopped_is_not_stopped_again() -> None:
    assert list_possible(["RUNNING"], stopping="cancel") == ["resubmit"]
    assert list_possible(["RUNNING"], stopping="preempt") == ["cancel", "reprioritize", "resubmit"]


def test_a_task_that_is_not_released_can_only_be_cancelled() -> None:
    assert list_possible(["QUEUED"], waits_in_array=True) == ["cancel"]


def test_a_list_offers_what_one_of_its_states_permits() -> None:
    assert list_possible(["FAILED", "QUEUED"]) == ["cancel", "reprioritize", "resubmit"]


def test_an_array_whose_tasks_have_ended_has_no_actions() -> None:
    assert list_possible_of_array({"SUCCEEDED": 3, "QUEUED": 1}) == ["cancel", "reprioritize"]
    assert list_possible_of_array({"SUCCEEDED": 3, "QUEUED": 0}) == []
