"""Opaque cursors: where the next page of a list begins, and which list it is."""

import base64
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem

LENGTH_MAX: Final = 300
BIGINT_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    list_hash: int
    number: int
    id: str


_decoder: Final = msgspec.json.Decoder(_Cursor)


def _hash_list(query: Sequence[object]) -> int:
    return zlib.crc32(msgspec.json.encode(list(query)))


def encode(query: Sequence[object], number: int, id_: str = "") -> str:
    """The cursor after this row of the list that `query` identifies."""
    text = msgspec.json.encode(_Cursor(_hash_list(query), number, id_))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def decode(
    query: Sequence[object], cursor: str | None, number_max: int = BIGINT_MAX
) -> tuple[int, str] | None:
    """(number, id) of the last row seen. Raises a 400 `Problem` for another list's cursor, and for
    values that the column of the list cannot have. `number_max`: the largest one of its type.
    """
    if cursor is None:
        return None
    try:
        if len(cursor) > LENGTH_MAX:
            raise ValueError
        found = _decoder.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not -number_max <= found.number <= number_max or not found.id.isprintable():
            raise ValueError
    except (msgspec.MsgspecError, ValueError):  # also if it is not base64
        raise _invalid_cursor("Unknown cursor. Request the list again without `cursor`.") from None
    if found.list_hash != _hash_list(query):
        raise _invalid_cursor(
            "The cursor belongs to a list with other filters. Repeat the filters of that list, or"
            " request this list without `cursor`."
        )
    return found.number, found.id


def _invalid_cursor(detail: str) -> Problem:
    return Problem("malformed", "The cursor is not valid.", [FieldError("/query/cursor", detail)])
