"""Chunks of submissions."""

from itertools import count

import pytest

from fairlead_common.domain.records import line_chunks
from fairlead_lookout.domain.submission_chunks import (
    CHUNK_BYTES_MAX,
    LINES_MAX,
    SubmissionChunk,
    number_chunks,
    pack_submissions,
)


def pack(*sizes: int) -> list[SubmissionChunk]:
    """The chunks of jobs 0, 1, 2, ... whose submissions have these sizes in bytes."""
    jobs = [(str(job), f"{job:0{size}}".encode()) for job, size in enumerate(sizes)]
    return list(pack_submissions(jobs, count(40)))


def test_each_submission_is_at_its_place() -> None:
    packed = pack(*[20] * (2 * LINES_MAX + 1))
    assert [chunk.number for chunk in packed] == [40, 41, 42]
    assert [len(chunk.places) for chunk in packed] == [LINES_MAX, LINES_MAX, 1]
    found = {}
    for chunk in packed:
        for job, place in chunk.places.items():
            assert place[0] == chunk.number
            found[job] = int(line_chunks.read_line(chunk.data, place[1]))
    assert found == {str(job): job for job in range(2 * LINES_MAX + 1)}


@pytest.mark.parametrize("spare", [0, 1])
def test_a_chunk_is_filled_up_to_its_bytes(spare: int) -> None:
    half = CHUNK_BYTES_MAX // 2
    packed = pack(half, half - spare, 20)
    assert [list(chunk.places) for chunk in packed] == (
        [["0", "1"], ["2"]] if spare else [["0"], ["1", "2"]]
    )


def test_a_submission_longer_than_a_chunk_is_a_chunk_of_its_own() -> None:
    packed = pack(20, CHUNK_BYTES_MAX + 1, 20)
    assert [list(chunk.places) for chunk in packed] == [["0"], ["1"], ["2"]]


def test_no_chunk_of_no_jobs() -> None:
    assert pack() == []


def test_sessions_have_numbers_of_their_own() -> None:
    numbers = number_chunks(1)
    assert [next(numbers), next(numbers)] == [2**32, 2**32 + 1]
    assert next(number_chunks(2)) == 2**33
