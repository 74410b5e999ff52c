"""Opaque cursors of lists: where the next page begins, and of which list they are."""

import base64
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem

LENGTH_MAX: Final = 300


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    of: int
    number: int
    id: str


_decoder: Final = msgspec.json.Decoder(_Cursor)


def _list(query: Sequence[object]) -> int:
    return zlib.crc32(msgspec.json.encode(list(query)))


def encode(query: Sequence[object], number: int, id_: str = "") -> str:
    """The cursor behind this row of the list that `query` names."""
    text = msgspec.json.encode(_Cursor(_list(query), number, id_))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def decode(query: Sequence[object], cursor: str | None) -> tuple[int, str] | None:
    """(number, id) of the last row seen. Raises a 400 `Problem` for another list's cursor."""
    if cursor is None:
        return None
    try:
        if len(cursor) > LENGTH_MAX:
            raise ValueError
        found = _decoder.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (msgspec.MsgspecError, ValueError):  # also of what is not base64
        raise _refusal("it is none that a list has given") from None
    if found.of != _list(query) or not -(2**63) <= found.number < 2**63:
        raise _refusal("it belongs to a list with other filters")
    return found.number, found.id


def _refusal(because: str) -> Problem:
    fault = FieldError("/query/cursor", f"This cursor cannot be used here: {because}.")
    return Problem("malformed", "The cursor is not one of this list.", [fault])
