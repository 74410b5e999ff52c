"""What a page shows of the end of a log: its last lines with their colours."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_lookout.http.pages.logs import terminal_text
from fairlead_lookout.http.pages.logs.terminal_text import Span

LINES_MAX: Final = 500
END_BYTES_MAX: Final = 512 * 1024


class LogView(msgspec.Struct, frozen=True):
    """The spans to show. `is_cut`: whether the log begins before them. `is_binary`: no span is
    shown because the log is not text."""

    spans: Sequence[Span] = ()
    is_cut: bool = False
    is_binary: bool = False


def show_end(data: bytes) -> LogView:
    """The last lines of a log. `data`: its end."""
    is_cut = len(data) >= END_BYTES_MAX
    text = data[-END_BYTES_MAX:].decode(errors="replace")
    if terminal_text.is_binary(text):
        return LogView(is_binary=True)
    lines = text.removesuffix("\n").split("\n")
    is_cut = is_cut or len(lines) >= LINES_MAX
    return LogView(terminal_text.split_spans("\n".join(lines[-LINES_MAX:])), is_cut)
