"""`afterCorresponding`: tasks that follow those of another array with their index."""

import pytest

from fairlead_common.domain.ids import JobId, array_id, client_job_id, parse_task_id, task_id
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.jobs import job_table
from tests.unit.scheduler.array_world import (
    ID,
    World,
    array,
    lease,
    second,
    tags,
    template,
)
from tests.unit.scheduler.saved import Table


def is_ready(world: World, index: int) -> bool:
    """Whether a task of the second array waits for no other job."""
    row = world.view.jobs.rows[task_id(second(), index)]
    return not world.view.jobs.flags[row] & job_table.NOT_READY


def following() -> World:
    """Two arrays with released tasks; those of the second follow those of the first."""
    world = World()
    world.fold(array("0-9", running_max=2))
    world.fold(array("0-9", made=second(), after=ID, running_max=4))
    world.release()
    assert not any(is_ready(world, index) for index in range(4))
    return world


def test_a_task_waits_for_the_task_of_another_array_with_its_index() -> None:
    world = following()
    lease(world, 0, 1)
    world.succeed(1)
    world.fold(ev.JobSucceeded(job_id=world.task(1)))
    assert [index for index in range(4) if is_ready(world, index)] == [1]
    world.fold(
        ev.JobFailed(job_id=world.task(0), category=ev.FailureCategory.OOM, reason="too large")
    )
    row = world.view.jobs.rows[task_id(second(), 0)]
    assert world.view.jobs.flags[row] & job_table.CANNOT_START


def test_a_task_cannot_start_after_one_that_was_cancelled_before_its_release() -> None:
    world = following()
    world.fold(ev.ArrayCancelRequested(array=ID, indexes="3,7"))
    world.release()
    jobs = world.view.jobs
    assert jobs.flags[jobs.rows[task_id(second(), 3)]] & job_table.CANNOT_START
    gone = [task_id(second(), index) for index in range(4)]
    world.fold(*(ev.JobCancelled(job_id=job_id, reason="") for job_id in gone))
    world.release()
    assert jobs.flags[jobs.rows[task_id(second(), 7)]] & job_table.CANNOT_START
    assert not jobs.flags[jobs.rows[task_id(second(), 6)]] & job_table.CANNOT_START


@pytest.mark.parametrize("indexes", ["3", "3,20-99"], ids=["few", "more than jobs that wait"])
def test_a_job_cannot_start_after_a_task_that_was_cancelled_before_its_release(
    indexes: str,
) -> None:
    world = World()
    world.fold(array("0-99", running_max=1))
    names = {index: client_job_id(0, "q", "s", f"waits-{index}") for index in (3, 4)}
    for index, name in names.items():
        world.fold(template(job_id=name, after=(world.task(index),)))
    world.fold(ev.ArrayCancelRequested(array=ID, indexes=indexes))
    world.release()
    jobs = world.view.jobs
    stuck = {
        index: bool(jobs.flags[jobs.rows[names[index]]] & job_table.CANNOT_START) for index in names
    }
    assert stuck == {3: True, 4: False}


def test_tasks_follow_an_array_that_has_ended() -> None:
    """Its successes are found among the ended jobs, and what it never released is not awaited."""
    world = World()
    world.fold(array("0-1"))
    world.release()
    lease(world, 0, 1)
    world.succeed(0)
    world.fold(
        ev.JobSucceeded(job_id=world.task(0)), ev.JobCancelled(job_id=world.task(1), reason="")
    )
    assert tags(world.release()) == {"arrayEnded": 1}
    world.fold(array("0-2", made=second(), after=ID))
    world.release()
    assert is_ready(world, 0)
    jobs = world.view.jobs
    for index in (1, 2):
        assert jobs.flags[jobs.rows[task_id(second(), index)]] & job_table.CANNOT_START


def expire(world: World) -> None:
    """The checkpoint does not store ended jobs any more."""
    world.view.ended.clear()
    world.view.recent.clear()


def finish_with(world: World, *failed: int) -> None:
    """Run the released tasks of the first array: these fail, and the others succeed."""
    facts = [fact for fact in world.release() if isinstance(fact, ev.JobSubmitted)]
    for array_, index in [parse_task_id(fact.job_id) for fact in facts]:
        if array_ != ID:
            continue
        lease(world, index)
        world.succeed(index)
        end: ev.AnyEvent = ev.JobSucceeded(job_id=world.task(index))
        if index in failed:
            oom = ev.FailureCategory.OOM
            end = ev.JobFailed(job_id=world.task(index), category=oom, reason="too large")
        world.fold(end)


def cannot_start(world: World, index: int) -> str:
    """Why a task of the second array can never start."""
    row = world.view.jobs.rows[task_id(second(), index)]
    return world.view.jobs.rare_properties[row].cannot_start_reason


def test_results_of_tasks_are_known_to_followers_after_ended_jobs_have_expired() -> None:
    """A task that follows one that succeeded starts; one that follows another does not, and says
    so; one that follows a task that waits goes on waiting."""
    world = World()
    world.fold(array("0-4", running_max=2))
    finish_with(world, 1)
    world.fold(ev.ArrayCancelRequested(array=ID, indexes="4"))
    world.release()
    expire(world)
    world.fold(array("0-5", made=second(), after=ID))
    world.release()
    assert [is_ready(world, index) for index in (0, 2, 3)] == [True, False, False]
    for index in (1, 4):
        assert "did not succeed, or its result is not stored any more" in cannot_start(world, index)
    assert "does not exist: its array has no task of this index" in cannot_start(world, 5)


def test_an_ended_array_is_known_until_those_that_follow_it_have_ended() -> None:
    world, table = World(), Table()
    third = array_id(client_job_id(0, "q", "s", "third"))
    world.fold(array("0-3"), array("0-3", made=second(), after=ID, running_max=1))
    world.fold(array("0", made=third, after=second()))
    finish_with(world, 2)
    assert "arrayEnded" in tags(world.release())
    table.save(world.view)
    assert table.load().arrays == world.view.arrays
    expire(world)
    for index in range(4):
        assert is_ready(world, index) == (index != 2)
        world.fold(ev.JobCancelled(job_id=task_id(second(), index), reason=""))
        world.release()
    world.fold(ev.JobCancelled(job_id=task_id(third, 0), reason=""))
    for _ in range(3):
        world.release()
    assert not world.view.arrays
    table.save(world.view)
    assert not table.arrays


def test_an_ended_array_takes_no_requests_and_ends_once() -> None:
    world = World()
    world.fold(array("0"), array("0-3", made=second(), after=ID))
    finish_with(world)
    assert tags(world.release()) == {"arrayEnded": 1}
    world.fold(ev.ArrayCancelRequested(array=ID), ev.JobCancelRequested(job_id=JobId(ID)))
    assert world.release() == []
