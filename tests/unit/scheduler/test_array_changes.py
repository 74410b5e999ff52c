"""What a request changes of an array, and that a cycle examines only what changed."""

from random import Random

import pytest

from fairlead_common.domain.ids import ArrayId, JobId, array_id, client_job_id, task_id
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.rules.array_tasks import TaskCounts, decide_arrays
from fairlead_scheduler.state.jobs.job_table import BY_SCHEDULER
from tests.unit.scheduler.array_world import ID, World, array, lease, second, tags
from tests.unit.scheduler.saved import Table


def priorities(world: World, *indexes: int) -> list[int]:
    """The priorities of these released tasks."""
    rows = [world.view.jobs.rows[world.task(index)] for index in indexes]
    return [int(priority) for priority in world.view.jobs.priority[rows]]


def reprioritize(job_id: str, priority: int) -> ev.JobReprioritized:
    return ev.JobReprioritized(job_id=JobId(job_id), priority=priority)


def test_an_array_gets_another_priority_by_its_id() -> None:
    """Its waiting tasks with the request, and each released one by a request of the leader."""
    world, table = World(), Table()
    world.fold(array("0-9", running_max=3), array("0-9", made=second(), running_max=1))
    world.release()
    lease(world, 0, 1)
    world.fold(ev.JobRunRunning(job_id=world.task(1), run=1), ev.JobSucceeded(job_id=world.task(1)))
    world.fold(reprioritize(ID, 7))
    table.save(world.view)
    assert table.load().arrays == world.view.arrays
    assert world.view.arrays[second()].template.priority == 0
    decided = world.release()
    changed = [fact for fact in decided if isinstance(fact, ev.JobReprioritized)]
    assert [(fact.job_id, fact.priority) for fact in changed] == [
        (world.task(0), 7),
        (world.task(2), 7),
    ]
    (new,) = [fact for fact in decided if isinstance(fact, ev.JobSubmitted)]
    assert (new.job_id, new.priority) == (world.task(3), 7)
    assert priorities(world, 0, 2, 3) == [7, 7, 7]
    assert world.release() == []


def test_the_latest_priority_of_an_array_counts() -> None:
    """The leader's request for an earlier one can be behind it in the log; a user's stays."""
    world = World()
    world.fold(array("0-9", running_max=2))
    world.release()
    world.fold(reprioritize(ID, 7))
    late = [fact for batch in decide_arrays(world.view, world.counts) for _, fact in batch.facts]
    world.fold(reprioritize(ID, 9))
    world.fold(reprioritize(world.task(1), 3))
    world.fold(late[0], by=BY_SCHEDULER)
    world.release()
    assert priorities(world, 0, 1) == [9, 3]
    assert world.release() == []


def test_an_array_that_has_ended_keeps_its_priority() -> None:
    world = World()
    world.fold(array("0"), array("0", made=second(), after=ID))
    world.fold(ev.ArrayCancelRequested(array=ID))
    world.release()
    world.fold(ev.ArrayEnded(array=ID))
    assert world.state.is_ended
    world.fold(reprioritize(ID, 7))
    assert world.state.template.priority == 0


def test_only_arrays_that_changed_are_examined() -> None:
    world = World()
    others = [array_id(client_job_id(0, "q", "s", str(number))) for number in range(20)]
    world.fold(*(array("0-9", made=made, running_max=1) for made in (ID, *others)))
    world.release()
    world.release()
    assert not world.counts.due
    lease(world, 0)
    world.counts.update(world.view)
    assert world.counts.due == {ID}
    assert world.release() == []
    assert not world.counts.due
    world.fold(ev.JobSucceeded(job_id=world.task(0)), array("0", made=second()))
    assert tags(world.release()) == {"jobSubmitted": 2}


@pytest.mark.parametrize("seed", range(20))
def test_what_changed_leads_to_the_decisions_of_a_new_leader(seed: int) -> None:
    """However arrays come, change and end, and whatever a cycle could not release."""
    chance, world = Random(seed), World()
    made: list[ArrayId] = []
    for step in range(60):
        happen(world, chance, made, step)
        release = chance.random() < 0.8
        fresh = TaskCounts()
        wanted = decide_arrays(world.view, fresh, release=release)
        decided = decide_arrays(world.view, world.counts, release=release)
        assert decided == wanted
        assert world.counts.waiting == fresh.waiting
        facts = [fact for batch in decided for _, fact in batch.facts]
        if facts and chance.random() < 0.8:  # a leader can lose its decisions
            world.fold(*facts, by=BY_SCHEDULER)
    assert made


def happen(world: World, chance: Random, made: list[ArrayId], step: int) -> None:
    """One thing happens to some array or task."""
    if not made or chance.random() < 0.15:
        made.append(array_id(client_job_id(0, "q", "s", str(step))))
        after = chance.choice(made[:-1]) if made[:-1] and chance.random() < 0.3 else None
        running_max = chance.choice((None, 1, 3))
        world.fold(array("0-8:2", made=made[-1], running_max=running_max, after=after))
        return
    name = chance.choice(made)
    rows = world.view.jobs.rows
    tasks = [task_id(name, index) for index in range(0, 9, 2)]
    released = [task for task in tasks if rows.get(task) is not None]
    task = chance.choice(released or tasks)
    match chance.choice(("cancel", "some", "priority", "lease", "succeed", "succeed", "all")):
        case "cancel":
            world.fold(ev.ArrayCancelRequested(array=name))
        case "some":
            world.fold(ev.ArrayCancelRequested(array=name, indexes="2-4:2"))
        case "priority":
            world.fold(reprioritize(chance.choice((name, task)), chance.randint(0, 9)))
        case "lease":
            world.fold(ev.JobRunLeased(job_id=task, run=1, executor="e0", node="n0"))
        case "succeed":
            world.fold(ev.JobRunSucceeded(job_id=task, run=1), ev.JobSucceeded(job_id=task))
        case "all":
            world.fold(ev.JobsReprioritized(filter=ev.JobFilter(queue="q"), priority=step))
