"""`after` with arrays: jobs and arrays that wait for arrays, and arrays that wait for jobs."""

import msgspec
import pytest

from fairlead_common.domain.ids import JobId, client_job_id, task_id
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.folds.input.messages import Message, find_ids_to_look_up
from fairlead_scheduler.state.jobs import job_table
from tests.unit.scheduler.array_world import ID, World, array, lease, node, second, tags, template
from tests.unit.scheduler.saved import Table

MERGE = client_job_id(0, "q", "s", "merge")


def merge(*after: JobId) -> ev.JobSubmitted:
    """A job that waits for these; without any, for the first array."""
    return template(job_id=MERGE, client_id="merge", after=after or (JobId(ID),))


def waiting_array(*after: JobId, indexes: str = "0-999999") -> ev.ArraySubmitted:
    """The second array, which waits for these."""
    made = array(indexes, made=second())
    waits = msgspec.structs.replace(made.template, after=after)
    return msgspec.structs.replace(made, template=waits)


def is_ready(world: World) -> bool:
    """Whether the job waits for nothing."""
    return not world.view.jobs.flags[world.view.jobs.rows[MERGE]] & job_table.NOT_READY


def find_obstacle(world: World) -> str:
    """Why the job can never start; empty if it can."""
    row = world.view.jobs.rows[MERGE]
    rare = world.view.jobs.rare_properties.get(row)
    return "" if rare is None else rare.cannot_start_reason


def run(world: World, *indexes: int) -> None:
    """These released tasks run and succeed."""
    for index in indexes:
        lease(world, index)
        world.succeed(index)
        world.fold(ev.JobSucceeded(job_id=world.task(index)))


def fail(world: World, index: int) -> None:
    """A released task runs and fails."""
    lease(world, index)
    world.succeed(index)
    oom = ev.FailureCategory.OOM
    world.fold(ev.JobFailed(job_id=world.task(index), category=oom, reason="too large"))


def test_a_job_starts_when_all_tasks_of_an_array_have_succeeded() -> None:
    world = World(node("n0", 4))
    world.fold(array("0-2", running_max=2), merge())
    world.release()
    run(world, 0, 1)
    world.release()
    run(world, 2)
    assert not is_ready(world), "the end of the array is not decided yet"
    assert tags(world.release()) == {"arrayEnded": 1}
    assert is_ready(world)
    assert world.view.dependents == {}
    assert world.cycle() == [f"{world.name(MERGE)}@n0"]


@pytest.mark.parametrize("first", [True, False], ids=["submitted before", "submitted after"])
def test_a_job_is_cancelled_when_a_task_of_the_array_did_not_succeed(first: bool) -> None:
    """At once: the other tasks still run."""
    world = World()
    world.fold(array("0-2"), *([merge()] if first else []))
    world.release()
    fail(world, 1)
    if not first:
        world.fold(merge())
    why = f"array {ID}, which it waits for, cannot succeed: "
    assert find_obstacle(world) == why + (
        "its task 1 ended FAILED" if first else "a task of it did not"
    )
    world.cycle()
    assert world.view.state_of(MERGE) is JobState.CANCELLED
    assert world.view.dependents == {}


def test_many_ends_in_one_message_cancel_the_jobs_that_wait_for_the_array() -> None:
    world = World()
    world.fold(array("0-39"), merge())
    world.release()
    for index in range(40):
        lease(world, index)
        world.succeed(index)
    oom = ev.FailureCategory.OOM
    ends = [ev.JobFailed(job_id=world.task(n), category=oom, reason="large") for n in range(40)]
    world.fold(*ends)
    assert "its task 0 ended FAILED" in find_obstacle(world)


def test_a_job_is_cancelled_when_tasks_were_cancelled_before_their_release() -> None:
    world = World()
    world.fold(array("0-9", running_max=1), merge())
    world.release()
    world.fold(ev.ArrayCancelRequested(array=ID, indexes="4-6"))
    assert find_obstacle(world) == ""
    world.release()
    assert find_obstacle(world).endswith("cannot succeed: 3 of its tasks were cancelled")


@pytest.mark.parametrize("failed", [False, True])
def test_the_result_of_an_array_is_known_as_that_of_a_job(failed: bool) -> None:
    world = World()
    world.fold(array("0"))
    world.release()
    (fail if failed else run)(world, 0)
    world.release()
    assert JobId(ID) in world.view.ended
    world.fold(merge())
    assert is_ready(world) is not failed
    assert find_obstacle(world) == (f"array {ID}, which it waits for, ended FAILED" * failed)


def test_a_job_waits_for_an_array_that_is_not_known_yet() -> None:
    world = World()
    world.fold(merge())
    world.fold(array("0"))
    world.release()
    run(world, 0)
    assert not is_ready(world)
    world.release()
    assert is_ready(world)


