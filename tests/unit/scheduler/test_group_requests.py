"""Rules C5 and C6: requests about groups, what causes changes; and the environment of members."""

import pytest

from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import leases
from fairlead_scheduler.rules import lease_changes
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.groups import GroupPhase
from tests.unit.scheduler.facts import submitted
from tests.unit.scheduler.group_world import ID, PS, World, job, running, with_terms
from tests.unit.scheduler.saved import Table
from tests.unit.scheduler.test_housekeeping import kept

# Requests --------------------------------------------------------------------------------------


def test_a_cancelled_group_ends_when_nothing_of_it_runs_any_more() -> None:
    world = World()
    world.start("ps-0", "worker-0")
    world.fold(ev.GroupCancelRequested(group=ID, reason="enough"))
    decided = world.settle()
    assert set(decided[:2]) == {"jobCancelled worker-1", "jobCancelled worker-2"}
    assert set(decided[2:]) == {"jobRunPreempting ps-0", "jobRunPreempting worker-0"}
    assert world.phase() is GroupPhase.QUEUED
    decided = world.end_stopped("ps-0", "worker-0")
    assert decided[-1] == "groupCancelled"
    ended = world.last(ev.GroupCancelled)
    assert isinstance(ended, ev.GroupCancelled)
    assert ended.reason == "enough"


def test_a_member_that_is_leased_while_its_group_ends_is_stopped() -> None:
    world = World()
    world.fold(ev.GroupCancelRequested(group=ID))
    world.start("ps-0")
    assert "jobRunPreempting ps-0" in world.settle()
    assert world.end_stopped("ps-0")[-1] == "groupCancelled"


def test_a_cancelled_member_that_the_group_needs_cancels_the_group() -> None:
    world = running()
    world.fold(ev.JobCancelRequested(job_id=job("worker-0")))
    world.end_stopped("worker-0")
    assert world.state("worker-0") == "CANCELLED"
    world.end_stopped("ps-0", "worker-1", "worker-2")
    ended = world.last(ev.GroupCancelled)
    assert isinstance(ended, ev.GroupCancelled)
    assert "member worker-0, which the group needs, ended CANCELLED" in ended.reason


def test_a_cancelled_surplus_member_leaves_the_group_as_it_is() -> None:
    world = running()
    world.fold(ev.JobCancelRequested(job_id=job("worker-2")))
    assert world.end_stopped("worker-2") == ["jobCancelled worker-2"]
    assert world.phase() is GroupPhase.RUNNING


def test_a_rejected_member_that_the_group_needs_fails_the_group() -> None:
    world = World()
    world.fold(ev.JobRejected(job_id=job("ps-0"), code="TooLarge", reason="never fits"))
    assert world.settle()[0] == "groupFailed"
    assert world.state("worker-0") == "CANCELLED"
    failed = world.last(ev.GroupFailed)
    assert isinstance(failed, ev.GroupFailed)
    assert failed.reason == "member ps-0, which the group needs, ended REJECTED: never fits"


def test_a_requested_restart_stops_all_members_and_is_not_counted() -> None:
    world = running(with_terms(restart_limit=0))
    world.fold(ev.GroupRestartRequested(group=ID, reason="new data"))
    assert world.settle()[0] == "groupRestarting"
    assert world.stops() == {"ps-0", "worker-0", "worker-1", "worker-2"}
    world.end_stopped(*world.names.values())
    assert {world.state(name) for name in world.names.values()} == {"QUEUED"}
    world.start(*world.names.values())
    assert world.settle() == ["groupRunning"]


def test_a_group_that_is_scaled_down_stops_the_highest_indexes() -> None:
    world = World(with_terms(roles=(PS, ev.GroupRole("worker", 1, 4))))
    world.start("ps-0", "worker-0", "worker-1", "worker-2")
    world.settle()
    world.fold(
        ev.GroupChanged(group=ID, terms=with_terms(roles=(PS, ev.GroupRole("worker", 1, 2))))
    )
    assert world.settle() == ["jobCancelled worker-3", "jobRunPreempting worker-2"]
    assert world.end_stopped("worker-2") == ["jobCancelled worker-2"]
    assert world.phase() is GroupPhase.RUNNING
    assert "groupSucceeded" in world.succeed("worker-0", "worker-1")


def test_a_group_that_is_scaled_up_waits_for_its_new_members() -> None:
    world = running()
    wider = with_terms(roles=(PS, ev.GroupRole("worker", 4, 5)))
    world.fold(ev.GroupChanged(group=ID, terms=wider))
    world.add("worker-3", "worker-4")
    assert world.settle() == []
    assert "groupSucceeded" not in world.succeed("worker-0", "worker-1", "worker-2")
    world.start("worker-3")
    assert "groupSucceeded" in world.succeed("worker-3")


def test_a_member_that_was_scaled_away_before_its_minimum_was_raised_need_not_succeed() -> None:
    terms = with_terms(roles=(PS, ev.GroupRole("worker", 1, 2)))
    world = World(terms)
    world.start("ps-0", "worker-0")
    fewer = with_terms(roles=(PS, ev.GroupRole("worker", 1, 1)))
    world.fold(ev.GroupChanged(group=ID, terms=fewer))
    assert world.settle() == ["jobCancelled worker-1", "groupRunning"]
    world.fold(
        ev.GroupChanged(group=ID, terms=with_terms(roles=(PS, ev.GroupRole("worker", 2, 2))))
    )
    world.settle()
    assert "groupSucceeded" in world.succeed("worker-0")


