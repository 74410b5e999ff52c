"""Submissions as columns: each job keeps what it says, however many come together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events as ev
from fairlead_common.log import Entry
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.folds.input.event_batches import EVENTS_PER_BATCH
from fairlead_scheduler.state.jobs import job_index, job_table
from fairlead_scheduler.state.view import View
from tests.unit.scheduler.facts import submitted

WAYS_TO_DIFFER: dict[str, tuple[object, ...]] = {
    "pool": ("default", "gpu"),
    "priority": (0, 7, -3),
    "priority_class": ("default", "urgent"),
    "hold": (False, True),
    "grace_s": (30, 5),
    "start_after_ms": (None, 12_345),
    "queue_s_max": (None, 60, 0),
    "runtime_s_max": (None, 90),
    "checkpoint_s": (None, 15),
    "on_preemption": ("requeue", "fail"),
    "when_infeasible": ("reject", "wait"),
    "digest": ("d" * 32, "short", "e" * 32),
}


def _told(jobs: list[ev.JobSubmitted], per_message: int) -> View:
    """A view after these jobs, so many in each message, all messages together."""
    view = View()
    entries = []
    for position, at in enumerate(range(0, len(jobs), per_message)):
        (record,) = ev.records("q", "s", "test", jobs[at : at + per_message], partition=0)
        entries.append(Entry(0, position, record.key, record.value, 1_000))
    job_fold.fold_messages(view, job_fold.decode_batch(entries), {})
    return view


@pytest.mark.parametrize("per_message", [1, 100])
@pytest.mark.parametrize("field", WAYS_TO_DIFFER)
def test_jobs_of_a_batch_have_their_own_fields(field: str, per_message: int) -> None:
    says = WAYS_TO_DIFFER[field]
    # First some that agree, then some that do not.
    said = [says[-1]] * EVENTS_PER_BATCH + [
        says[number % len(says)] for number in range(2 * EVENTS_PER_BATCH)
    ]
    jobs = [submitted(f"{n:028d}", **{field: value}) for n, value in enumerate(said)]
    together = _told(jobs, per_message)
    for job in jobs:
        alone = View()
        job_fold.fold_messages(
            alone, [job_fold.Message(0, 0, 1_000, ev.EventSequence("q", "s", "test", [job]))], {}
        )
        assert _columns(together, job.job_id) == _columns(alone, job.job_id)


def _columns(view: View, job_id: JobId) -> tuple[object, ...]:
    jobs = view.jobs
    row = jobs.rows[job_id]
    same = ("flags", "grace_s", "priority", "start_after_ms", "queue_until_ms", "runtime_ms_max")
    columns = [getattr(jobs, name)[row] for name in (*same, "checkpoint_ms", "digest")]
    return (*columns, jobs.pools.values[jobs.pool[row]], jobs.shapes.values[jobs.shape[row]])


def test_a_job_finds_its_own_submission_in_the_message_that_it_shares() -> None:
    jobs = [submitted(f"{n:028d}", grace_s=n) for n in range(3 * EVENTS_PER_BATCH)]
    view = _told(jobs, EVENTS_PER_BATCH + 1)
    found = view.specs.get_all([job.job_id for job in jobs])
    assert [found[job.job_id].grace_s for job in jobs] == list(range(3 * EVENTS_PER_BATCH))


def test_equal_shapes_of_two_classes_are_distinct() -> None:
    jobs = [
        submitted(f"{n:028d}", priority_class="urgent" if n % 2 else "default") for n in range(4)
    ]
    view = _told(jobs, 4)
    kinds = [view.jobs.shapes.values[n] for n in view.jobs.shape[:4]]
    assert kinds == [job_table.ShapeClass(bytes(job.shape), job.priority_class) for job in jobs]


@given(texts=st.lists(st.text("aä\0z", min_size=0, max_size=4), min_size=1, max_size=5))
def test_texts_of_one_length_become_the_array_that_numpy_makes_of_them(texts: list[str]) -> None:
    found = job_index.pack_equal_lengths(texts, 3)
    usual = all(len(text) == 3 and text.isascii() for text in texts)
    assert (found is not None) == usual
    if found is not None:
        assert found.tolist() == np.array([text.encode() for text in texts], "S3").tolist()
