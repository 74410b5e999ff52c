"""Rules C: how groups succeed, restart and fail when members end."""

import pytest

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.configuration import Queue
from fairlead_common.domain.records.events import FailureCategory, MemberFailure, PreemptionCause
from fairlead_scheduler.rules import group_life_cycle
from fairlead_scheduler.rules.group_life_cycle import COMPLETED
from fairlead_scheduler.state.jobs.groups import GroupPhase
from tests.unit.scheduler.group_world import ID, PS, World, job, running, with_terms

# C1 --------------------------------------------------------------------------------------------


def test_a_group_runs_when_each_role_has_its_minimum() -> None:
    world = World()
    world.start("ps-0", "worker-0")
    assert world.settle() == []
    world.start("worker-1")
    assert world.settle() == ["groupRunning"]
    assert world.phase() is GroupPhase.RUNNING


def test_a_group_succeeds_with_its_completion_roles_and_its_others_are_stopped() -> None:
    world = running()
    assert world.succeed("worker-0", "worker-1") == [
        "jobSucceeded worker-0",
        "jobSucceeded worker-1",
    ]
    decided = world.succeed("worker-2")
    assert decided == ["jobSucceeded worker-2", "groupSucceeded", "jobRunPreempting ps-0"]
    stop = world.last(ev.JobRunPreempting)
    assert isinstance(stop, ev.JobRunPreempting)
    assert (stop.cause, stop.reason) == (PreemptionCause.GROUP, COMPLETED)
    assert world.stops() == {"ps-0"}
    assert world.end_stopped("ps-0") == ["jobSucceeded ps-0"]
    end = world.last(ev.JobSucceeded)
    assert isinstance(end, ev.JobSucceeded)
    assert end.reason == COMPLETED
    assert world.phase() is None, "the group is forgotten"


def test_a_stopped_member_that_exits_with_an_error_has_succeeded_with_its_group() -> None:
    world = running(with_terms(completion_count=1))
    assert "groupSucceeded" in world.succeed("worker-0")
    world.fail("ps-0")
    assert world.settle() == ["jobSucceeded ps-0"]


def test_queued_members_succeed_with_their_group_without_a_run() -> None:
    world = World()
    world.start("ps-0", "worker-0", "worker-1")
    world.settle()
    decided = world.succeed("worker-0", "worker-1")
    assert decided[2:] == ["groupSucceeded", "jobSucceeded worker-2", "jobRunPreempting ps-0"]
    assert world.state("worker-2") == "SUCCEEDED"


def test_a_running_surplus_member_must_succeed_too() -> None:
    world = running()
    assert "groupSucceeded" not in world.succeed("worker-0", "worker-1")
    assert "groupSucceeded" in world.succeed("worker-2")


def test_as_many_as_the_count_says_are_enough() -> None:
    world = running(with_terms(completion_count=1))
    decided = world.succeed("worker-2")
    assert decided[1] == "groupSucceeded"
    assert set(decided[2:]) == {
        f"jobRunPreempting {name}" for name in ("ps-0", "worker-0", "worker-1")
    }


def test_all_roles_complete_a_group_that_names_none() -> None:
    world = running(with_terms(completion_roles=()))
    assert "groupSucceeded" not in world.succeed("worker-0", "worker-1", "worker-2")
    assert world.succeed("ps-0") == ["jobSucceeded ps-0", "groupSucceeded"]


def test_a_count_that_cannot_be_reached_fails_the_group() -> None:
    world = running(with_terms(completion_count=3, restart_limit=0))
    world.fail("worker-2")
    assert world.settle()[:2] == ["jobFailed worker-2", "groupFailed"]
    failed = world.last(ev.GroupFailed)
    assert isinstance(failed, ev.GroupFailed)
    assert "3 members of its completion roles must succeed, but only 2 still can" in failed.reason


# C2 --------------------------------------------------------------------------------------------


def test_a_member_restarts_alone_while_each_role_has_its_minimum() -> None:
    world = running()
    world.fail("worker-0")
    assert world.settle() == ["jobRequeued worker-0"]
    again = world.last(ev.JobRequeued)
    assert isinstance(again, ev.JobRequeued)
    assert again.restarts_of == ID
    assert "restart 1 of 2 of its group after exit-code: boom" in again.reason
    assert world.view.groups[ID].restarts == 1
    assert (world.phase(), world.state("worker-1")) == (GroupPhase.RUNNING, "RUNNING")


