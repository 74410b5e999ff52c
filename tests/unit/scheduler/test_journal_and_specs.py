"""What the view keeps beside its columns: names, which rows changed, and what was submitted."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.domain.ids import JobId, new_job_id
from fairlead_common.domain.records import events as ev
from fairlead_common.log import Entry
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.folds.input.event_batches import SubmissionBatch
from fairlead_scheduler.state.jobs.change_journal import MANY, RowJournal
from fairlead_scheduler.state.jobs.job_index import NO_ROW, JobIndex, unpack_ids
from fairlead_scheduler.state.jobs.job_table import JobSet
from fairlead_scheduler.state.jobs.specs import DECODED_MAX, Specs, SubmissionMessage
from fairlead_scheduler.state.view import View, forget_names
from tests.example_numbers import EXAMPLES
from tests.unit.scheduler.facts import submitted

A, B, C = JobId("a"), JobId("b"), JobId("c")


def since(journal: RowJournal, place: int) -> list[int] | None:
    """What a reader at this place is told."""
    rows = journal.distinct(place)
    return None if rows is None else rows.tolist()


def test_a_journal_returns_each_changed_row_once_from_any_retained_position() -> None:
    journal = RowJournal(entries_max=4)
    assert since(journal, 0) == []
    journal.extend([7, 3, 7])
    assert since(journal, 0) == [3, 7]
    assert since(journal, 2) == [7]
    journal.add(1)
    journal.extend([9, 2])
    assert since(journal, 1) is None
    assert since(journal, 2) == [1, 2, 7, 9]
    assert since(journal, 6) == []


def test_a_full_journal_retains_the_newest_rows() -> None:
    journal = RowJournal(entries_max=3)
    journal.add(5)
    journal.extend(range(10))
    assert since(journal, 7) is None
    assert since(journal, 8) == [7, 8, 9]
    assert since(journal, 10) == [9]


def test_many_journal_entries_equal_few() -> None:
    journal = RowJournal()
    journal.extend(list(range(MANY, -1, -1)) * 2)
    assert since(journal, 0) == list(range(MANY + 1))
    assert since(journal, 2 * MANY) == [0, 1]


def test_a_submission_is_the_same_before_and_after_it_is_saved() -> None:
    specs = Specs()
    specs.unsaved = {A: submitted("a", labels={"app": "x"}), B: submitted("b")}
    saving = specs.begin_save()
    specs.unsaved[C] = submitted("c")
    assert specs.get_all([A])[A] == submitted("a", labels={"app": "x"})
    assert [job_id for job_id, _ in saving or ()] == ["a", "b"]
    assert [job_id for job_id, _ in saving or ()] == ["a", "b"], "a save may be repeated"
    specs.end_save()
    assert specs.get_all([A])[A] == submitted("a", labels={"app": "x"})
    assert list(specs.unsaved) == ["c"]
    specs.trim_saved(0)
    assert A not in specs
    assert C in specs
    specs.drop([C])
    assert C not in specs


def test_a_job_that_ends_while_its_submission_is_saved_is_left_out() -> None:
    specs = Specs()
    (record,) = ev.records("q", "s", "test", [submitted("a"), submitted("b")])
    message = SubmissionMessage(record.value or b"")
    specs.unsaved = {A: (message, 0), B: (message, 1)}
    saving = specs.begin_save()
    specs.drop([A])
    assert [job_id for job_id, _ in saving or ()] == ["b"]
    specs.end_save()
    assert A not in specs


def test_the_newest_submissions_stay_in_memory_when_they_are_saved() -> None:
    specs = Specs()
    specs.unsaved = {A: submitted("a"), B: submitted("b"), C: submitted("c")}
    assert len(list(specs.begin_save(cached_max=2) or ())) == 3
    specs.end_save()
    assert list(specs.saved) == ["b", "c"]


def test_a_standby_retains_submissions_that_the_leader_has_not_saved() -> None:
    specs = Specs()
    specs.unsaved = {A: submitted("a"), B: submitted("b")}
    specs.forget_saved([B])
    assert A not in specs
    assert specs.get_all([B]) == {B: submitted("b")}


def test_a_submission_is_found_in_the_message_in_which_it_came() -> None:
    history = [submitted("a", labels={"app": "x"}), submitted("b"), submitted("c")]
    (record,) = ev.records("q", "s", "test", history)
    specs = Specs()
    message = SubmissionMessage(record.value or b"")
    specs.unsaved = {A: (message, 0), B: (message, 1), C: (message, 2)}
    assert specs.get_all([B, A]) == {A: history[0], B: history[1]}
    specs.drop([C])
    assert {job_id for job_id, _ in specs.begin_save() or ()} == {"a", "b"}
    specs.end_save()
    assert specs.get_all([A, B]) == {A: history[0], B: history[1]}
    assert C not in specs


def test_only_the_newest_submissions_stay_decoded() -> None:
    history = [submitted(f"{number:028}") for number in range(2 * DECODED_MAX)]
    view = View()
    for first in range(0, len(history), 1000):
        (record,) = ev.records("q", "s", "test", history[first : first + 1000], partition=0)
        entry = Entry(0, first, record.key, record.value, 0)
        (batch,) = job_fold.decode_batch([entry])
        assert isinstance(batch, SubmissionBatch)
        job_fold.fold_messages(view, [batch], {})
    places = [place for place in view.specs.unsaved.values() if isinstance(place, tuple)]
    assert sum(bool(message.decoded) for message, _ in places) == DECODED_MAX
    assert list(view.specs.get_all([event.job_id for event in history]).values()) == history


def test_job_sets_without_jobs_are_forgotten_and_no_reader_starts_over() -> None:
    view = View()
    for number in range(10):
        history = [submitted(f"j{number}"), submitted(f"k{number}")][: 1 + number % 2]
        sequence = ev.EventSequence(
            queue="q", job_set=f"s{number}", by="test", events=list(history)
        )
        job_fold.fold_messages(view, [job_fold.Message(number, 0, 0, sequence)], {})
    for job_id, row in list(view.jobs.rows.items()):
        if job_id not in ("k3", "j8"):
            view.jobs.release(row)
    forget_names(view, spare=5)
    assert [name.name for name in view.jobs.job_sets.values] == ["s3", "s8"]
    sets = {
        job_id: view.jobs.job_sets.values[view.jobs.job_set[row]].name
        for job_id, row in view.jobs.rows.items()
    }
    assert sets == {"k3": "s3", "j8": "s8"}
    assert view.jobs.numbering == 0
    assert view.jobs.job_sets.number(JobSet("q", "new")) == 2


_IDS = st.one_of(
    st.integers(0, 40).map(lambda number: new_job_id(3, 5, number)),
    st.sampled_from(["a", "", "\N{SNOWMAN}", "x" * 28, "x" * 29, "x" * 40]),
).map(JobId)


@settings(max_examples=EXAMPLES or 50)
@given(st.lists(st.tuples(st.booleans(), st.lists(_IDS, max_size=30, unique=True)), max_size=20))
def test_ids_map_to_their_rows_after_any_changes(steps: list[tuple[bool, list[JobId]]]) -> None:
    names, capacity = JobIndex(4), 4
    real: dict[JobId, int] = {}
    free: list[int] = []
    unused = itertools.count()
    for comes, chosen in steps:
        fresh = [job_id for job_id in chosen if job_id not in real]
        if comes and fresh:
            rows = [free.pop(0) if free else next(unused) for _ in fresh]
            if max(rows) >= capacity:
                capacity = max(rows) + 3
                names.grow(capacity)
            names.add(fresh, np.array(rows, np.intp))
            real.update(zip(fresh, rows, strict=True))
        removed = [] if comes else [real.pop(each) for each in chosen if each in real]
        for row in removed[:1]:
            names.remove(row)
        names.remove_all(np.array(removed[1:], np.intp))
        free += removed
        assert names.find(chosen).tolist() == [real.get(job_id, NO_ROW) for job_id in chosen]
        assert [names.get(job_id) for job_id in chosen] == [real.get(job_id) for job_id in chosen]
        assert dict(names.items()) == real
        assert len(names) == len(real)
        assert unpack_ids(names.packed_ids(np.array(list(real.values()), np.intp))) == list(real)


@settings(max_examples=EXAMPLES or 50)
@given(st.sets(st.integers(0, 199)))
def test_many_ids_are_removed_together(chosen: set[int]) -> None:
    ids = [JobId(new_job_id(3, 5, number)) for number in range(200)]
    names = JobIndex(200)
    names.add(ids, np.arange(200))
    names.remove_all(np.array(sorted(chosen), np.intp))
    found = [NO_ROW if row in chosen else row for row in range(200)]
    assert names.find(ids).tolist() == found
    assert [names.get(job_id) for job_id in ids] == [None if row < 0 else row for row in found]
    assert dict(names.items()) == {ids[row]: row for row in found if row >= 0}
    assert len(names) == 200 - len(chosen)
