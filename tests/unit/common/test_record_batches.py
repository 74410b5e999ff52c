"""Records in batches, as the log in Postgres stores them."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.log.postgres.record_batches import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    NewBatch,
    StoredBatch,
    limit,
    pack,
    unpack,
)
from fairlead_common.log.protocol import Entry, Record

FIRST = 1_000


def stored(batches: list[NewBatch], part: int, next_position: int) -> list[StoredBatch]:
    """The rows of one part, as the database writes them."""
    return [
        StoredBatch(part, next_position - batch.following, 0, list(batch.keys), batch.values)
        for batch in batches
        if batch.part == part
    ]


def numbered(sizes: list[int | None], topic: str = "t") -> list[Record]:
    """Records with values of these sizes; None: no value."""
    return [
        Record(topic, f"{number}", None if size is None else b"x" * size)
        for number, size in enumerate(sizes)
    ]


@given(
    st.dictionaries(
        st.integers(1, 3),
        st.lists(st.sampled_from([None, 0, 1, 3_000, BATCH_BYTES_MAX]), min_size=1, max_size=600),
        max_size=3,
    )
)
def test_batches_hold_all_records_in_order_and_within_their_bounds(
    sizes: dict[int, list[int | None]],
) -> None:
    parts = {part: numbered(some) for part, some in sizes.items()}
    batches = pack(parts)
    for part, records in parts.items():
        entries = [
            entry
            for batch in stored(batches, part, FIRST + len(records))
            for entry in unpack(batch, 7, 0)
        ]
        assert entries == [
            Entry(7, FIRST + number, record.key, record.value, 0)
            for number, record in enumerate(records)
        ]
    for batch in batches:
        assert batch.deletions == batch.values.count(None)
        assert len(batch.keys) <= BATCH_RECORDS_MAX
        before_last = batch.values[:-1]
        assert sum(len(value or b"") for value in before_last) < BATCH_BYTES_MAX


def test_few_records_make_one_batch() -> None:
    assert len(pack({1: numbered([10] * BATCH_RECORDS_MAX)})) == 1
    assert len(pack({1: numbered([10] * (BATCH_RECORDS_MAX + 1))})) == 2
    assert len(pack({1: numbered([BATCH_BYTES_MAX - 2, 1, 1])})) == 2


def test_a_batch_is_read_from_a_position_within_it_without_removed_records() -> None:
    batch = StoredBatch(1, FIRST + 4, 5, ["a", None, "c", "d"], [b"1", b"old", None, b"4"])
    assert unpack(batch, 0, FIRST + 1) == [
        Entry(0, FIRST + 2, "c", None, 5),
        Entry(0, FIRST + 3, "d", b"4", 5),
    ]
    assert [entry.key for entry in unpack(batch, 0, FIRST - 50)] == ["a", "c", "d"]
    assert unpack(batch, 0, FIRST + 4) == []


def test_limits_leave_at_least_one_record() -> None:
    entries = [Entry(0, number, "k", b"x" * 9, 0) for number in range(5)]
    assert limit(entries, 3, 1_000) == entries[:3]
    assert limit(entries, 10, 20) == entries[:2]
    assert limit(entries, 10, 1) == entries[:1]
    assert limit([], 10, 1) == []
