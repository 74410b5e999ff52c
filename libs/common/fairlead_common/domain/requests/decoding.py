"""Decoding of request bodies, JSON documents, with all errors.

Valid input takes the fast path, `msgspec` alone. Anything else is decoded a second time by
`validation`, so that one response names every error.
"""

import json
from collections import Counter
from typing import Final, Generic, TypeVar

import msgspec

from fairlead_common.domain.errors import FieldError
from fairlead_common.domain.problems import Problem
from fairlead_common.domain.requests import validation
from fairlead_common.domain.requests.validation import (
    DEPTH_MAX,
    ERRORS_MAX,
    escape_pointer,
    quote,
)

T = TypeVar("T", bound=msgspec.Struct)

OBJECTS_MAX: Final = 640_000
"""Maximum number of objects in a body, and of lists: each takes more memory than its text."""

POINTER_MAX: Final = 1_000


def parse_json(body: bytes) -> object:
    """The parsed document. Raises ValueError, with a sentence, for anything but JSON."""
    try:
        return msgspec.json.decode(body)
    except UnicodeDecodeError as error:
        raise ValueError(f"The body is not UTF-8 (byte {error.start}).") from None
    except RecursionError:
        raise ValueError(f"The body is nested more than {DEPTH_MAX} deep.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"The body is not valid JSON: {error}.") from None


class _ObjectWithRepeatedNames(dict[str, object]):
    """An object in which names are repeated."""

    names: tuple[str, ...] = ()


def find_repeated_names(body: bytes) -> list[FieldError]:
    """Every name that an object repeats, in a body that `parse_json` accepts.

    Parsers differ in which of the values they use, so a repeated name is an error.
    """
    has_repeated_names = False

    def make_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal has_repeated_names
        values = dict(pairs)
        if len(values) == len(pairs):
            return values
        has_repeated_names = True
        marked = _ObjectWithRepeatedNames(values)
        counts = Counter(name for name, _ in pairs)
        marked.names = tuple(name for name, count in counts.items() if count > 1)
        return marked

    try:
        document = json.loads(body.decode(), object_pairs_hook=make_object, parse_int=float)
    except (RecursionError, ValueError) as error:
        return [FieldError("", f"cannot be read: {quote(str(error))}")]
    return _collect_repeated_names(document) if has_repeated_names else []


def _collect_repeated_names(document: object) -> list[FieldError]:
    found: list[FieldError] = []
    pending = [("", document)]
    while pending and len(found) < ERRORS_MAX:
        pointer, value = pending.pop()
        if isinstance(value, _ObjectWithRepeatedNames):
            found += [
                FieldError(f"{pointer}/{escape_pointer(name)}", "is repeated; give this field once")
                for name in value.names
            ]
        if isinstance(value, dict):
            pending += [(f"{pointer}/{escape_pointer(name)}", item) for name, item in value.items()]
        elif isinstance(value, list):
            pending += [(f"{pointer}/{index}", item) for index, item in enumerate(value)]
    return found


def has_too_many_values(body: bytes, document: object) -> bool:
    """Whether the document, which was parsed from the body, has more than `VALUES_MAX` values."""
    separators = body.count(b",") + body.count(b"[") + body.count(b"{")
    return separators >= validation.VALUES_MAX and validation.has_too_many_values(document)


def has_all_names(body: bytes, reencoded: bytes) -> bool:
    """Whether all names of a body are in `reencoded`, the text that its decoded value encodes to.

    Then no name is repeated. False means that `find_repeated_names` has to check: a null was
    perhaps left out. Names are counted by their colons; colons in texts are the same in both,
    unless the body escapes one.
    """
    if b"\\" in body and b"\\u003" in body:
        return False
    return body.count(b":") == reencoded.count(b":")


class Decoder(Generic[T]):
    """Decodes bodies of one type."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        self._encode = msgspec.json.Encoder().encode

    def check_object_count(self, body: bytes) -> None:
        """Raises a 413 `Problem` for a body that would take far more memory than its text."""
        if len(body) <= 2 * OBJECTS_MAX:
            return
        for bracket, name in ((b"{", "objects"), (b"[", "lists")):
            if body.count(bracket) > OBJECTS_MAX:
                raise Problem(
                    "too-large",
                    f"The body has more than {OBJECTS_MAX} {name}. Send the jobs in several"
                    " requests.",
                )

    def decode_valid(self, body: bytes) -> T | None:
        """The request, or None if `decode_with_errors` has to find the errors."""
        request = self._decode_or_none(body)
        if request is None or not has_all_names(body, self._encode(request)):
            return None
        return request

    def decode_with_errors(self, body: bytes) -> tuple[T, list[FieldError]]:
        """The request without its invalid parts, and the errors. Raises a 400 or 422 `Problem`."""
        try:
            document = parse_json(body)
        except ValueError as error:
            raise Problem("malformed", str(error)) from None
        if has_too_many_values(body, document):
            # The search for repeated names would block the event loop for seconds.
            type_errors, _ = validation.validate_document(document, self._kind)
            raise validation_problem([*type_errors, validation.TOO_MANY_VALUES])
        found = find_repeated_names(body)
        request = self._decode_or_none(body)
        if request is not None:
            return request, found
        type_errors, cleaned = validation.validate_document(document, self._kind)
        found += validation.without_implied(type_errors, found)
        if cleaned is None:
            raise validation_problem(found)
        try:
            return self._decode(msgspec.json.encode(cleaned)), found
        except msgspec.ValidationError as error:
            raise validation_problem([*found, FieldError("", str(error))]) from None

    def _decode_or_none(self, body: bytes) -> T | None:
        if b"\\" in body and b"\\u0000" in body:
            return None
        try:
            return self._decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None

    def __call__(self, body: bytes) -> tuple[T, list[FieldError]]:
        """The request without its invalid parts, and the errors. Raises a 400 or 422 `Problem`."""
        self.check_object_count(body)
        request = self.decode_valid(body)
        return (request, []) if request is not None else self.decode_with_errors(body)


def validation_problem(found: list[FieldError]) -> Problem:
    """The 422 that lists these errors, without duplicates."""
    distinct = list(dict.fromkeys((_shorten(error.pointer), error.detail) for error in found))
    count = "1 error" if len(distinct) == 1 else f"{len(distinct)} errors"
    if len(distinct) >= validation.ERRORS_MAX:
        count = f"at least {count}"
    return Problem(
        "invalid",
        f"The request has {count}, listed in `errors`. Nothing was changed.",
        [FieldError(pointer, detail) for pointer, detail in distinct],
    )


def _shorten(pointer: str) -> str:
    """The pointer, limited in length."""
    return pointer if len(pointer) <= POINTER_MAX else pointer[: POINTER_MAX - 3] + "..."
