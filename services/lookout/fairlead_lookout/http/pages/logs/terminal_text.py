"""Text of a log as a terminal would show it: colours of ANSI escape sequences, and nothing else.

Colours and styles become names of CSS classes. Every other escape sequence is removed, and control
characters are replaced by pictures of them. Templates escape the text.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

SPANS_MAX: Final = 20_000
"""Further changes of colour are ignored, so that a page has a bounded number of elements."""
BINARY_FRACTION: Final = 0.1
"""A text with more control characters and invalid bytes than this is shown as binary data."""
PIECE_CHARACTERS: Final = 64 * 1024
_COLOURS: Final = 8
_CUBE_BEGIN: Final = 16
_GREYS_BEGIN: Final = 232
_SEQUENCE: Final = re.compile(
    r"\x1b\[(?P<style>[0-9;:]{0,100})m"  # select graphic rendition
    r"|\x1b\[[0-?]{0,100}[ -/]{0,20}[@-~]"  # other control sequences
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]{0,20}[0-~]?"
)
_CONTROLS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_STRANGE: Final = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\ufffd]")
_STYLES: Final = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 9: "strike", 7: "inverse"}
_ENDED_STYLES: Final = {
    22: ("bold", "faint"),
    23: ("italic",),
    24: ("underline",),
    27: ("inverse",),
    29: ("strike",),
}


class Span(msgspec.Struct, frozen=True):
    """A part of a text with one look. `classes`: names of CSS classes, separated by spaces."""

    text: str
    classes: str


def is_binary(text: str) -> bool:
    """Whether a text is binary data rather than text."""
    return len(_STRANGE.findall(text)) > BINARY_FRACTION * len(text)


def clean_line(line: str) -> str:
    """The line without escape sequences, as it is after its carriage returns.

    A very long line is cleaned in pieces: meanwhile, no other thread runs.
    """
    pieces = range(0, len(line), PIECE_CHARACTERS)
    return _overwrite(
        "".join([_SEQUENCE.sub("", line[at : at + PIECE_CHARACTERS]) for at in pieces])
    )


def split_spans(text: str) -> list[Span]:
    """The parts of a text, each with its colours and styles."""
    spans: list[Span] = []
    look = _Look()
    for piece, style in _split_at_styles("\n".join(map(_overwrite, text.split("\n")))):
        if piece:
            drawn = draw_controls(piece)
            classes = look.classes()
            if spans and (spans[-1].classes == classes or len(spans) >= SPANS_MAX):
                last = spans.pop()
                spans.append(Span(last.text + drawn, last.classes))
            else:
                spans.append(Span(drawn, classes))
        if style is not None:
            look.change(_parse_codes(style))
    return spans


def draw_controls(text: str) -> str:
    """The text with a picture for each control character."""
    return _CONTROLS.sub(_draw_control, text)


def _overwrite(line: str) -> str:
    """What remains of a line in which carriage returns return to its beginning."""
    return line.rstrip("\r").rpartition("\r")[2]


def _split_at_styles(text: str) -> Iterator[tuple[str, str | None]]:
    """Pieces of text, each with the style that follows it. Other sequences are removed."""
    end = 0
    for found in _SEQUENCE.finditer(text):
        yield text[end : found.start()], found["style"]
        end = found.end()
    yield text[end:], None


def _draw_control(found: re.Match[str]) -> str:
    """The picture of a control character; U+FFFD for those without one."""
    code = ord(found[0])
    if code == 0x7F:
        return "\u2421"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def _parse_codes(style: str) -> list[int]:
    return [int(code) if code else 0 for code in re.split("[;:]", style)]


class _Look:
    """The colours and styles that are in force."""

    def __init__(self) -> None:
        self._styles: set[str] = set()
        self._foreground: str | None = None
        self._background: str | None = None

    def classes(self) -> str:
        """The names of its CSS classes."""
        colours = [name for name in (self._foreground, self._background) if name is not None]
        return " ".join([*colours, *sorted(self._styles)])

    def change(self, codes: Sequence[int]) -> None:
        """Apply the codes of a sequence, in order."""
        rest = list(reversed(codes))
        while rest:
            self._apply(rest.pop(), rest)

    def _apply(self, code: int, rest: list[int]) -> None:
        """Apply a code. `rest`: those after it, in reverse; it takes its arguments from there."""
        if code == 0:
            self._styles, self._foreground, self._background = set(), None, None
        elif code in _STYLES:
            self._styles.add(_STYLES[code])
        elif code in _ENDED_STYLES:
            self._styles.difference_update(_ENDED_STYLES[code])
        elif 30 <= code < 38 or 90 <= code < 98:
            self._foreground = f"fg-{_number_colour(code, 30, 90)}"
        elif 40 <= code < 48 or 100 <= code < 108:
            self._background = f"bg-{_number_colour(code, 40, 100)}"
        elif code == 38:
            self._foreground = _take_colour("fg", rest)
        elif code == 48:
            self._background = _take_colour("bg", rest)
        elif code == 39:
            self._foreground = None
        elif code == 49:
            self._background = None


def _number_colour(code: int, normal: int, bright: int) -> int:
    """The number of one of 16 colours: from 8 on the bright ones."""
    return code - normal if code < normal + _COLOURS else code - bright + _COLOURS


def _take_colour(kind: str, rest: list[int]) -> str | None:
    """The nearest of 16 colours to one of 256, or to one by red, green and blue."""
    mode = rest.pop() if rest else 0
    if mode == 5 and rest:
        return f"{kind}-{_reduce_colour(rest.pop())}"
    if mode == 2 and len(rest) >= 3:
        red, green, blue = rest.pop(), rest.pop(), rest.pop()
        return f"{kind}-{_find_nearest(red, green, blue)}"
    return None


def _reduce_colour(number: int) -> int:
    if number < _CUBE_BEGIN:
        return number
    if number >= _GREYS_BEGIN:
        level = 8 + 10 * (min(number, 255) - _GREYS_BEGIN)
        return _find_nearest(level, level, level)
    cube = number - _CUBE_BEGIN
    return _find_nearest(*(51 * part for part in (cube // 36, cube // 6 % 6, cube % 6)))


def _find_nearest(red: int, green: int, blue: int) -> int:
    """The number of the nearest of 16 colours."""
    most = max(red, green, blue)
    if most < 64:
        return 0
    bits = sum(bit for bit, part in ((1, red), (2, green), (4, blue)) if part > max(most / 2, 48))
    return bits + _COLOURS if most > 192 else bits
