"""Validation of a parsed JSON document against a type: all errors, each with a JSON pointer.

msgspec decodes fast and stops at the first error. After that, `validate_document` walks the
document and the type in parallel and collects every error. It returns a copy without the invalid
parts, so that the rest can be checked further and one response reports everything.
"""

import math
from collections.abc import Iterable, Sequence, Sized
from functools import cache
from typing import Final

from msgspec import inspect

from fairlead_common.domain.errors import FieldError

DEPTH_MAX: Final = 64
"""Maximum nesting depth of a document."""

ERRORS_MAX: Final = 1_000
"""Validation stops after this number of errors."""

VALUES_MAX: Final = 2_000_000
"""Validation stops after this number of values."""

TOO_MANY_VALUES: Final = FieldError(
    "", f"has more than {VALUES_MAX} values; the rest was not checked: send several requests"
)

QUOTE_LENGTH_MAX: Final = 60
_MISSING: Final = object()


def escape_pointer(part: str) -> str:
    """The name as one reference token of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1")


def quote(text: object) -> str:
    """The value as a message quotes it: escaped, and limited in length."""
    quoted = repr(text)
    return quoted if len(quoted) <= QUOTE_LENGTH_MAX else quoted[: QUOTE_LENGTH_MAX - 3] + "..."


def without_implied(found: Sequence[FieldError], known: Iterable[FieldError]) -> list[FieldError]:
    """The errors of a second check that do not follow from the `known` ones.

    An error follows from a known one if it is at the same place, inside it or around it.
    """
    if not found:
        return []
    places = {error.pointer for error in known}
    around = {above for pointer in places for above in _enclosing_pointers(pointer)}
    return [
        error
        for error in found
        if error.pointer not in around and places.isdisjoint(_enclosing_pointers(error.pointer))
    ]


def _enclosing_pointers(pointer: str) -> list[str]:
    """The pointer itself and the pointers of everything around it."""
    parts = pointer.split("/")[: DEPTH_MAX + 2]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def validate_document(document: object, kind: type) -> tuple[list[FieldError], object]:
    """All errors of a parsed document, and a copy without its invalid parts.

    `kind` is any type that msgspec can decode. The copy is null if the document is invalid as a
    whole or has more than `ERRORS_MAX` errors.
    """
    found = _ErrorList()
    try:
        cleaned = _walk(document, _type_info(kind), "", found, 0)
    except _LimitReachedError:
        cleaned = _MISSING
    return found.errors, None if cleaned is _MISSING else cleaned


class _LimitReachedError(Exception):
    """The limit of errors or values was reached."""


class _ErrorList:
    """The errors found so far. Limits their number and the number of values."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._values_left = VALUES_MAX

    def add(self, pointer: str, detail: str) -> None:
        self.errors.append(FieldError(pointer, detail))
        if len(self.errors) >= ERRORS_MAX:
            raise _LimitReachedError

    def count_value(self) -> None:
        self._values_left -= 1
        if self._values_left < 0:
            self.add(TOO_MANY_VALUES.pointer, TOO_MANY_VALUES.detail)
            raise _LimitReachedError


def measure_depth(document: object) -> int:
    """The nesting depth of a parsed document."""
    depth, level = 0, [document]
    while level:
        depth += 1
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    return depth


def has_too_many_values(document: object) -> bool:
    """Whether a parsed document has more than `VALUES_MAX` values."""
    left, pending = VALUES_MAX - 1, [document]
    while pending:
        value = pending.pop()
        if isinstance(value, dict | list):
            left -= len(value)
            if left < 0:
                return True
            items = value.values() if isinstance(value, dict) else value
            pending += [item for item in items if isinstance(item, dict | list)]
    return False