def short() -> World:
    """A running group without worker-0, which starts again, and without its stand-in worker-2."""
    world = running()
    world.fail("worker-0")
    world.settle()
    assert world.succeed("worker-2") == ["jobSucceeded worker-2"]
    assert world.settle() == [], "the next round may start worker-0"
    return world


def test_a_group_whose_stand_in_has_ended_restarts_if_the_next_round_starts_no_other() -> None:
    world = short()
    group_life_cycle.note_round(world.view)
    decided = world.settle()
    assert decided[0] == "groupRestarting"
    assert world.stops() == {"ps-0", "worker-1"}
    restarting = world.last(ev.GroupRestarting)
    assert isinstance(restarting, ev.GroupRestarting)
    assert restarting.reason == "1 of the 2 members that role worker needs run"
    world.end_stopped("ps-0", "worker-1")
    assert world.phase() is GroupPhase.QUEUED
    world.start("ps-0", "worker-0", "worker-1")
    assert world.settle() == ["groupRunning"]
    assert not world.view.short_groups


def test_a_group_goes_on_if_the_next_round_starts_what_it_lacks() -> None:
    world = short()
    group_life_cycle.note_round(world.view)
    world.start("worker-0")
    assert world.settle() == []
    assert not world.view.short_groups
    assert not world.view.groups_to_examine


def test_a_group_in_a_cordoned_queue_goes_on_with_less_than_its_minimum() -> None:
    world = short()
    world.queues.by_name["q"] = Queue(name="q", cordoned=True)
    group_life_cycle.note_round(world.view)
    assert world.settle() == []


def test_a_group_whose_minimum_was_raised_goes_on_until_capacity_is_free() -> None:
    world = running()
    world.fold(
        ev.GroupChanged(group=ID, terms=with_terms(roles=(PS, ev.GroupRole("worker", 4, 4))))
    )
    world.add("worker-3")
    for _ in range(2):
        assert world.settle() == []
        group_life_cycle.note_round(world.view)


def test_the_group_restarts_if_a_role_is_below_its_minimum() -> None:
    world = running()
    world.fail("ps-0")
    decided = world.settle()
    assert decided[:2] == ["groupRestarting counted", "jobRequeued ps-0"]
    assert world.stops() == {"worker-0", "worker-1", "worker-2"}
    assert world.phase() is GroupPhase.QUEUED
    world.end_stopped("worker-0", "worker-1", "worker-2")
    assert {world.state(name) for name in world.names.values()} == {"QUEUED"}
    assert world.view.groups[ID].restarts == 1
    world.start(*world.names.values())
    assert world.settle() == ["groupRunning"]


def test_members_wait_until_all_members_of_a_restarting_group_have_stopped() -> None:
    world = running()
    world.fail("ps-0")
    world.settle()
    world.cycle()
    assert world.view.jobs.rows[job("ps-0")] in world.excluded


def test_two_failures_in_one_cycle_are_one_restart() -> None:
    world = running()
    world.fail("ps-0")
    world.fail("worker-0")
    decided = world.settle()
    assert decided.count("groupRestarting counted") == 1
    assert world.view.groups[ID].restarts == 1
    assert (world.state("ps-0"), world.state("worker-0")) == ("QUEUED", "QUEUED")


def test_restart_group_restarts_all_members_although_the_minima_hold() -> None:
    world = running(with_terms(on_member_failure=MemberFailure.RESTART_GROUP))
    world.fail("worker-0")
    assert world.settle()[:2] == ["groupRestarting counted", "jobRequeued worker-0"]
    assert world.stops() == {"ps-0", "worker-1", "worker-2"}


def test_fail_fails_the_group_and_stops_all_members() -> None:
    world = running(with_terms(on_member_failure=MemberFailure.FAIL))
    world.fail("worker-1")
    assert world.settle()[:2] == ["groupFailed", "jobFailed worker-1"]
    failed = world.last(ev.GroupFailed)
    assert isinstance(failed, ev.GroupFailed)
    assert failed.reason == "member worker-1 failed (exit-code): boom"
    assert world.stops() == {"ps-0", "worker-0", "worker-2"}
    world.end_stopped("ps-0", "worker-0", "worker-2")
    assert (world.state("worker-1"), world.state("ps-0")) == ("FAILED", "CANCELLED")
    assert world.phase() is None


