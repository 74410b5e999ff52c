"""Arrays in the scheduler: which tasks are released, cancelled and restored, and in which order."""

from random import Random

import msgspec
import pytest

from fairlead_common.domain.ids import (
    JobId,
    array_id,
    client_job_id,
    parse_task_id,
    task_id,
)
from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records import index_sets
from fairlead_common.log.protocol import RECORD_BYTES_MAX
from fairlead_scheduler.rules import array_tasks
from fairlead_scheduler.rules.append_batches import APPEND_BYTES_MAX, group_into_appends
from fairlead_scheduler.rules.array_tasks import TaskCounts, decide_arrays
from fairlead_scheduler.rules.lease_changes import new_lease
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.array_world import ID, World, array, lease, node, second, tags
from tests.unit.scheduler.saved import Table


def released(world: World) -> list[int]:
    """The indexes of the tasks that are released now."""
    return [
        fact.array.index
        for fact in world.release()
        if isinstance(fact, ev.JobSubmitted) and fact.array is not None
    ]


def test_a_window_of_tasks_is_released_and_refilled_as_they_start() -> None:
    world = World()
    world.fold(array("0-999999"))
    window = array_tasks.WINDOW_TASKS
    assert released(world) == list(range(window))
    assert released(world) == []
    lease(world, 0, 1)
    assert released(world) == [window, window + 1]
    assert len(world.state.waiting) == 1_000_000 - window - 2


def test_max_running_bounds_the_tasks_that_have_not_ended() -> None:
    """L10"""
    world = World()
    world.fold(array("0-9", running_max=2))
    assert released(world) == [0, 1]
    lease(world, 0, 1)
    assert released(world) == [], "two have not ended"
    world.succeed(0)
    assert released(world) == [], "its end is not decided yet"
    world.fold(ev.JobSucceeded(job_id=world.task(0)))
    assert released(world) == [2]


def test_a_task_that_is_queued_again_keeps_its_place_among_those_that_run() -> None:
    world = World()
    world.fold(array("0-9", running_max=1))
    assert released(world) == [0]
    lease(world, 0)
    failed = ev.JobRunFailed(
        job_id=world.task(0), run=1, category=ev.FailureCategory.OOM, reason="too large"
    )
    world.fold(failed, ev.JobRequeued(job_id=world.task(0), reason="again"))
    assert released(world) == []


def test_indexes_with_a_step_are_released_in_order() -> None:
    world = World()
    world.fold(array("5-25:10,100"))
    assert released(world) == [5, 15, 25, 100]
    assert not world.state.waiting