def test_an_array_is_released_when_what_it_waits_for_has_succeeded() -> None:
    """Its tasks wait for nothing, and are no demand of their queue before."""
    world, job = World(node("n0", 4)), client_job_id(0, "q", "s", "prepare")
    world.fold(template(job_id=job, client_id="prepare"), array("0"))
    world.fold(waiting_array(job, JobId(ID), indexes="0-4"))
    released = world.release()
    assert [fact.job_id for fact in released if isinstance(fact, ev.JobSubmitted)] == [
        world.task(0)
    ]
    world.counts.update(world.view)
    assert not world.counts.waiting
    run(world, 0)
    assert tags(world.release()) == {"arrayEnded": 1}
    assert world.release() == [], "the job has not succeeded"
    world.fold(ev.JobRunLeased(job_id=job, run=1, executor="e0", node="n0"))
    world.fold(ev.JobRunRunning(job_id=job, run=1), ev.JobRunSucceeded(job_id=job, run=1))
    world.fold(ev.JobSucceeded(job_id=job))
    released = world.release()
    assert tags(released) == {"jobSubmitted": 5}
    assert all(isinstance(fact, ev.JobSubmitted) and fact.after == () for fact in released)


@pytest.mark.parametrize("first", [True, False], ids=["submitted before", "submitted after"])
def test_an_array_is_cancelled_as_a_whole_when_what_it_waits_for_did_not_succeed(
    first: bool,
) -> None:
    world = World()
    world.fold(array("0"), *([waiting_array(JobId(ID))] if first else []))
    world.release()
    fail(world, 0)
    world.release()
    if not first:
        world.fold(waiting_array(JobId(ID)))
    facts = world.release() if not first else []
    facts += world.release()
    facts += world.release()
    assert tags(facts).keys() <= {"arrayCancelRequested", "arrayTasksCancelled", "arrayEnded"}
    (cancelled,) = [fact for fact in facts if isinstance(fact, ev.ArrayTasksCancelled)]
    assert (cancelled.indexes, cancelled.tasks) == ("0-999999", 1_000_000)
    assert cancelled.reason.startswith(f"array {ID}, which it waits for, ")
    world.release()
    assert not world.view.arrays
    assert world.view.dependents == {}


def test_what_waits_for_an_array_that_waits_is_cancelled_with_it() -> None:
    world = World()
    world.fold(array("0"), waiting_array(JobId(ID)), merge(JobId(second())))
    world.release()
    fail(world, 0)
    for _ in range(3):
        world.release()
    assert find_obstacle(world) == (
        f"array {second()}, which it waits for, cannot succeed: 1000000 of its tasks were cancelled"
    )


def test_an_array_that_is_cancelled_waits_for_nothing() -> None:
    world = World()
    world.fold(array("0"), waiting_array(JobId(ID)))
    world.fold(ev.ArrayCancelRequested(array=second()))
    facts = [*world.release(), *world.release()]
    assert tags(facts)["arrayEnded"] == 1
    assert world.view.dependents == {}


def test_dependencies_are_restored_from_a_checkpoint() -> None:
    world, table = World(), Table()
    world.fold(array("0"), waiting_array(JobId(ID), indexes="0-4"), merge(JobId(second())))
    table.save(world.view)
    loaded = table.load()
    loaded.validate()
    assert loaded.arrays == world.view.arrays
    assert (
        loaded.dependents
        == world.view.dependents
        == {
            JobId(ID): {JobId(second())},
            JobId(second()): {MERGE},
        }
    )


def test_results_of_what_an_array_waits_for_are_looked_up_among_ended_jobs() -> None:
    world = World()
    sequence = ev.EventSequence(
        queue="q", job_set="s", by="anna", events=[waiting_array(JobId(ID), MERGE)]
    )
    ids = find_ids_to_look_up(world.view, [Message(0, 0, 0, sequence)])
    assert {JobId(ID), MERGE} <= set(ids)


def test_a_job_waits_for_a_single_task_that_is_not_released() -> None:
    """Its success is known as long as the array is, also after the task's record has expired."""
    world = World()
    world.fold(array("0-1", running_max=1))
    world.fold(merge(task_id(ID, 0)))
    world.release()
    assert not is_ready(world)
    run(world, 0)
    assert is_ready(world)
    world.view.ended.clear()
    other = client_job_id(0, "q", "s", "other")
    world.fold(template(job_id=other, client_id="other", after=(task_id(ID, 0),)))
    jobs = world.view.jobs
    assert not jobs.flags[jobs.rows[other]] & job_table.NOT_READY