@cache
def _type_info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _walk(value: object, info: inspect.Type, pointer: str, found: _ErrorList, depth: int) -> object:
    """`value` without its invalid parts, or `_MISSING` if it is invalid as a whole."""
    found.count_value()
    if depth > DEPTH_MAX:
        found.add(pointer, f"is nested more than {DEPTH_MAX} deep")
        return _MISSING
    match info:
        case inspect.Metadata(type=inner):
            return _walk(value, inner, pointer, found, depth)
        case inspect.UnionType(types=types):
            return _walk_union(value, types, pointer, found, depth)
        case inspect.StructType() if isinstance(value, dict):
            return _walk_struct(value, info, pointer, found, depth)
        case inspect.DictType(value_type=inner) if isinstance(value, dict):
            return _walk_dict(value, info, inner, pointer, found, depth)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner) if (
            isinstance(value, list)
        ):
            return _walk_list(value, info, inner, pointer, found, depth)
        case inspect.AnyType() | inspect.RawType():
            return _walk_any(value, pointer, found, depth)
    detail = _check_scalar(value, info)
    if detail is None:
        return value
    found.add(pointer, detail)
    return _MISSING


def _walk_union(
    value: object, types: Iterable[inspect.Type], pointer: str, found: _ErrorList, depth: int
) -> object:
    choices = [info for info in types if not isinstance(info, inspect.NoneType)]
    if value is None and len(choices) < len(list(types)):
        return None
    fitting = [info for info in choices if _has_type(value, info)]
    if fitting:
        return _walk(value, fitting[0], pointer, found, depth)
    names = " or ".join(dict.fromkeys(_describe_type(info) for info in choices))
    found.add(pointer, f"is {_describe_value(value)}; {names} is expected")
    return _MISSING


def _walk_struct(
    value: dict[str, object], info: inspect.StructType, pointer: str, found: _ErrorList, depth: int
) -> object:
    known = {field.encode_name: field for field in info.fields}
    cleaned: dict[str, object] = {}
    for name, item in value.items():
        place = f"{pointer}/{escape_pointer(name)}"
        if name in known:
            checked = _walk(item, known[name].type, place, found, depth + 1)
            if checked is not _MISSING:
                cleaned[name] = checked
        elif info.forbid_unknown_fields:
            found.add(place, "is not a known field")
    missing = [f for f in info.fields if f.required and f.encode_name not in value]
    for field in missing:
        found.add(f"{pointer}/{escape_pointer(field.encode_name)}", "is missing")
    is_complete = all(f.encode_name in cleaned for f in info.fields if f.required)
    return cleaned if is_complete else _MISSING


def _walk_dict(
    value: dict[str, object],
    info: inspect.DictType,
    inner: inspect.Type,
    pointer: str,
    found: _ErrorList,
    depth: int,
) -> object:
    detail = _check_length(value, info)
    if detail is not None:
        found.add(pointer, detail)
        return _MISSING
    cleaned: dict[str, object] = {}
    for name, item in value.items():
        place = f"{pointer}/{escape_pointer(name)}"
        if "\0" in name:
            found.add(place, "has a NUL character in its name")
            continue
        checked = _walk(item, inner, place, found, depth + 1)
        if checked is not _MISSING:
            cleaned[name] = checked
    return cleaned


def _walk_list(
    value: list[object],
    info: inspect.ListType | inspect.VarTupleType,
    inner: inspect.Type,
    pointer: str,
    found: _ErrorList,
    depth: int,
) -> object:
    detail = _check_length(value, info)
    if detail is not None:
        found.add(pointer, detail)
        return _MISSING
    # An invalid item is replaced by an empty one, so that the indexes of the others do not change.
    can_be_empty = isinstance(inner, inspect.StructType) and not any(
        field.required for field in inner.fields
    )
    cleaned = [
        _walk(item, inner, f"{pointer}/{index}", found, depth + 1)
        for index, item in enumerate(value)
    ]
    if not can_be_empty and _MISSING in cleaned:
        return _MISSING
    return [{} if item is _MISSING else item for item in cleaned]


