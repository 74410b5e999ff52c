"""Chunks of lines."""

import zlib

from fairlead_common.domain.records import line_chunks

LINES = [f'{{"number":{number},"text":"{"x" * 50}"}}'.encode() for number in range(300)]
TEXT = b"\n".join(LINES)


def test_long_chunks_are_compressed_and_chunks_that_were_deflated_can_be_read() -> None:
    compressed = line_chunks.compress(TEXT)
    assert len(compressed) < len(TEXT) / 10
    assert line_chunks.decompress(compressed) == TEXT
    assert line_chunks.decompress(zlib.compress(TEXT)) == TEXT
    assert line_chunks.compress(LINES[0]) == LINES[0]
    assert line_chunks.decompress(LINES[0]) == LINES[0]


def test_a_line_is_read_by_its_number() -> None:
    compressed = line_chunks.compress(TEXT)
    assert line_chunks.read_line(compressed, 0) == LINES[0]
    assert line_chunks.read_line(compressed, 299) == LINES[299]
    assert line_chunks.read_line(LINES[7], 0) == LINES[7]


def test_lines_of_several_chunks_are_read_in_the_order_of_the_rows() -> None:
    chunk, other = line_chunks.compress(TEXT), LINES[5]
    wanted = [(1, 8, None), (2, 0, other), (1, 299, chunk), (3, 0, None), (None, None, None)]
    rows = [dict(zip(("chunk", "chunk_line", "lines"), each, strict=True)) for each in wanted]
    assert line_chunks.read_lines(rows) == [LINES[8], LINES[5], LINES[299], None, None]
    assert line_chunks.read_lines([]) == []
