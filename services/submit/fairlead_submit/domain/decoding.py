"""From the bytes of a body to a request, with everything that is wrong in it."""

from typing import Final, Generic, TypeVar

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_submit.domain import validation

T = TypeVar("T", bound=msgspec.Struct)

OBJECTS_MAX: Final = 640_000
"""Most objects in a body: they take more room in memory than in the text."""

POINTER_MAX: Final = 1_000


class Decoder(Generic[T]):
    """Decodes bodies of one type; safe to use again and again."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        self._encode = msgspec.json.Encoder().encode

    def check_size(self, body: bytes) -> None:
        """Raises a 413 `Problem` for what would take far more memory than its text."""
        if body.count(b"{") > OBJECTS_MAX:
            raise Problem("too-large", f"The body holds more than {OBJECTS_MAX} objects.")

    def fast(self, body: bytes) -> T | None:
        """The request, or None where `slow` has to find out what is wrong."""
        request = self._plain(body)
        if request is None or not validation.says_all(body, self._encode(request)):
            return None
        return request

    def slow(self, body: bytes) -> tuple[T, list[FieldError]]:
        """The request without what is wrong in it, and that. Raises a 400 or 422 `Problem`."""
        try:
            document = validation.parse(body)
        except ValueError as error:
            raise Problem("malformed", str(error)) from None
        found = validation.repeated(body)
        request = self._plain(body)
        if request is not None:
            return request, found
        others, kept = validation.examine(document, self._kind)
        found += validation.further(others, found)
        if kept is None:
            raise invalid(found)
        try:
            return self._decode(msgspec.json.encode(kept)), found
        except msgspec.ValidationError as error:
            raise invalid([*found, FieldError("", str(error))]) from None

    def _plain(self, body: bytes) -> T | None:
        if b"\\" in body and b"\\u0000" in body:
            return None
        try:
            return self._decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None

    def __call__(self, body: bytes) -> tuple[T, list[FieldError]]:
        """The request and its faults so far. Raises a 400 or 422 `Problem`."""
        self.check_size(body)
        request = self.fast(body)
        return (request, []) if request is not None else self.slow(body)


def invalid(found: list[FieldError]) -> Problem:
    """The 422 that tells these faults, each of which is there once."""
    distinct = list(dict.fromkeys((_cut(fault.pointer), fault.detail) for fault in found))
    count = "One thing is" if len(distinct) == 1 else f"{len(distinct)} things are"
    if len(distinct) >= validation.FAULTS_MAX:
        count = f"At least {count}"
    return Problem(
        "invalid",
        f"{count} wrong with the request; nothing of it was done.",
        [FieldError(pointer, detail) for pointer, detail in distinct],
    )


def _cut(pointer: str) -> str:
    """An answer does not repeat names without end."""
    return pointer if len(pointer) <= POINTER_MAX else pointer[: POINTER_MAX - 3] + "..."
