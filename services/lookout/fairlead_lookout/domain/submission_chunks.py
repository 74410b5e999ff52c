"""The events that submitted jobs in chunks, as they are stored: each is a line of a chunk.

The submissions of a batch are alike, so a chunk of a hundred of them takes about a seventh of their
bytes.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fairlead_common.domain.records import line_chunks
from fairlead_lookout.domain.model import SubmissionPlace

LINES_MAX: Final = 128
CHUNK_BYTES_MAX: Final = 64 * 1024
"""Of a chunk that is not compressed. A reader of one submission reads all of its chunk."""
_SESSION_BITS: Final = 32


class SubmissionChunk(NamedTuple):
    """The submissions of these jobs, in this order."""

    places: dict[str, SubmissionPlace]
    number: int
    data: bytes


def number_chunks(session: int) -> Iterator[int]:
    """The numbers for the chunks of a session: no other session has one of them."""
    first = session << _SESSION_BITS
    return iter(range(first, first + (1 << _SESSION_BITS)))


def pack_submissions(
    submissions: Sequence[tuple[str, bytes]], numbers: Iterator[int]
) -> Iterator[SubmissionChunk]:
    """The chunks of these (job id, event as JSON)."""
    for part in _divide(submissions):
        number = next(numbers)
        jobs, texts = zip(*part, strict=True)
        yield SubmissionChunk(
            places={job: (number, line) for line, job in enumerate(jobs)},
            number=number,
            data=line_chunks.compress(b"\n".join(texts)),
        )


def _divide(submissions: Sequence[tuple[str, bytes]]) -> Iterator[Sequence[tuple[str, bytes]]]:
    """Parts within both limits; a submission that is longer is a part of its own."""
    first = size = 0
    for index, (_, text) in enumerate(submissions):
        size += len(text) + 1
        if index > first and (index - first == LINES_MAX or size > CHUNK_BYTES_MAX + 1):
            yield submissions[first:index]
            first, size = index, len(text) + 1
    if submissions:
        yield submissions[first:]