def _check_length(
    value: Sized, info: inspect.DictType | inspect.ListType | inspect.VarTupleType
) -> str | None:
    """What is wrong with the number of entries, or None."""
    if info.max_length is not None and len(value) > info.max_length:
        return f"has {len(value)} entries; at most {info.max_length} are allowed"
    if info.min_length is not None and len(value) < info.min_length:
        return f"has {len(value) or 'no'} entries; at least {info.min_length} is required"
    return None


def _walk_any(value: object, pointer: str, found: _ErrorList, depth: int) -> object:
    """Check a value of any type: no NUL character, limited nesting."""
    found.count_value()
    if depth > DEPTH_MAX:
        found.add(pointer, f"is nested more than {DEPTH_MAX} deep")
    elif isinstance(value, str) and "\0" in value:
        found.add(pointer, "contains a NUL character")
    elif isinstance(value, dict):
        for name, item in value.items():
            place = f"{pointer}/{escape_pointer(name)}"
            if "\0" in name:
                found.add(place, "has a NUL character in its name")
            _walk_any(item, place, found, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk_any(item, f"{pointer}/{index}", found, depth + 1)
    return value


def _check_scalar(value: object, info: inspect.Type) -> str | None:
    """The error of a value without parts, or None."""
    if not _has_type(value, info):
        return f"is {_describe_value(value)}; {_describe_type(info)} is expected"
    match info:
        case inspect.StrType():
            return _check_text(str(value), info)
        case inspect.IntType() | inspect.FloatType():
            assert isinstance(value, int | float)
            return _check_number(value, info)
        case inspect.EnumType(cls=cls):
            return _check_choice(value, [member.value for member in cls])
        case inspect.LiteralType(values=values):
            return _check_choice(value, list(values))
    return None


def _check_text(text: str, info: inspect.StrType) -> str | None:
    if "\0" in text:
        return "contains a NUL character"
    if info.max_length is not None and len(text) > info.max_length:
        return f"has {len(text)} characters; at most {info.max_length} are allowed"
    if info.min_length is not None and len(text) < info.min_length:
        return "is empty" if not text else f"has fewer than {info.min_length} characters"
    return None


def _check_number(number: int | float, info: inspect.IntType | inspect.FloatType) -> str | None:
    if isinstance(number, float) and not math.isfinite(number):  # an integer may exceed a float
        return "is not a finite number"
    if info.ge is not None and number < info.ge:
        return f"is {quote(number)}; at least {info.ge} is expected"
    if info.gt is not None and number <= info.gt:
        return f"is {quote(number)}; more than {info.gt} is expected"
    if info.le is not None and number > info.le:
        return f"is {quote(number)}; at most {info.le} is allowed"
    return None


def _check_choice(value: object, words: list[object]) -> str | None:
    if value in words:
        return None
    return f"is {quote(value)}; one of {', '.join(map(str, words))} is expected"


def _has_type(value: object, info: inspect.Type) -> bool:
    """Whether the value has this type, whatever its content."""
    match info:
        case inspect.Metadata(type=inner):
            return _has_type(value, inner)
        case inspect.StructType() | inspect.DictType():
            return isinstance(value, dict)
        case inspect.ListType() | inspect.VarTupleType():
            return isinstance(value, list)
        case inspect.StrType() | inspect.EnumType() | inspect.LiteralType():
            return isinstance(value, str)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case inspect.NoneType():
            return value is None
        case inspect.AnyType() | inspect.RawType():
            return True
    raise AssertionError(f"no request type uses {info}")


def _describe_type(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner):
            return _describe_type(inner)
        case inspect.StructType() | inspect.DictType():
            return "an object"
        case inspect.ListType() | inspect.VarTupleType():
            return "a list"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType():
            return "a number"
        case inspect.StrType() | inspect.EnumType() | inspect.LiteralType():
            return "text"
    return "something else"


def _describe_value(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {quote(value)}"
        case str():
            return f"the text {quote(value)}"
        case list():
            return "a list"
        case _:
            return "an object"
