"""The cancellation of tasks that wait in an array: by their ids, and what it means for others."""

import pytest

from fairlead_common.domain.ids import client_job_id
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state import job_table
from tests.unit.scheduler.array_world import ID, World, array, tags, template


def test_waiting_tasks_that_are_named_by_their_ids_are_one_request() -> None:
    """One request each would divide the set again for each of them: minutes for 10,000 ids."""
    world = World()
    world.fold(array("0-9999", running_max=1))
    world.fold(*(ev.JobCancelRequested(job_id=world.task(n)) for n in range(1, 2_000, 2)))
    assert len(world.state.cancel_requests) == 1
    assert len(world.state.waiting) == 9_000
    assert tags(world.release()) == {"arrayTasksCancelled": 1, "jobSubmitted": 1}


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
