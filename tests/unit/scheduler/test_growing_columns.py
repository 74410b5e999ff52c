"""Columns with a row per job grow in place, and ids are found in whatever order rows were added."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.domain.ids import JobId
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.jobs.growing_columns import LARGE, RESERVED, STEP, grow_array
from fairlead_scheduler.state.jobs.job_index import NO_ROW, JobIndex
from tests.example_numbers import EXAMPLES


def test_an_array_with_enough_rows_is_unchanged() -> None:
    array = np.arange(5)
    assert grow_array(array, 5) is array


@pytest.mark.parametrize("rows", [6, LARGE, LARGE + 1, 3 * LARGE])
@pytest.mark.parametrize("fill", [0, -1])
def test_an_array_that_grows_keeps_its_rows_and_fills_the_rest(rows: int, fill: int) -> None:
    found = grow_array(np.arange(5, dtype=np.int32), rows, fill)
    assert found.size >= rows
    assert found[:5].tolist() == [0, 1, 2, 3, 4]
    assert (found[5:] == fill).all()


def test_a_large_array_grows_without_being_copied() -> None:
    large = grow_array(np.zeros(0, np.int64), LARGE + 1)
    large[:] = 7
    grown = grow_array(large, 4 * LARGE, -1)
    assert np.shares_memory(large, grown)
    assert (grown[: large.size] == 7).all()
    assert (grown[large.size :] == -1).all()


def test_arrays_of_equal_size_grow_equally() -> None:
    few, many = np.zeros(1_000, np.uint8), np.zeros(1_000, "S32")
    for rows in (1_001, LARGE, LARGE + 1, LARGE + STEP + 1):
        few, many = grow_array(few, rows), grow_array(many, rows)
        assert few.size == many.size


def test_an_array_beyond_its_reserved_addresses_is_copied() -> None:
    full = grow_array(np.zeros(1, np.bool_), RESERVED)
    full[-1] = True
    more = grow_array(full, RESERVED + 1)
    assert more.size > RESERVED
    assert more[RESERVED - 1]
    assert not more[RESERVED:].any()


def test_an_array_grows_without_reserved_addresses() -> None:
    wide = np.zeros(1, "S8192")  # room for all rows: 128 GiB, more than most machines promise
    wide[0] = b"first"
    for rows in (LARGE + 1, LARGE + STEP + 1):
        wide = grow_array(wide, rows)
        assert wide.size == -(-rows // STEP) * STEP
        assert wide[0] == b"first"
        assert wide[-1] == b""


def test_columns_that_grow_past_the_step_have_free_rows_only() -> None:
    jobs = job_table.JobTable()
    rows = jobs.allocate(LARGE + 1)
    jobs.flags[rows] = 0
    assert (jobs.flags[jobs.used :] == job_table.FREE).all()
    assert len({len(getattr(jobs, name)) for name in ("state", "flags", "digest", "position")}) == 1


def _id(number: int) -> JobId:
    return JobId(f"{number:028d}")


@settings(max_examples=EXAMPLES or 25, deadline=None)
@given(
    begin=st.integers(1, 40),
    added=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    removed=st.sets(st.integers(0, 200), max_size=30),
)
def test_ids_are_found_after_any_growth(begin: int, added: list[int], removed: set[int]) -> None:
    names = JobIndex(begin)
    there: dict[JobId, int] = {}
    rows = 0
    for count in added:
        new = np.arange(rows, rows + count)
        rows += count
        names.grow(max(begin, rows))
        names.add([_id(row) for row in new.tolist()], new)
        there |= {_id(row): row for row in new.tolist()}
        for row in sorted(removed):
            if there.pop(_id(row), None) is not None:
                names.remove(row)
    asked = [_id(number) for number in range(rows + 1)]
    want = [there.get(job_id, NO_ROW) for job_id in asked]
    assert names.find(asked).tolist() == want
    assert [names.get(job_id) for job_id in asked] == [there.get(job_id) for job_id in asked]
    assert dict(names.items()) == there
