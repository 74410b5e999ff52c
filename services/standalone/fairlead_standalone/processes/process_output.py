"""The output of children: written to log files of limited size; errors are also printed.

Services write JSON lines, Postgres and Valkey plain text. The terminal shows errors, and the path
of the log file.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

FILE_BYTES_MAX: Final = 8 * 1024 * 1024
LINE_BYTES_MAX: Final = 16 * 1024
FORWARDED_LINES_MAX: Final = 5
FORWARD_WINDOW_S: Final = 10.0
FORWARDED_CHARACTERS_MAX: Final = 500

Say = Callable[[str], None]
"""Prints a line on the terminal."""

_FATAL_TEXTS: Final = (b"PANIC:", b"No space left on device", b"Out Of Memory", b"out of memory")


class _Line(msgspec.Struct, frozen=True):
    level: str = ""
    message: str = ""


_decoder: Final = msgspec.json.Decoder(_Line)


def select_important(line: bytes) -> str | None:
    """The text to print for this line, or None."""
    if line.startswith(b"{"):
        try:
            entry = _decoder.decode(line)
        except msgspec.DecodeError:
            return None  # a line cut at its largest length: it is in the file
        return entry.message if entry.level in ("ERROR", "CRITICAL") else None
    if any(text in line for text in _FATAL_TEXTS):
        return line.decode(errors="replace").strip()
    return None


class RotatingLog:
    """The log file of one child: the newest half in `NAME.log`, the older one in `NAME.log.1`."""

    def __init__(self, file: Path, bytes_max: int = FILE_BYTES_MAX) -> None:
        self.path = file
        self._bytes_max = bytes_max
        self._open()

    def _open(self) -> None:
        self._file = self.path.open("ab", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size

    def write(self, data: bytes) -> None:
        """Append. Raises OSError, for example when the disk is full; the file stays usable."""
        if self._size + len(data) > self._bytes_max:
            self._begin_new_half()
        self._file.write(data)
        self._size += len(data)

    def _begin_new_half(self) -> None:
        """The old file stays in use until the new one is open, which can fail on a full disk."""
        if self.path.exists():
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
        before = self._file
        self._open()
        before.close()

    def close(self) -> None:
        """Can be called twice."""
        self._file.close()


class Output:
    """Accepts the output of one child in pieces."""

    def __init__(self, name: str, log: RotatingLog, say: Say) -> None:
        self._name = name
        self._log = log
        self._say = say
        self._rest = b""
        self._forwarded_since_s = float("-inf")
        self._forwarded = 0
        self._disk_failed = False

    def feed(self, data: bytes, now_s: float) -> None:
        """Write the piece to the log, and print errors in it."""
        try:
            self._log.write(data)
        except OSError as error:
            if not self._disk_failed:
                self._say(f"{self._name}: its log {self._log.path} cannot be written: {error}")
            self._disk_failed = True
        else:
            self._disk_failed = False
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LINE_BYTES_MAX:]
        for line in lines:
            text = select_important(line)
            if text is not None:
                self._say_bounded(text, now_s)

    def _say_bounded(self, text: str, now_s: float) -> None:
        if now_s - self._forwarded_since_s > FORWARD_WINDOW_S:
            self._forwarded_since_s, self._forwarded = now_s, 0
        self._forwarded += 1
        if self._forwarded <= FORWARDED_LINES_MAX:
            self._say(f"{self._name}: {text[:FORWARDED_CHARACTERS_MAX]}")
        elif self._forwarded == FORWARDED_LINES_MAX + 1:
            self._say(f"{self._name}: more of this in {self._log.path}")
