"""How the fold counts arrays: rows, tasks by state, counters of the job set, and public events."""

from collections import Counter
from random import Random

import msgspec
import pytest

from fairlead_common.domain import ids
from fairlead_common.domain.records import events, index_sets
from fairlead_common.domain.records.index_marks import CHUNK_TASKS
from fairlead_lookout.domain.array_records import ArrayChange
from tests.unit.lookout.builders import PlainView, job_id, message, submitted

ID = ids.array_id(job_id("array"))


def array(indexes: str = "0-9", count: int = 10) -> events.ArraySubmitted:
    template = submitted("array", job_id=ids.JobId(ID))
    return events.ArraySubmitted(array=ID, template=template, count=count, indexes=indexes)


def task(index: int) -> ids.JobId:
    return ids.task_id(ID, index)


def released(index: int) -> events.JobSubmitted:
    member = events.ArrayTask(ID, index, 10, 100 + index)
    return submitted("array", job_id=task(index), client_id=None, array=member)


def test_an_array_is_a_row_and_its_tasks_are_counted() -> None:
    view = PlainView()
    changes = view.fold(message(0, array("0-999990:10", 1_000_000)))
    (row,) = changes.arrays.new
    assert (row.array_id, row.tasks, row.client_id, row.submitted_by) == (
        ID, 100_000, "array", "anna",
    )  # fmt: skip
    assert changes.arrays.counts == {(ID, "QUEUED"): 100_000}
    assert changes.jobs == {}
    assert view.counts() == {"QUEUED": 100_000}
    assert view.counted["q", "default", "QUEUED"] == 100_000
    (event,) = view.published["q", "s"]
    assert (event["type"], event["array"], event["tasks"]) == ("arraySubmitted", ID, 100_000)


def test_a_task_of_the_batch_with_its_array_has_its_submitter() -> None:
    view = PlainView()
    view.fold(message(0, array()), message(1, released(3), by="scheduler"))
    assert view.cache.jobs[task(3)].submitted_by == "anna"


def test_a_released_task_is_a_job_that_is_counted_once() -> None:
    view = PlainView()
    view.fold(message(0, array()))
    changes = view.fold(message(1, released(3), by="scheduler"))
    assert changes.arrays.changes == {ID: ArrayChange(ID, released=1)}
    assert view.counts() == {"QUEUED": 10}
    job = view.cache.jobs[task(3)]
    assert (job.number, job.is_task, job.submitted_by) == (103, True, "anna")
    changes = view.fold(
        message(2, events.JobRunLeased(job_id=task(3), run=1, executor="e", node="n"))
    )
    assert changes.arrays.counts == {(ID, "QUEUED"): -1, (ID, "LEASED"): 1}
    assert view.counts() == {"QUEUED": 9, "LEASED": 1}


def test_a_repeated_submission_changes_nothing() -> None:
    view = PlainView()
    view.fold(message(0, array(), array()))
    changes = view.fold(message(1, array()))
    assert changes.arrays.new == []
    assert view.counts() == {"QUEUED": 10}
    assert view.types() == ["arraySubmitted"]


def test_a_task_that_was_submitted_again_is_a_job_of_its_own() -> None:
    view = PlainView()
    view.fold(message(0, array()))
    again = msgspec.structs.replace(released(3), job_id=job_id("again"))
    changes = view.fold(message(1, again))
    assert changes.arrays.changes == {}
    assert not view.cache.jobs[job_id("again")].is_task
    assert view.counts() == {"QUEUED": 11}


def test_cancelled_tasks_are_counted_and_the_last_one_finishes_the_job_set() -> None:
    view = PlainView()
    view.fold(message(0, array(), released(0)))
    view.fold(
        message(1, events.ArrayCancelRequested(array=ID, reason="enough")),
        message(2, events.JobCancelRequested(job_id=task(0), reason="enough")),
    )
    changes = view.fold(
        message(3, events.ArrayTasksCancelled(array=ID, indexes="1-9", tasks=9, reason="enough")),
        message(4, events.ArrayEnded(array=ID)),
    )
    assert changes.arrays.changes == {
        ID: ArrayChange(ID, cancelled=9, cancelled_ranges=1, ended_ms=1_000_004)
    }
    assert view.counts() == {"CANCELLED": 10}
    assert view.types()[-3:] == ["arrayTasksCancelled", "finished", "arrayEnded"]


@pytest.mark.parametrize(
    "indexes", ["7", "0-999999", "3-999999:7", "5-900000:70001", "65535-65536"]
)
def test_cancelled_tasks_are_bits_however_they_are_named(indexes: str) -> None:
    view, wanted = PlainView(), index_sets.parse(indexes)
    view.fold(message(0, array("0-999999", 1_000_000)))
    done = events.ArrayTasksCancelled(array=ID, indexes=str(wanted), tasks=len(wanted))
    again = events.ArrayTasksCancelled(array=ID, indexes="7", tasks=1)
    changes = view.fold(message(1, done, again)).arrays
    marked = {
        chunk * CHUNK_TASKS + bit
        for (_, chunk), bits in changes.cancelled_tasks.items()
        for bit in range(CHUNK_TASKS)
        if bits[bit : bit + 1] == b"1"
    }
    assert marked == {*wanted, 7}
    assert {len(bits) for bits in changes.cancelled_tasks.values()} == {CHUNK_TASKS}
    assert changes.changes[ID].cancelled_ranges == len(wanted.ranges) + 1


@pytest.mark.parametrize("seed", range(20))
def test_counts_of_any_history_are_those_of_its_tasks(seed: int) -> None:
    """The counters of the job set and of the array agree with the tasks, in batches of any size."""
    chance, view = Random(seed), PlainView()
    history: list[events.AnyEvent] = [array()]
    for index in range(10):
        fate = chance.randrange(4)
        if fate == 0:
            history.append(events.ArrayTasksCancelled(array=ID, indexes=str(index), tasks=1))
        if fate >= 1:
            history.append(released(index))
        if fate >= 2:
            leased = events.JobRunLeased(job_id=task(index), run=1, executor="e", node="n")
            history += [leased, events.JobRunRunning(job_id=task(index), run=1)]
        if fate == 3:
            history.append(events.JobSucceeded(job_id=task(index)))
    counts: Counter[str] = Counter()
    position = 0
    while history:
        size = chance.randint(1, 4)
        batch, history = history[:size], history[size:]
        changes = view.fold(*(message(position + at, one) for at, one in enumerate(batch)))
        position += size
        for (_, state), tasks in changes.arrays.counts.items():
            counts[state] += tasks
    assert +counts == Counter(view.counts())
    jobs = Counter(job.state for job in view.cache.jobs.values())
    waiting = 10 - jobs.total() - (counts["CANCELLED"] - jobs["CANCELLED"])
    assert counts["QUEUED"] == jobs["QUEUED"] + waiting
    assert counts.total() == 10
