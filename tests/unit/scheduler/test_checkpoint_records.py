"""Any view is the same after it was saved and loaded, whatever was saved in how many steps."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.ids import JobId
from fairlead_scheduler.view import columns as c
from fairlead_scheduler.view import records
from fairlead_scheduler.view.columns import View
from fairlead_scheduler.view.saved_names import SavedName, SavedNames
from tests.unit.scheduler.saved import (
    Table,
    add_jobs,
    change_jobs,
    content_of,
    end_jobs,
    random_view,
)

seeds = st.integers(0, 1 << 32)


@given(seed=seeds, jobs=st.integers(0, 40), piece_bytes=st.integers(1, 2_000))
@settings(max_examples=50, deadline=None)
def test_a_view_is_the_same_after_it_was_saved_and_loaded(
    seed: int, jobs: int, piece_bytes: int
) -> None:
    view, table = random_view(seed, jobs), Table()
    table.save(view)
    loaded = table.load(piece_bytes)
    assert content_of(loaded) == content_of(view)
    assert not loaded.jobs.unsaved.any()
    numbers = loaded.jobs.number[: loaded.jobs.used]
    assert (np.diff(numbers.astype(object)) >= 0).all(), "rows are in the order of submission"


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_what_is_derived_from_the_rows_is_there_after_loading(seed: int) -> None:
    view, table = random_view(seed, 30), Table()
    table.save(view)
    loaded = table.load()
    jobs = loaded.jobs
    for row, rare in jobs.rare.items():
        for other in rare.after:
            assert jobs.rows.of(row) in loaded.dependents[other]
        if rare.gang is not None and rare.gang_terms is not None:
            assert jobs.rows.of(row) in loaded.gang_members[rare.gang]
    for row in loaded.live_rows().tolist():
        is_over = c.HELD[jobs.state[row]] and not c.LIVE_RUN[jobs.run_state[row]]
        is_marked = bool(jobs.flags[row] & (c.DOOMED | c.STOPPING | c.LATE_SUCCESS))
        assert (row in loaded.attention) == (is_over or is_marked)


@given(seed=seeds, steps=st.lists(st.sampled_from(["add", "change", "end"]), max_size=8))
@settings(max_examples=50, deadline=None)
def test_what_was_saved_in_steps_is_what_one_save_of_all_writes(
    seed: int, steps: list[str]
) -> None:
    chance = np.random.default_rng(seed)
    view, table = random_view(seed, 10), Table()
    table.save(view)
    for step in steps:
        ids = [JobId(name) for name in sorted(content_of(view)) if chance.random() < 0.4]
        match step:
            case "add":
                add_jobs(view, chance, int(chance.integers(1, 9)))
            case "change":
                change_jobs(view, chance, ids)
            case _:
                end_jobs(view, ids)
        table.save(view)
    assert content_of(table.load()) == content_of(view)


def test_a_new_leader_goes_on_with_the_numbers_that_are_saved() -> None:
    view, table = random_view(1, 20), Table()
    table.save(view)
    # a standby that numbered names in another order takes over
    standby = Table().load()
    add_jobs(standby, np.random.default_rng(2), 20)
    named = [SavedName(*place, parts) for place, parts in table.names.items()]
    table.saved_names = SavedNames(named)
    table.save(standby)
    assert content_of(table.load()) == content_of(view) | content_of(standby)


def test_names_that_no_job_has_are_dropped_and_their_numbers_used_again() -> None:
    view, table = View(), Table()
    table.saved_names = SavedNames(unused_max=3)
    chance = np.random.default_rng(5)
    for _ in range(20):
        add_jobs(view, chance, 30)
        table.save(view)
        assert content_of(table.load()) == content_of(view)
        end_jobs(view, [JobId(name) for name in content_of(view)])
    table.save(view)
    assert table.rows == {}
    assert max(number for _, number in table.names) < 200


def test_rows_that_are_not_of_this_format_are_refused() -> None:
    record = bytes(records.RECORD.itemsize - 8)
    row = struct.pack(">hi", 2, 28) + b"0" * 28 + struct.pack(">i", len(record)) + record
    decoder = records.RowDecoder()
    assert list(decoder.feed(b"PGCOPY\n\xff\r\n\0" + bytes(8) + row + b"\xff\xff")) == []
    with pytest.raises(records.UnreadableRecords, match="format 1"):
        decoder.finish()


def test_a_row_that_names_a_number_without_a_name_is_refused() -> None:
    view, table = random_view(3, 5), Table()
    table.save(view)
    table.names = {place: parts for place, parts in table.names.items() if place[0] != "shape"}
    with pytest.raises(records.UnreadableRecords, match="shape"):
        table.load()