def test_a_group_whose_members_have_all_ended_fails_if_it_has_not_completed() -> None:
    terms = with_terms(roles=(PS, ev.GroupRole("worker", 0, 2)))
    world = World(terms)
    world.start("ps-0")
    more = with_terms(roles=(PS, ev.GroupRole("worker", 0, 3)))
    world.fold(ev.GroupChanged(group=ID, terms=more))
    for name in ("worker-0", "worker-1"):
        world.fold(ev.JobCancelRequested(job_id=job(name)))
    world.settle()
    assert world.succeed("ps-0")[-1] == "groupFailed"
    failed = world.last(ev.GroupFailed)
    assert isinstance(failed, ev.GroupFailed)
    assert failed.reason.startswith("all its members have ended")


def recreate(world: World, generation: int = 2) -> list[str]:
    """The group has new templates; the names of the new members."""
    names = [f"{place}~{generation}" for place in ("ps-0", "worker-0", "worker-1", "worker-2")]
    terms = with_terms(generation=generation)
    world.fold(
        ev.GroupChanged(
            group=ID, terms=terms, kind=ev.GroupChangeKind.RECREATED, reason="template of worker"
        )
    )
    world.add_generation(generation, *names)
    return names


def test_a_recreated_group_starts_again_after_all_its_members_have_stopped() -> None:
    world = running()
    new = recreate(world)
    assert set(world.settle()) == {
        f"jobRunPreempting {name}" for name in ("ps-0", "worker-0", "worker-1", "worker-2")
    }
    assert world.phase() is GroupPhase.QUEUED
    rows = {world.view.jobs.rows[job(name)] for name in new}
    assert world.end_stopped("ps-0", "worker-0") == ["jobCancelled ps-0", "jobCancelled worker-0"]
    assert rows <= world.excluded, "members of two generations never run together"
    world.end_stopped("worker-1", "worker-2")
    assert {world.state(name) for name in new} == {"QUEUED"}
    world.settle()
    assert not rows & world.excluded
    world.start(*new)
    assert world.settle() == ["groupRunning"]
    assert "groupSucceeded" in world.succeed(*new[1:])


def test_what_became_of_earlier_members_does_not_count_for_a_recreated_group() -> None:
    world = running(with_terms(restart_limit=1))
    world.fail("worker-2")
    world.settle()
    world.succeed("worker-0")
    assert world.view.groups[ID].restarts == 1
    new = recreate(world)
    world.settle()
    world.fail("ps-0")
    world.end_stopped("worker-1")
    assert world.phase() is GroupPhase.QUEUED
    state = world.view.groups[ID]
    assert (state.restarts, state.succeeded, state.ended) == (0, {}, {})
    world.start(*new)
    assert world.settle() == ["groupRunning"]


def test_a_change_of_an_earlier_generation_changes_nothing() -> None:
    world = running()
    recreate(world)
    late = with_terms(roles=(PS, ev.GroupRole("worker", 1, 9)))
    world.fold(ev.GroupChanged(group=ID, terms=late))
    assert world.view.groups[ID].terms.generation == 2


# Changes of leader -----------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(4))
def test_another_leader_decides_the_same_from_a_checkpoint(steps: int) -> None:
    world = running()
    happened: list[ev.AnyEvent] = [
        ev.JobRunStopped(job_id=job("worker-0"), run=1, reason="the executor shut down"),
        ev.GroupRestartRequested(group=ID),
        ev.GroupCancelRequested(group=ID, reason="enough"),
    ]
    world.fold(*happened[:steps])
    table = Table()
    table.save(world.view)
    live = Leases()
    live.by_run = dict(world.leases.by_run)
    mine, theirs = (
        [fact for batch in kept(view, held).batches() for _, fact in batch.facts]
        for view, held in ((world.view, world.leases), (table.load(), live))
    )
    assert mine == theirs
    assert bool(mine) == bool(steps)


def test_decisions_that_were_not_written_are_made_again() -> None:
    world = running()
    world.fail("ps-0")
    first = [fact for batch in kept(world.view, world.leases).batches() for _, fact in batch.facts]
    again = [fact for batch in kept(world.view, world.leases).batches() for _, fact in batch.facts]
    assert first == again
    assert isinstance(first[0], ev.GroupRestarting)


# Environment -----------------------------------------------------------------------------------


def test_the_environment_of_a_member_names_its_place_in_its_group() -> None:
    world = World()
    row = world.view.jobs.rows[job("worker-1")]
    event = submitted(job("worker-1"), group=ev.GroupMember(ID, "worker", 1))
    change = lease_changes.new_lease(world.view, row, event, job_table.NodeName("e0", "n0"), ())
    lease = leases.decode(change.record.value or b"")
    assert {
        name: text for name, text in lease.env.items() if "GROUP" in name or "ROLE" in name
    } == {
        "FAIRLEAD_GROUP": "g",
        "FAIRLEAD_ROLE": "worker",
        "FAIRLEAD_ROLE_INDEX": "1",
        "FAIRLEAD_ROLE_MIN": "2",
        "FAIRLEAD_ROLE_MAX": "3",
        "FAIRLEAD_GROUP_SIZE": "3",
    }
