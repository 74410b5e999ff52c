"""Records in batches, as the log in Postgres stores them."""

from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.log.postgres.record_batches import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    COMPRESSED_BYTES_MIN,
    MAGIC,
    NewBatch,
    StoredBatch,
    limit,
    pack,
    unpack,
)
from fairlead_common.log.protocol import RECORD_BYTES_MAX, Entry, Record

FIRST = 1_000


def stored(batches: list[NewBatch], part: int, next_position: int) -> list[StoredBatch]:
    """The rows of one part, as the database writes them."""
    return [
        StoredBatch(part, next_position - batch.following, 0, list(batch.keys), batch.stored_values)
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
        assert batch.deletions == batch.stored_values.count(None)
        assert len(batch.keys) <= BATCH_RECORDS_MAX
        values = [
            entry.value or b"" for entry in unpack(stored([batch], batch.part, 0)[0], 7, -999)
        ]
        assert batch.size == sum(map(len, [key.encode() for key in batch.keys] + values))
        assert sum(map(len, values[:-1])) < BATCH_BYTES_MAX


@given(st.binary(max_size=64), st.integers(0, 300), st.booleans())
def test_every_value_is_read_as_it_was_appended(
    value: bytes, repeats: int, begins_with_magic: bool
) -> None:
    record = Record("t", "k", (MAGIC if begins_with_magic else b"") + value * repeats)
    (batch,) = pack({1: [record]})
    assert [entry.value for entry in unpack(stored([batch], 1, 1)[0], 0, 0)] == [record.value]


def test_long_values_are_stored_compressed() -> None:
    longest = b'{"type":"submitted"}' * (RECORD_BYTES_MAX // 20)
    for value in (longest, longest.ljust(RECORD_BYTES_MAX), b"x" * COMPRESSED_BYTES_MIN):
        (batch,) = pack({1: [Record("t", "k", value)]})
        assert len(batch.stored_values[0] or b"") < len(value) / 50
        assert [entry.value for entry in unpack(stored([batch], 1, 1)[0], 0, 0)] == [value]


def test_a_damaged_value_is_read_as_it_is_stored() -> None:
    compressed = zstd.compress(b"x" * 100_000)
    too_long = zstd.compress(b"x" * (RECORD_BYTES_MAX + 1))
    for damaged in (compressed[:-3], MAGIC, MAGIC + b"?" * 90, too_long):
        batch = StoredBatch(1, 1, 5, ["k"], [damaged])
        assert unpack(batch, 0, 0) == [Entry(0, 0, "k", damaged, 5)]


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
