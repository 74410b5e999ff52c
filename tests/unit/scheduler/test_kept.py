"""What the view keeps beside its columns: which rows changed, and what was submitted."""

from fairlead_common.ids import JobId
from fairlead_scheduler.view.journal import RowJournal
from fairlead_scheduler.view.specs import Specs
from tests.unit.scheduler.facts import submitted

A, B = JobId("a"), JobId("b")


def since(journal: RowJournal, place: int) -> list[int] | None:
    """What a reader at this place is told."""
    rows = journal.distinct(place)
    return None if rows is None else rows.tolist()


def test_a_journal_names_each_row_once_from_any_place_that_it_still_knows() -> None:
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


def test_more_rows_than_a_journal_holds_leave_the_newest() -> None:
    journal = RowJournal(entries_max=3)
    journal.add(5)
    journal.extend(range(10))
    assert since(journal, 7) is None
    assert since(journal, 8) == [7, 8, 9]
    assert since(journal, 10) == [9]


def test_a_submission_is_the_same_before_and_after_it_is_saved() -> None:
    specs = Specs()
    specs.fresh = {A: submitted("a", labels={"app": "x"}), B: submitted("b")}
    assert [job_id for job_id, _ in specs.save(unless={B})] == ["a"]
    assert specs.get(A) == submitted("a", labels={"app": "x"})
    assert list(specs.fresh) == ["b"]
    specs.keep(0)
    assert A not in specs
    assert B in specs
    specs.drop(B)
    assert B not in specs
