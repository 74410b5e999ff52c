"""A search of a log: from its end towards its beginning, in parts, until its time is over."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import msgspec

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.records.log_parts import LogPart
from fairlead_lookout.http.pages.logs import terminal_text
from fairlead_lookout.http.pages.logs.terminal_text import Span

SEARCH_S: Final = 4.0
"""No further part is read if it would end after this time, as long as the one before took."""
PART_BYTES_MAX: Final = 16 * 2**20
PART_LINES_MAX: Final = 250_000
"""Lines that are compared one by one; what is before them in a part is part of the next one."""
MATCHES_MAX: Final = 500
LINE_CHARACTERS_MAX: Final = 2_000
"""Of a line with a match; the part around the match is displayed."""
MARK: Final = "match"
"""The class of a match."""


class Match(msgspec.Struct, frozen=True):
    """A line with the text. `offset`: of its beginning."""

    offset: int
    spans: Sequence[Span]


class PartMatches(msgspec.Struct, frozen=True):
    """The lines of a part that have the text, the last one first, at most `MATCHES_MAX`.

    `count`: of all of them. `begin`: the offset in the part from which on lines were compared.
    """

    matches: Sequence[Match]
    count: int
    begin: int


class Searched(msgspec.Struct, frozen=True):
    """What a search has found. `matches`: the number of lines with the text in what was searched.

    `is_cut`: whether the log begins before that. `bytes`: of what was searched. `bytes_after`: of
    what is after it in the log. `bytes_total`: of the log. `earlier`: the offset before which to
    search for more. A cluster that does not know offsets leaves the last three out; without more to
    search, `earlier` is left out.
    """

    spans: Sequence[Span]
    matches: int
    is_cut: bool
    bytes: int
    bytes_after: int | None = None
    bytes_total: int | None = None
    earlier: int | None = None


ReadPart = Callable[[int | None], Awaitable[tuple[bytes, LogPart | None]]]
"""Reads the part of a log that ends at an offset, or at the end of the log."""


async def search(
    read_part: ReadPart, wanted: str, before: int | None, monotonic_s: Callable[[], float]
) -> Searched:
    """The last lines with a text, in upper or lower case. `before`: the offset where to begin."""
    now_s = monotonic_s()
    end_s = now_s + SEARCH_S
    data, place = await read_part(before)
    if place is None or place.begin is None or place.size is None or place.first is None:
        return await _search_end(data, place, wanted)
    end, total = place.begin + len(data), place.size - place.first
    matches: list[Match] = []
    count, begin = 0, place.begin
    while True:
        is_inside_line = begin > place.first
        found = await asyncio.to_thread(find_matches, data, wanted, is_inside_line)
        matches += [Match(begin + match.offset, match.spans) for match in found.matches]
        count += found.count
        searched = begin + found.begin
        part_began_s, now_s = now_s, monotonic_s()
        if 2 * now_s - part_began_s >= end_s or count >= MATCHES_MAX or searched <= place.first:
            break
        # A text can be in two parts of a line that is longer than a part.
        overlap = min(len(wanted.encode()) - 1, len(data) // 2) if found.begin == 0 else 0
        data = b""  # it is not held while the next one arrives
        try:
            data, next_place = await read_part(searched + overlap)
        except (Problem, WorldError, TimeoutError):
            break  # what has been found is reported; a search of the rest reports the failure
        if not data or next_place is None or next_place.begin is None:
            searched = place.first  # the rest has been removed in the meantime
            break
        begin = next_place.begin
    listed = matches[:MATCHES_MAX]
    is_cut = searched > place.first
    earlier = listed[-1].offset if count > len(listed) else searched if is_cut else None
    return Searched(
        _list_spans(listed), count, is_cut, end - searched, place.size - end, total, earlier
    )


async def _search_end(data: bytes, place: LogPart | None, wanted: str) -> Searched:
    """The same in the end of a log whose cluster does not know offsets."""
    found = await asyncio.to_thread(find_matches, data, wanted)
    is_cut = found.begin > 0 or (place.is_cut if place else len(data) >= PART_BYTES_MAX)
    return Searched(_list_spans(found.matches), found.count, is_cut, len(data) - found.begin)


def _list_spans(matches: Sequence[Match]) -> list[Span]:
    """The spans of matches in the order of the log. `matches`: the last one first."""
    return [span for match in reversed(matches) for span in match.spans]


def find_matches(data: bytes, wanted: str, is_inside_line: bool = False) -> PartMatches:
    """The lines with a text. `is_inside_line`: whether the data begin inside of a line, which is
    left out if another one follows."""
    needle = wanted.lower()
    end = len(data) - data.endswith(b"\n")
    begin = data.find(b"\n", 0, end) + 1 if is_inside_line else 0
    is_plain = data.isascii() and needle.isascii() and b"\x1b" not in data
    lines = (
        _find_plain_lines(data, needle.encode(), begin, end)
        if is_plain
        else _split_lines(data, begin, end)
    )
    matches: list[Match] = []
    count = compared = 0
    compared_begin = end
    for line_begin, line_end in lines:
        if compared == PART_LINES_MAX:
            return PartMatches(matches, count, compared_begin)
        compared, compared_begin = compared + 1, line_begin
        text = terminal_text.clean_line(data[line_begin:line_end].decode(errors="replace"))
        if needle in text.lower():
            count += 1
            if len(matches) < MATCHES_MAX:
                matches.append(Match(line_begin, _mark(text, needle)))
    return PartMatches(matches, count, begin)


def _split_lines(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The begin and the end of each line, the last one first."""
    while True:
        line_begin = max(begin, data.rfind(b"\n", begin, end) + 1)
        yield line_begin, end
        if line_begin <= begin:
            return
        end = line_begin - 1


def _find_plain_lines(
    data: bytes, needle: bytes, begin: int, end: int
) -> Iterator[tuple[int, int]]:
    """The same of the lines that have a text, in ASCII without escape sequences."""
    lower = data.lower()
    while (at := lower.rfind(needle, begin, end)) >= 0:
        line_begin = max(begin, data.rfind(b"\n", begin, at) + 1)
        line_end = data.find(b"\n", at, end)
        yield line_begin, end if line_end < 0 else line_end
        if line_begin <= begin:
            return
        end = line_begin - 1


def _mark(line: str, needle: str) -> list[Span]:
    """The spans of a line with the matches marked, of a long line those around the first match."""
    lower = line.lower()
    if len(lower) != len(line):  # a few letters have a longer lower case
        return [Span(f"{terminal_text.draw_controls(line[:LINE_CHARACTERS_MAX])}\n", "")]
    begin = max(0, lower.index(needle) - LINE_CHARACTERS_MAX // 2)
    end = begin + LINE_CHARACTERS_MAX
    spans = []
    at = begin
    while (next_at := lower.find(needle, at, end)) >= 0:
        spans += [Span(line[at:next_at], ""), Span(line[next_at : next_at + len(needle)], MARK)]
        at = next_at + len(needle)
    spans.append(Span(f"{line[at:end]}\n", ""))
    return [
        Span(terminal_text.draw_controls(span.text), span.classes) for span in spans if span.text
    ]
