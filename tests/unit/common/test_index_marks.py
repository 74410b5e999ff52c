"""Marked and unmarked indexes of arrays, compared with sets."""

from random import Random

import pytest

from fairlead_common.domain.records import index_marks, index_sets
from fairlead_common.domain.records.index_marks import CHUNK_TASKS


def choose_ranges(chance: Random) -> list[range]:
    """Ascending ranges over several chunks, with small and with large steps."""
    found: list[str] = []
    begin = 0
    for _ in range(chance.randint(1, 5)):
        first, step = begin + chance.randint(0, 70_000), chance.choice((1, 1, 2, 7, 70_000))
        last = first + step * (chance.randint(1, 60_000) if step < 10 else chance.randint(1, 3))
        found.append(f"{first}-{last}:{step}")
        begin = last + 1
    return index_sets.parse(",".join(found)).as_ranges()


def mark(indexes: set[int]) -> index_marks.Marks:
    """These indexes, as the table has them."""
    chunks: dict[int, bytearray] = {}
    for index in indexes:
        chunk, bit = divmod(index, CHUNK_TASKS)
        chunks.setdefault(chunk, bytearray(b"0" * CHUNK_TASKS))[bit] = ord("1")
    return {chunk: int(bytes(bits), 2) for chunk, bits in chunks.items()}


@pytest.mark.parametrize("seed", range(20))
def test_indexes_are_listed_in_order(seed: int) -> None:
    chance = Random(seed)
    ranges = choose_ranges(chance)
    every = [index for each in ranges for index in each]
    marked = set(chance.sample(every, chance.randint(0, len(every)))) if seed % 4 else set()
    marks = mark(marked)
    after = chance.choice((-1, chance.choice(every), chance.randint(0, every[-1] + 5)))
    later = [index for index in every if index > after]
    assert list(index_marks.list_marked(marks, after)) == [i for i in later if i in marked]
    assert list(index_marks.list_unmarked(ranges, marks, after)) == [
        index for index in later if index not in marked
    ]
    unmarked = sum(index not in marked for index in later)
    assert index_marks.count_unmarked(ranges, marks, after) == unmarked
    assert [index_marks.is_marked(marks, i) for i in every[:999]] == [
        i in marked for i in every[:999]
    ]
