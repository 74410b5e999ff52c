"""What is requested of the log of a run, and what a cluster answers."""

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Final

import msgspec

from fairlead_common.domain.records.log_parts import LogPart

FOLLOW_LINES_MAX: Final = 1_000_000


class NoLog(Exception):
    """This log is not here; the message says why."""


class NoLineTimes(NoLog):
    """The cluster does not know when the lines of a log were written."""


class Stream(StrEnum):
    """The two outputs of a command."""

    STDOUT = "stdout"
    STDERR = "stderr"


class LogRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a log to return.

    `tail`: the last lines, this many. `since_bytes`: from that byte on. `since_ms`: lines that
    were written at that time or later, where the cluster knows their times. `follow`: until the run
    has ended; otherwise the log ends where it ends now. `container`: its name; None: the first.
    """

    container: str | None = None
    stream: Stream = Stream.STDOUT
    tail: int | None = None
    since_bytes: int | None = None
    since_ms: int | None = None
    follow: bool = False


class LogEndRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which bytes of the end of a log to return: at most `bytes_max` and `lines_max` (None: any
    number). `before`: they end at this offset, where the cluster knows offsets; None: at the end.
    """

    bytes_max: int
    lines_max: int | None = None
    before: int | None = None
    container: str | None = None
    stream: Stream = Stream.STDOUT


class LogEnd(msgspec.Struct, frozen=True):
    """The requested bytes, and where they are in the log."""

    part: LogPart
    chunks: AsyncIterator[bytes]
