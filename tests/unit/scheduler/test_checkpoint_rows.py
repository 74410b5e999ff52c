"""Any view is the same after it was saved and loaded, whatever was saved in how many steps."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_common.domain.ids import JobId, new_job_id, partition_of_job
from fairlead_common.domain.records import events as ev
from fairlead_scheduler.state.checkpoint import checkpoint_rows
from fairlead_scheduler.state.checkpoint.checkpoint_loader import UNORDERED_MAX
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedName, SavedNames
from fairlead_scheduler.state.checkpoint.checkpoint_parts import CheckpointParts
from fairlead_scheduler.state.folds import job_fold
from fairlead_scheduler.state.jobs import job_table
from fairlead_scheduler.state.view import View
from tests.example_numbers import EXAMPLES
from tests.unit.scheduler.facts import submitted
from tests.unit.scheduler.saved import (
    PARTITIONS,
    Table,
    add_jobs,
    change_jobs,
    content_of,
    contents,
    end_jobs,
    random_view,
)

seeds = st.integers(0, 1 << 32)


@given(
    seed=seeds, jobs=st.integers(0, 40), piece_bytes=st.integers(1, 2_000), ordered=st.booleans()
)
@settings(max_examples=EXAMPLES or 25, deadline=None)
def test_a_view_is_the_same_after_it_was_saved_and_loaded(
    seed: int, jobs: int, piece_bytes: int, ordered: bool
) -> None:
    view, table = random_view(seed, jobs), Table()
    if ordered:
        view.jobs.number[:jobs] = np.arange(jobs)
    table.save(view)
    loaded = table.load(piece_bytes)
    assert content_of(loaded) == content_of(view)
    assert not loaded.jobs.unsaved.any()
    numbers = loaded.jobs.number[: loaded.jobs.used]
    descents = np.count_nonzero(numbers[1:] < numbers[:-1])
    assert descents <= UNORDERED_MAX * jobs, "rows are in the order of submission, or nearly"


@given(seed=seeds)
@settings(max_examples=EXAMPLES or 15, deadline=None)
def test_derived_data_exists_after_loading(seed: int) -> None:
    view, table = random_view(seed, 30), Table()
    table.save(view)
    loaded = table.load()
    jobs = loaded.jobs
    for row, rare in jobs.rare_properties.items():
        for other in rare.after:
            assert jobs.rows.id_at(row) in loaded.dependents[other]
        if rare.gang is not None and rare.gang_terms is not None:
            assert jobs.rows.id_at(row) in loaded.gang_members[rare.gang]
    for row in loaded.live_rows().tolist():
        is_over = (
            job_table.WITH_RUN[jobs.state[row]] and not job_table.LIVE_RUN[jobs.run_state[row]]
        )
        is_marked = bool(
            jobs.flags[row] & (job_table.CANNOT_START | job_table.STOPPING | job_table.LATE_SUCCESS)
        )
        assert (row in loaded.rows_to_examine) == (is_over or is_marked)


@given(seed=seeds, steps=st.lists(st.sampled_from(["add", "change", "end"]), max_size=8))
@settings(max_examples=EXAMPLES or 25, deadline=None)
def test_saves_in_steps_equal_one_full_save(seed: int, steps: list[str]) -> None:
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


def test_a_new_leader_continues_with_the_saved_numbers() -> None:
    view, table = random_view(1, 20), Table()
    table.save(view)
    # a standby that numbered names in another order takes over
    standby = Table().load()
    add_jobs(standby, np.random.default_rng(2), 20)
    named = [SavedName(*place, parts) for place, parts in table.names.items()]
    table.saved_names = SavedNames(named)
    table.save(standby)
    assert content_of(table.load()) == content_of(view) | content_of(standby)


def test_unused_names_are_deleted_and_their_numbers_reused() -> None:
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


def test_rows_of_another_format_are_refused() -> None:
    record = bytes(checkpoint_rows.RECORD.itemsize - 8)
    row = struct.pack(">hi", 2, 28) + b"0" * 28 + struct.pack(">i", len(record)) + record
    decoder = checkpoint_rows.RowDecoder()
    assert list(decoder.feed(b"PGCOPY\n\xff\r\n\0" + bytes(8) + row + b"\xff\xff")) == []
    with pytest.raises(checkpoint_rows.UnreadableRecords, match="format 1"):
        decoder.finish()


def test_a_row_with_an_unknown_number_is_refused() -> None:
    view, table = random_view(3, 5), Table()
    table.save(view)
    table.names = {place: parts for place, parts in table.names.items() if place[0] != "shape"}
    with pytest.raises(checkpoint_rows.UnreadableRecords, match="shape"):
        table.load()


@given(seed=seeds, done=st.integers(0, 40), rows_max=st.integers(1, 12))
@settings(max_examples=EXAMPLES or 25, deadline=None)
def test_an_interrupted_save_leaves_each_partition_consistent(
    seed: int, done: int, rows_max: int
) -> None:
    chance = np.random.default_rng(seed)
    view, table = random_view(seed, 30), Table()
    table.saved_names = SavedNames(unused_max=0)
    table.save(view)
    known = [{view.positions[partition]: each} for partition, each in enumerate(contents(view))]
    for _ in range(3):
        change_all(view, chance)
        for partition, each in enumerate(contents(view)):
            known[partition][view.positions[partition]] = each
        for _ in zip(range(done), table.save_parts(view, rows_max), strict=False):
            loaded = table.load()
            for partition, each in enumerate(contents(loaded)):
                assert each == known[partition][loaded.positions[partition]]
            change_all(view, chance)  # while a part is being saved
            for partition, each in enumerate(contents(view)):
                known[partition][view.positions[partition]] = each
    table.save(view, rows_max)
    assert content_of(table.load()) == content_of(view)
    named = [SavedName(*place, parts) for place, parts in table.names.items()]
    table.saved_names = SavedNames(named, unused_max=0)  # the next leader
    change_all(view, chance)
    table.save(view, rows_max)
    assert content_of(table.load()) == content_of(view)


def test_a_part_has_whole_partitions_and_a_bounded_number_of_jobs() -> None:
    view, names = random_view(4, 300), SavedNames()
    parts = CheckpointParts(view, names, [0] * PARTITIONS, rows_max=40)
    saved: list[set[JobId]] = []
    while not parts.is_done:
        changes = parts.take_next()
        assert changes.new_jobs is not None
        saved.append({JobId(key.decode()) for key in changes.new_jobs.keys.tolist()})
    assert len(saved) > 1
    assert all(len(part) <= 40 or len(set(map(partition_of_job, part))) == 1 for part in saved)
    assert sum(map(len, saved)) == 300
    partitions = [set(map(partition_of_job, part)) for part in saved]
    assert sum(map(len, partitions)) == len(set().union(*partitions))


def test_submissions_are_saved_early_and_omitted_for_ended_jobs() -> None:
    view, table = View(), Table()
    ids = [new_job_id(partition, 0, 0) for partition in range(4)]
    for partition, job_id in enumerate(ids):
        fold(view, partition, 0, submitted(job_id, client_id=None))
    table.save_specs(view, 3)
    assert list(table.specs) == ids[:3]
    assert table.rows == {}
    fold(view, 0, 1, ev.JobCancelRequested(job_id=ids[0]))
    fold(view, 3, 1, ev.JobCancelRequested(job_id=ids[3]))
    table.save(view, rows_max=1)
    assert list(table.specs) == ids[1:3]
    assert sorted(table.rows) == sorted(ids[1:3])


def fold(view: View, partition: int, position: int, event: ev.AnyEvent) -> None:
    """One message of one event."""
    sequence = ev.EventSequence(queue="q", job_set="s", by="test", events=[event])
    job_fold.fold_messages(view, [job_fold.Message(partition, position, 0, sequence)], {})


def change_all(view: View, chance: np.random.Generator) -> None:
    """Some jobs change, some end, some are new, and partitions in which any did move on."""
    ids = [JobId(name) for name in sorted(content_of(view))]
    chosen = [job_id for job_id in ids if chance.random() < 0.4]
    ending, changing = chosen[::2], chosen[1::2]
    end_jobs(view, ending)
    change_jobs(view, chance, changing)
    before = {*ids}
    add_jobs(view, chance, int(chance.integers(0, 5)))
    added = content_of(view).keys() - before
    for partition in {partition_of_job(job_id) for job_id in (*chosen, *added)}:
        view.positions[partition] += 1