def test_large_tasks_are_released_within_a_bound_of_bytes() -> None:
    world = World()
    large = msgspec.Raw(b'{"a":"' + b"x" * 900_000 + b'"}')
    world.fold(array("0-19", spec=large))
    assert released(world) == list(range(array_tasks.RELEASED_BYTES_MAX // 900_000))


def test_released_tasks_fit_into_appends_whatever_is_large_in_them() -> None:
    world = World()
    annotations = {f"name-{number}": "text" for number in range(100)}
    world.fold(array("0-1999", labels={"large": "x" * 20_000}, annotations=annotations))
    appends = list(group_into_appends(decide_arrays(world.view, world.counts)))
    assert appends
    for append in appends:
        assert sum(len(record.value or b"") for record in append.records) <= APPEND_BYTES_MAX


def test_the_tasks_of_all_arrays_in_a_cycle_have_a_bound_of_bytes() -> None:
    world = World()
    for number in range(90):
        made = array_id(client_job_id(0, "q", "s", str(number)))
        world.fold(array("0", made=made, labels={"large": "x" * 800_000}))
    assert len(released(world)) == array_tasks.RELEASED_BYTES_ALL_MAX // 800_000 + 1


def test_an_array_whose_tasks_are_too_large_for_the_log_is_cancelled() -> None:
    world = World()
    world.fold(array("0-9", spec=msgspec.Raw(b'{"a":"' + b"x" * RECORD_BYTES_MAX + b'"}')))
    (refused,) = world.release()
    assert isinstance(refused, ev.ArrayCancelRequested)
    assert "the submission of a task is too large" in refused.reason
    assert tags(world.release()) == {"arrayTasksCancelled": 1}
    assert tags(world.release()) == {"arrayEnded": 1}


def test_the_oldest_arrays_are_first() -> None:
    world = World()
    world.fold(array("0-9", running_max=1))
    world.fold(array("0-9", made=second(), running_max=1))
    world.view.arrays = dict(reversed(world.view.arrays.items()))
    assert [parse_task_id(fact.job_id)[0] for fact in world.release()] == [ID, second()]  # type: ignore[union-attr]


def test_without_release_requests_are_carried_out_and_ends_decided() -> None:
    world = World()
    world.fold(array("0-9", running_max=1))
    world.release()
    world.fold(array("0-9", made=second()))
    world.fold(ev.ArrayCancelRequested(array=ID))
    decider = world.harness.make_decider(SchedulerSettings())
    seen: list[ev.AnyEvent] = []
    for _ in range(2):
        decided = decider.decide_housekeeping(0, release_tasks=False)
        facts = [fact for batch in decided.batches() for _, fact in batch.facts]
        world.fold(*facts)
        seen += facts
    assert tags(seen) == {"jobCancelRequested": 1, "arrayTasksCancelled": 1, "arrayEnded": 1}
    decided = decider.decide_housekeeping(0)
    assert sum(len(batch.facts) for batch in decided.batches()) == 10


def test_a_task_is_a_job_with_the_index_in_its_environment() -> None:
    world = World()
    world.fold(array("0-19:5", labels={"team": "a"}))
    (job,) = [fact for fact in world.release() if fact.job_id == world.task(5)]  # type: ignore[union-attr]
    assert isinstance(job, ev.JobSubmitted)
    assert (job.client_id, job.labels) == (None, {"team": "a"})
    row = world.view.jobs.rows[job.job_id]
    change = new_lease(world.view, row, job, job_table.NodeName("e0", "n0"), ())
    made = msgspec.json.decode(change.record.value or b"")["env"]
    assert {name: made[name] for name in made if "ARRAY" in name or "INDEX" in name} == {
        "JOB_COMPLETION_INDEX": "5",
        "FAIRLEAD_ARRAY_ID": ID,
        "FAIRLEAD_ARRAY_INDEX": "5",
        "FAIRLEAD_ARRAY_COUNT": "16",
    }


def test_tasks_come_before_a_job_that_was_submitted_after_their_array() -> None:
    world = World()
    world.fold(array("0-3", running_max=1))
    other = client_job_id(0, "q", "s", "later")
    later = msgspec.structs.replace(array("0").template, job_id=other)
    world.fold(later)
    world.release()
    number = world.view.jobs.number
    rows = world.view.jobs.rows
    assert number[rows[world.task(0)]] < number[rows[other]]


def test_a_repeated_submission_changes_nothing_also_after_the_end() -> None:
    world = World()
    world.fold(array("0-1"))
    world.release()
    world.fold(array("0-5"))
    assert world.state.count == 2
    world.fold(*(ev.JobCancelled(job_id=world.task(index), reason="") for index in (0, 1)))
    assert tags(world.release()) == {"arrayEnded": 1}
    world.fold(array("0-1"))
    assert not world.view.arrays
    assert world.view.state_of(JobId(ID)) is JobState.FAILED


def test_cancelled_tasks_are_not_released_and_released_ones_are_cancelled() -> None:
    world = World()
    world.fold(array("0-99", running_max=10))
    world.release()
    lease(world, 0)
    wanted = ev.ArrayCancelRequested(array=ID, indexes="0-1,50-59", reason="wrong input")
    world.fold(wanted, by="ben")
    decided = world.release()
    assert tags(decided) == {"jobCancelRequested": 2, "arrayTasksCancelled": 1}
    (done,) = [fact for fact in decided if isinstance(fact, ev.ArrayTasksCancelled)]
    assert (done.indexes, done.tasks, done.reason) == ("50-59", 10, "wrong input")
    assert {fact.by for fact in decided if isinstance(fact, ev.JobCancelRequested)} == {"ben"}
    assert done.by == "ben"
    assert world.view.state_of(world.task(1)) is JobState.CANCELLED
    assert world.view.jobs.flags[world.view.jobs.rows[world.task(0)]] & job_table.STOP_CANCEL
    assert released(world) == [10], "a cancelled task makes place for the next one"
    assert 50 not in world.state.waiting


def test_a_whole_array_is_cancelled_and_ends() -> None:
    world = World()
    world.fold(array("0-999999"))
    world.release()
    world.fold(ev.ArrayCancelRequested(array=ID))
    decided = world.release()
    window = array_tasks.WINDOW_TASKS
    assert tags(decided) == {"jobCancelRequested": window, "arrayTasksCancelled": 1}
    assert tags(world.release()) == {"arrayEnded": 1}
    assert not world.view.arrays


def test_more_ranges_than_an_event_can_name_are_cancelled_by_several_events() -> None:
    world = World()
    world.fold(array("0-99999", running_max=1))
    most = index_sets.RANGES_MAX
    for first in (0, 2 * most + 1):
        indexes = f"{first}-{first + 2 * (most - 1)}:2"
        world.fold(ev.ArrayCancelRequested(array=ID, indexes=indexes))
    world.fold(ev.ArrayCancelRequested(array=ID))
    decided = world.release()
    done = [fact for fact in decided if isinstance(fact, ev.ArrayTasksCancelled)]
    assert sum(fact.tasks for fact in done) == 100_000
    assert [len(index_sets.parse(fact.indexes).ranges) for fact in done] == [most] * 4
    assert tags(world.release()) == {"arrayEnded": 1}


def test_a_request_whose_events_were_written_in_part_is_continued() -> None:
    world = World()
    world.fold(array("0-9"))
    world.fold(ev.ArrayCancelRequested(array=ID, reason="wrong"))
    world.fold(ev.ArrayTasksCancelled(array=ID, indexes="0-3", tasks=4))
    (done,) = world.release()
    assert isinstance(done, ev.ArrayTasksCancelled)
    assert (done.indexes, done.tasks, done.reason) == ("4-9", 6, "wrong")


def test_arrays_without_waiting_tasks_get_no_request_from_a_filter() -> None:
    world = World()
    world.fold(array("0-1"))
    world.release()
    lease(world, 0, 1)
    world.fold(ev.JobsCancelRequested(filter=ev.JobFilter(queue="q")))
    assert not world.state.cancel_requests
    assert world.release() == []


def test_two_requests_in_one_cycle_cancel_tasks_of_their_own_arrays() -> None:
    world = World()
    world.fold(array("0-9", running_max=2), array("0-9", made=second(), running_max=3))
    world.release()
    world.fold(ev.ArrayCancelRequested(array=ID, indexes="1"))
    world.fold(ev.ArrayCancelRequested(array=second(), indexes="2"))
    decided = [fact for fact in world.release() if isinstance(fact, ev.JobCancelRequested)]
    assert [fact.job_id for fact in decided] == [world.task(1), task_id(second(), 2)]


def test_the_ends_of_several_arrays_leave_the_tasks_of_others() -> None:
    world = World()
    third = array_id(client_job_id(0, "q", "s", "third"))
    for made in (ID, second(), third):
        world.fold(array("0", made=made))
    world.release()
    jobs = world.view.jobs
    world.fold(*(ev.JobCancelled(job_id=task_id(made, 0), reason="") for made in (ID, third)))
    assert tags(world.release()) == {"arrayEnded": 2}
    slot = world.view.array_slots.slot(second())
    assert set(jobs.array[: jobs.used].tolist()) - {0} == {slot}


def test_a_task_that_was_being_released_is_cancelled_as_a_job() -> None:
    world = World()
    world.fold(array("0-9", running_max=1))
    facts = [fact for batch in decide_arrays(world.view, world.counts) for _, fact in batch.facts]
    world.fold(ev.ArrayCancelRequested(array=ID))
    world.fold(*facts)
    decided = world.release()
    assert tags(decided) == {"jobCancelRequested": 1, "arrayTasksCancelled": 1}
    assert tags(world.release()) == {"arrayEnded": 1}


def test_requests_with_a_filter_apply_to_waiting_tasks() -> None:
    world = World()
    world.fold(array("0-9", running_max=1, labels={"team": "a"}))
    world.fold(ev.JobsReprioritized(filter=ev.JobFilter(queue="q"), priority=7))
    other = ev.JobFilter(queue="q", labels={"team": "b"})
    world.fold(ev.JobsCancelRequested(filter=other))
    (job,) = world.release()
    assert isinstance(job, ev.JobSubmitted)
    assert job.priority == 7
    world.fold(ev.JobsCancelRequested(filter=ev.JobFilter(queue="q", job_set="s")))
    (done,) = world.release()
    assert isinstance(done, ev.ArrayTasksCancelled)
    assert done.tasks == 9


def test_a_change_of_priority_reaches_tasks_that_were_being_released() -> None:
    """One of which somebody gives a priority meanwhile has that one."""
    world, table = World(), Table()
    world.fold(array("0-9", running_max=3))
    releasing = decide_arrays(world.view, world.counts)
    world.fold(ev.JobsReprioritized(filter=ev.JobFilter(queue="q"), priority=7))
    world.fold(*(fact for batch in releasing for _, fact in batch.facts))
    world.fold(ev.JobReprioritized(job_id=world.task(1), priority=3))
    lease(world, 2)
    world.fold(ev.JobSucceeded(job_id=world.task(2)))
    table.save(world.view)
    assert table.load().arrays == world.view.arrays
    decided = world.release()
    assert [fact.job_id for fact in decided if isinstance(fact, ev.JobReprioritized)] == [
        world.task(0),
        world.task(2),
    ]
    jobs = world.view.jobs
    rows = [jobs.rows[world.task(index)] for index in range(2)]
    assert jobs.priority[rows].tolist() == [7, 3]
    assert "jobReprioritized" not in tags(world.release())


def test_the_id_of_a_waiting_task_or_of_the_array_can_be_cancelled() -> None:
    world = World()
    world.fold(array("0-9", running_max=1))
    world.fold(ev.JobCancelRequested(job_id=world.task(5)))
    assert world.state.waiting == index_sets.parse("0-4,6-9")
    world.fold(ev.JobCancelRequested(job_id=JobId(ID)))
    assert not world.state.waiting


def test_a_checkpoint_restores_arrays_and_whose_tasks_jobs_are() -> None:
    world, table = World(), Table()
    world.fold(array("0-99", running_max=10))
    world.release()
    lease(world, 3)
    world.fold(ev.ArrayCancelRequested(array=ID, indexes="20-29"))
    table.save(world.view)
    assert not world.view.unsaved_arrays
    loaded = table.load()
    loaded.validate()
    assert loaded.arrays == world.view.arrays
    assert what_is_decided(loaded) == what_is_decided(world.view)


def what_is_decided(view: View) -> list[ev.AnyEvent]:
    return [fact for batch in decide_arrays(view, TaskCounts()) for _, fact in batch.facts]


def test_an_ended_array_leaves_the_checkpoint() -> None:
    world, table = World(), Table()
    world.fold(array("0"))
    table.save(world.view)
    world.fold(ev.ArrayCancelRequested(array=ID))
    world.release()
    world.release()
    table.save(world.view)
    assert not table.arrays
    assert table.ended[JobId(ID)].state is JobState.FAILED


def test_counts_follow_the_journal() -> None:
    """What was counted step by step is what a new leader counts."""
    world = World()
    world.fold(array("0-30", running_max=5))
    for step in range(12):
        facts = world.release()
        for fact in facts[: step % 3]:
            if isinstance(fact, ev.JobSubmitted) and fact.array is not None:
                lease(world, fact.array.index)
                if step % 2:
                    world.fold(ev.JobCancelled(job_id=fact.job_id, reason=""))
        world.counts.update(world.view)
        fresh = TaskCounts()
        fresh.update(world.view)
        assert (world.counts.live == fresh.live).all()
        assert (world.counts.queued == fresh.queued).all()


def test_the_demand_of_a_queue_counts_the_waiting_tasks() -> None:
    world = World(node("n0", 4))
    world.fold(array("0-99", running_max=None))
    world.counts.update(world.view)
    assert list(world.counts.waiting.values()) == [100]
    world.release()
    world.fold(array("200-5999", made=second()))
    world.release()
    built = world.harness.build_snapshot()
    assert built.snapshot.queued_beside is None
    world.harness.builder.update(0)
    world.counts.update(world.view)
    waiting = world.counts.waiting
    built = world.harness.builder.build("default", now_ms=0, waiting_tasks=waiting)
    assert built.snapshot.queued_beside is not None
    assert built.snapshot.queued_beside.sum() == 5800 - array_tasks.WINDOW_TASKS


NOTHING = ev.JobReleased(job_id=client_job_id(0, "q", "s", "nobody"))


@pytest.mark.parametrize("seed", range(6))
def test_an_array_starts_where_and_when_the_same_jobs_would(seed: int) -> None:
    chance = Random(seed)
    count = chance.randint(1, 12)
    nodes = [node(f"n{at}", chance.randint(1, 4)) for at in range(chance.randint(1, 3))]
    worlds = World(*nodes), World(*nodes)
    before, after = (f"{name}{seed}" for name in ("before", "after"))
    for world in worlds:
        world.fold(other(before))
        world.fold(other(before, "p"), queue="p")
    made = array(f"0-{count - 1}")
    jobs = [
        msgspec.structs.replace(made.template, job_id=task_id(ID, index)) for index in range(count)
    ]
    worlds[0].fold(made)
    worlds[1].fold(*jobs)
    for world in worlds:
        world.fold(other(after))
    worlds[0].release()
    worlds[1].fold(NOTHING)
    seen: list[list[str]] = []
    for _ in range(3 * count):
        plans = [world.cycle() for world in worlds]
        assert plans[0] == plans[1]
        seen.append(plans[0])
        ended = [int(each.partition("@")[0]) for each in plans[0] if each[0].isdigit()]
        for world in worlds:
            world.succeed(*[index for index in ended if index < count])
    assert sum(len(plan) for plan in seen) >= count


def other(name: str, queue: str = "q") -> ev.JobSubmitted:
    job_id = client_job_id(0, queue, "s", name)
    return msgspec.structs.replace(array("0").template, job_id=job_id, client_id=name)


def test_the_ids_of_tasks_name_their_array() -> None:
    assert task_id(ID, 7)[:-5] == ID[:-5]


def test_waiting_tasks_that_are_named_by_their_ids_are_one_request() -> None:
    """One request each would divide the set again for each of them: minutes for 10,000 ids."""
    world = World()
    world.fold(array("0-9999", running_max=1))
    world.fold(*(ev.JobCancelRequested(job_id=world.task(n)) for n in range(1, 2_000, 2)))
    assert len(world.state.cancel_requests) == 1
    assert len(world.state.waiting) == 9_000
    assert tags(world.release()) == {"arrayTasksCancelled": 1, "jobSubmitted": 1}
