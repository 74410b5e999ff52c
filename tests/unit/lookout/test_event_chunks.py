"""Chunks of public events."""

import itertools

import pytest

from fairlead_lookout.domain import event_chunks
from fairlead_lookout.domain.model import JobSet, Line

KEY = ("q", "s")


def lines(count: int, size: int = 20) -> list[Line]:
    """So many events of about so many bytes, three to a message."""
    made = []
    for number in range(count):
        place = (number // 3, number % 3)
        pad = "x" * size
        text = f'{{"id":"5-{place[0]}-{place[1]}","type":"leased","pad":"{pad}"}}'
        made.append(Line(*place, 1_000, text.encode()))
    return made


def test_chunks_hold_every_line_once_and_in_order() -> None:
    lines_ = lines(2_000, size=500)
    packed = list(event_chunks.pack_chunks({KEY: JobSet(1, KEY, 0)}, {KEY: lines_}))
    assert len(packed) > 1
    assert packed[0].previous == (-1, 0)
    for before, after in itertools.pairwise(packed):
        assert after.previous == before.last
    seen = [line for chunk in packed for _, line in event_chunks.split_after(chunk.data, (-1, 0))]
    assert seen == [line.json for line in lines_]
    assert all(len(chunk.data) < event_chunks.CHUNK_BYTES_MAX for chunk in packed)


@pytest.mark.parametrize("count", [1, 7, 300])
def test_a_chunk_can_be_read_from_after_any_of_its_events(count: int) -> None:
    lines_ = lines(count)
    (chunk,) = event_chunks.pack_chunks({KEY: JobSet(1, KEY, 0)}, {KEY: lines_})
    for index, line in enumerate(lines_):
        rest = [
            place for place, _ in event_chunks.split_after(chunk.data, (line.position, line.item))
        ]
        assert rest == [(each.position, each.item) for each in lines_[index + 1 :]]


def test_a_line_longer_than_a_chunk_is_a_chunk_of_its_own() -> None:
    lines_ = [*lines(1), *lines(1, size=event_chunks.CHUNK_BYTES_MAX), *lines(1)]
    assert len(list(event_chunks.pack_chunks({KEY: JobSet(1, KEY, 0)}, {KEY: lines_}))) == 3


@pytest.mark.parametrize("spare", [0, 1])
def test_a_chunk_is_filled_up_to_its_limit(spare: int) -> None:
    half, rest = (event_chunks.CHUNK_BYTES_MAX - 1) // 2, event_chunks.CHUNK_BYTES_MAX // 2
    made = [Line(0, 0, 1_000, b"x" * half), Line(0, 1, 1_000, b"x" * (rest + 1 - spare))]
    chunks = list(event_chunks.pack_chunks({KEY: JobSet(1, KEY, 0)}, {KEY: made}))
    assert len(chunks) == (1 if spare else 2)
