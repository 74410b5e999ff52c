"""What a page shows of a log: its last lines with their colours, or the lines that have a text."""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_lookout.http.pages.logs import terminal_text
from fairlead_lookout.http.pages.logs.terminal_text import Span

LINES_MAX: Final = 500
END_BYTES_MAX: Final = 512 * 1024
SEARCHED_BYTES_MAX: Final = 16 * 2**20
SEARCHED_LINES_MAX: Final = 250_000
"""A cluster that cannot skip to the last bytes can skip to the last lines."""
LINE_CHARACTERS_MAX: Final = 2_000
"""Of a line with a match; the part around the match is shown."""
MARK: Final = "match"
"""The class of a match."""


class LogView(msgspec.Struct, frozen=True):
    """The spans to show. `is_cut`: whether the log begins before them, or before what was searched.

    `is_binary`: no span is shown because the log is not text. `matches`: the number of lines with
    the text that was searched for, None without a search.
    """

    spans: Sequence[Span] = ()
    is_cut: bool = False
    is_binary: bool = False
    matches: int | None = None


def show_end(data: bytes) -> LogView:
    """The last lines of a log. `data`: its end."""
    is_cut = len(data) >= END_BYTES_MAX
    text = data[-END_BYTES_MAX:].decode(errors="replace")
    if terminal_text.is_binary(text):
        return LogView(is_binary=True)
    lines = text.removesuffix("\n").split("\n")
    is_cut = is_cut or len(lines) >= LINES_MAX
    return LogView(terminal_text.split_spans("\n".join(lines[-LINES_MAX:])), is_cut)


def find_lines(data: bytes, wanted: str) -> LogView:
    """The last lines that contain a text, in upper or lower case."""
    lines = data.removesuffix(b"\n").rsplit(b"\n", SEARCHED_LINES_MAX)
    is_cut = len(data) >= SEARCHED_BYTES_MAX or len(lines) >= SEARCHED_LINES_MAX
    needle, matches = wanted.lower(), 0
    found: deque[str] = deque(maxlen=LINES_MAX)
    for line in lines[-SEARCHED_LINES_MAX:]:
        text = terminal_text.clean_line(line.decode(errors="replace"))
        if needle in text.lower():
            matches += 1
            found.append(text)
    spans = [span for text in found for span in _mark(text, needle)]
    return LogView(spans, is_cut, matches=matches)


def _mark(line: str, needle: str) -> list[Span]:
    """The spans of a line with the matches marked, of a long line those around the first match."""
    lower = line.lower()
    if len(lower) != len(line):  # a few letters have a longer lower case
        return [Span(f"{line[:LINE_CHARACTERS_MAX]}\n", "")]
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
