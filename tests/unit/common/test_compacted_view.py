"""The fold of a compacted topic, against the plain definition."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.log.compacted_view import CompactedView
from fairlead_common.log.protocol import Entry

values = st.none() | st.sampled_from([b"1", b"2", b"3"])
writes = st.lists(st.tuples(st.sampled_from("abcd"), values), max_size=30)


def entries_of(written: list[tuple[str, bytes | None]]) -> list[Entry]:
    """These writes, in the order of the log."""
    return [Entry(0, at, key, value, at) for at, (key, value) in enumerate(written)]


def view() -> CompactedView[bytes]:
    """A view of values."""
    return CompactedView(lambda entry: entry.value or b"")


@given(writes, st.integers(0, 30))
def test_a_view_holds_the_newest_value_of_each_key_and_reports_what_changed(
    written: list[tuple[str, bytes | None]], cut: int
) -> None:
    folded = view()
    before: dict[str, bytes | None] = {}
    for part in (entries_of(written)[:cut], entries_of(written)[cut:]):
        changed = folded.fold(part)
        newest = before | {entry.key: entry.value for entry in part}
        assert folded.values == {key: value for key, value in newest.items() if value is not None}
        assert {key for key in newest if newest[key] != before.get(key)} <= set(changed)
        before = newest


@given(writes)
def test_a_topic_gives_the_same_view_before_and_after_compaction(
    written: list[tuple[str, bytes | None]],
) -> None:
    entries = entries_of(written)
    newest = {entry.key: entry.position for entry in entries}
    compacted = [entry for entry in entries if newest[entry.key] == entry.position]
    whole, short = view(), view()
    whole.fold(entries)
    short.fold(compacted)
    assert list(whole.values.items()) == list(short.values.items())
    whole.fold(compacted)
    assert list(whole.values.items()) == list(short.values.items())


def test_a_full_view_updates_its_keys_and_adds_none() -> None:
    folded = CompactedView(lambda entry: entry.value, keys_max=2)
    full = []
    for written in ([("a", b"1"), ("b", b"1")], [("c", b"1"), ("a", b"2")]):
        folded.fold(entries_of([*written]))
        full.append(folded.is_full)
    assert full == [False, True]
    assert folded.values == {"a": b"2", "b": b"1"}


def test_an_equal_value_is_not_a_change() -> None:
    folded = view()
    assert folded.fold(entries_of([("a", b"1"), ("a", b"1")])) == ["a"]
    assert folded.fold(entries_of([("a", b"1"), ("b", None)])) == []
