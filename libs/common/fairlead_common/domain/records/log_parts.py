"""Which part of a log an executor has sent to lookout: the value of a header of the response."""

from typing import Final

import msgspec

HEADER: Final = "Fairlead-Log-Part"


class LogPart(msgspec.Struct, frozen=True, rename="camel"):
    """Where the bytes of a response are in the log.

    `is_cut`: whether the log begins before them. `begin`: the offset of the first of them. `first`:
    of the first byte that is retained. `size`: of the end of the log. A cluster that does not know
    offsets leaves them out.
    """

    is_cut: bool
    begin: int | None = None
    first: int | None = None
    size: int | None = None


_decoder: Final = msgspec.json.Decoder(LogPart)


def encode(part: LogPart) -> str:
    """The value of the header."""
    return msgspec.json.encode(part).decode()


def decode(value: str | None) -> LogPart | None:
    """The part in a header; None if an executor of an older version sent none."""
    return None if value is None else _decoder.decode(value)