def test_a_group_fails_when_its_restarts_are_used_up() -> None:
    world = running()
    for _ in range(2):
        world.fail("worker-0")
        assert "groupFailed" not in world.settle()
        world.start("worker-0")
    world.fail("worker-0")
    assert world.settle()[:2] == ["groupFailed", "jobFailed worker-0"]
    failed = world.last(ev.GroupFailed)
    assert isinstance(failed, ev.GroupFailed)
    assert "all 2 restarts are used up" in failed.reason


@pytest.mark.parametrize("category", [FailureCategory.NODE_LOST, FailureCategory.POD_DELETED])
def test_a_lost_node_and_a_deleted_member_use_up_no_restart(category: FailureCategory) -> None:
    world = running(with_terms(restart_limit=0))
    for _ in range(3):
        world.fail("worker-0", category)
        assert world.settle() == ["jobRequeued worker-0"]
        world.start("worker-0")
    assert world.view.groups[ID].restarts == 0


def test_a_lost_run_of_a_needed_member_restarts_the_group_without_counting() -> None:
    world = running(with_terms(restart_limit=0))
    world.fold(ev.JobRunLost(job_id=job("ps-0"), run=1, reason="the node is gone"))
    assert world.settle()[:2] == ["groupRestarting", "jobRequeued ps-0"]


def test_a_returned_lease_sends_the_group_back_to_the_queue() -> None:
    world = World()
    names = ("ps-0", "worker-0", "worker-1")
    world.start(*names)
    world.fold(ev.JobRunReturned(job_id=job("worker-1"), run=1, reason="no space"))
    decided = world.settle()
    assert decided[:2] == ["groupRestarting", "jobRequeued worker-1"]
    assert world.stops() == {"ps-0", "worker-0"}


def test_a_group_that_is_preempted_as_a_whole_is_queued_again_without_counting() -> None:
    world = running()
    stops = [
        ev.JobRunPreempting(
            job_id=job_id, run=1, cause=PreemptionCause.URGENCY, reason="for x", for_job=JobId("x")
        )
        for job_id in world.names
    ]
    world.fold(*stops)
    world.settle()
    decided = world.end_stopped(*world.names.values())
    assert decided.count("groupRestarting") == 1
    assert world.phase() is GroupPhase.QUEUED
    assert {world.state(name) for name in world.names.values()} == {"QUEUED"}


def test_the_retry_policy_of_a_member_comes_first() -> None:
    retry = ev.RetryPolicy(limit=1, on=(FailureCategory.EXIT_CODE,))
    world = running(retry=retry)
    world.fail("worker-0")
    world.settle()
    again = world.last(ev.JobRequeued)
    assert isinstance(again, ev.JobRequeued)
    assert (again.counted, again.restarts_of) == (True, None)
    world.start("worker-0")
    world.fail("worker-0")
    world.settle()
    again = world.last(ev.JobRequeued)
    assert isinstance(again, ev.JobRequeued)
    assert (again.counted, again.restarts_of) == (False, ID)


def test_a_retry_of_its_own_restarts_the_group_below_a_minimum_and_is_not_counted() -> None:
    world = running(retry=ev.RetryPolicy(limit=1, on=(FailureCategory.EXIT_CODE,)))
    world.fail("ps-0")
    assert world.settle()[:2] == ["groupRestarting", "jobRequeued ps-0"]
    again = world.last(ev.JobRequeued)
    assert isinstance(again, ev.JobRequeued)
    assert (again.counted, again.restarts_of) == (True, None)
    assert world.stops() == {"worker-0", "worker-1", "worker-2"}
    assert world.view.groups[ID].restarts == 0


# C3 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", list(MemberFailure))
def test_a_surplus_member_never_brings_its_group_down(policy: MemberFailure) -> None:
    world = running(with_terms(on_member_failure=policy, restart_limit=1))
    world.fail("worker-2")
    assert world.settle() == ["jobRequeued worker-2"]
    world.start("worker-2")
    world.fail("worker-2")
    assert world.settle() == ["jobFailed worker-2"]
    assert world.phase() is GroupPhase.RUNNING
    assert "groupSucceeded" in world.succeed("worker-0", "worker-1")
