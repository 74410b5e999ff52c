"""Every fault of a document against a type, with JSON pointers; the slow path of decoding.

msgspec decodes fast and stops at the first fault. When it did, `examine` walks the parsed document
beside the type, names all that is wrong, and leaves a copy without it, so that what remains can
still be checked further and one answer tells everything.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Final

import msgspec
from msgspec import inspect

from fairlead_common.domain.errors import FieldError

DEPTH_MAX: Final = 64
"""Deepest nesting of anything: more cannot be meant."""

FAULTS_MAX: Final = 1_000
"""Whoever has made so many mistakes is told of these first."""

VALUES_MAX: Final = 2_000_000
"""Most values of a document that are looked at."""

SHOWN_MAX: Final = 60
_MISSING: Final = object()


def escape(part: str) -> str:
    """One step of an RFC 6901 pointer."""
    return part.replace("~", "~0").replace("/", "~1")


def shown(text: object) -> str:
    """The text as a message quotes it: bounded, and without anything that could confuse."""
    quoted = repr(text)
    return quoted if len(quoted) <= SHOWN_MAX else quoted[: SHOWN_MAX - 3] + "..."


def further(found: Iterable[FieldError], known: Iterable[FieldError]) -> list[FieldError]:
    """Faults of a second check that do not merely follow from `known` ones.

    Those follow that are at the same place, inside it or around it.
    """
    places = {fault.pointer for fault in known}
    around = {above for pointer in places for above in _upwards(pointer)}
    return [
        fault
        for fault in found
        if fault.pointer not in around and places.isdisjoint(_upwards(fault.pointer))
    ]


def _upwards(pointer: str) -> list[str]:
    """The place itself, and everything that it is inside of."""
    parts = pointer.split("/")[: DEPTH_MAX + 2]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def examine(document: object, kind: type, at: str = "") -> tuple[list[FieldError], object]:
    """All faults of a parsed document, and a copy without what is wrong in it.

    `kind` is any type that msgspec can decode; `at` is the pointer of the document itself. Nothing
    is left when the document is wrong as a whole, or in more than `FAULTS_MAX` places.
    """
    found = _Found()
    try:
        kept = _walk(document, _info(kind), at, found, 0)
    except _EnoughError:
        kept = _MISSING
    return found.faults, None if kept is _MISSING else kept


class _EnoughError(Exception):
    """There is no use in looking further."""


class _Found:
    """The faults so far; bounds them, and the work of finding them."""

    def __init__(self) -> None:
        self.faults: list[FieldError] = []
        self._left = VALUES_MAX

    def say(self, pointer: str, detail: str) -> None:
        self.faults.append(FieldError(pointer, detail))
        if len(self.faults) >= FAULTS_MAX:
            raise _EnoughError

    def look(self) -> None:
        self._left -= 1
        if self._left < 0:
            self.say("", f"has more than {VALUES_MAX} values; the rest was not looked at")
            raise _EnoughError


def nesting(document: object) -> int:
    """How deep a parsed document is nested."""
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


@cache
def _info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _walk(value: object, info: inspect.Type, at: str, found: _Found, depth: int) -> object:
    """`value` without its faulty parts, or `_MISSING` if it is wrong as a whole."""
    found.look()
    if depth > DEPTH_MAX:
        found.say(at, f"is nested more than {DEPTH_MAX} deep")
        return _MISSING
    match info:
        case inspect.Metadata(type=inner):
            return _walk(value, inner, at, found, depth)
        case inspect.UnionType(types=types):
            return _walk_union(value, types, at, found, depth)
        case inspect.StructType() if isinstance(value, dict):
            return _walk_struct(value, info, at, found, depth)
        case inspect.DictType(value_type=inner) if isinstance(value, dict):
            return _walk_dict(value, info, inner, at, found, depth)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner) if (
            isinstance(value, list)
        ):
            return _walk_list(value, info, inner, at, found, depth)
        case inspect.AnyType() | inspect.RawType():
            return _walk_any(value, at, found, depth)
    detail = _scalar_fault(value, info)
    if detail is None:
        return value
    found.say(at, detail)
    return _MISSING


def _walk_union(
    value: object, types: Iterable[inspect.Type], at: str, found: _Found, depth: int
) -> object:
    choices = [info for info in types if not isinstance(info, inspect.NoneType)]
    if value is None and len(choices) < len(list(types)):
        return None
    fitting = [info for info in choices if _fits(value, info)]
    if fitting:
        return _walk(value, fitting[0], at, found, depth)
    names = " or ".join(dict.fromkeys(_name(info) for info in choices))
    found.say(at, f"is {_name_of(value)}; {names} is expected")
    return _MISSING


def _walk_struct(
    value: dict[str, object], info: inspect.StructType, at: str, found: _Found, depth: int
) -> object:
    known = {field.encode_name: field for field in info.fields}
    kept: dict[str, object] = {}
    for name, item in value.items():
        place = f"{at}/{escape(name)}"
        if name in known:
            checked = _walk(item, known[name].type, place, found, depth + 1)
            if checked is not _MISSING:
                kept[name] = checked
        elif info.forbid_unknown_fields:
            found.say(place, "is not a field that is known here")
    missing = [f for f in info.fields if f.required and f.encode_name not in value]
    for field in missing:
        found.say(f"{at}/{escape(field.encode_name)}", "is missing")
    whole = all(f.encode_name in kept for f in info.fields if f.required)
    return kept if whole else _MISSING


def _walk_dict(
    value: dict[str, object],
    info: inspect.DictType,
    inner: inspect.Type,
    at: str,
    found: _Found,
    depth: int,
) -> object:
    if info.max_length is not None and len(value) > info.max_length:
        found.say(at, f"has {len(value)} entries; at most {info.max_length} are allowed")
        return _MISSING
    kept: dict[str, object] = {}
    for name, item in value.items():
        place = f"{at}/{escape(name)}"
        if "\0" in name:
            found.say(place, "has a NUL character in its name")
            continue
        checked = _walk(item, inner, place, found, depth + 1)
        if checked is not _MISSING:
            kept[name] = checked
    return kept


def _walk_list(
    value: list[object],
    info: inspect.ListType | inspect.VarTupleType,
    inner: inspect.Type,
    at: str,
    found: _Found,
    depth: int,
) -> object:
    if info.max_length is not None and len(value) > info.max_length:
        found.say(at, f"has {len(value)} entries; at most {info.max_length} are allowed")
        return _MISSING
    # What is wrong as a whole leaves an empty thing behind, so that the others keep their place.
    may_be_blank = isinstance(inner, inspect.StructType) and not any(
        field.required for field in inner.fields
    )
    kept = [
        _walk(item, inner, f"{at}/{index}", found, depth + 1) for index, item in enumerate(value)
    ]
    if not may_be_blank and _MISSING in kept:
        return _MISSING
    return [{} if item is _MISSING else item for item in kept]


def _walk_any(value: object, at: str, found: _Found, depth: int) -> object:
    """Whatever it is, it may hold no NUL and not be nested without end."""
    found.look()
    if depth > DEPTH_MAX:
        found.say(at, f"is nested more than {DEPTH_MAX} deep")
    elif isinstance(value, str) and "\0" in value:
        found.say(at, "holds a NUL character")
    elif isinstance(value, dict):
        for name, item in value.items():
            place = f"{at}/{escape(name)}"
            if "\0" in name:
                found.say(place, "has a NUL character in its name")
            _walk_any(item, place, found, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk_any(item, f"{at}/{index}", found, depth + 1)
    return value


def _scalar_fault(value: object, info: inspect.Type) -> str | None:
    """What is wrong with a value that has no parts; None if nothing."""
    if not _fits(value, info):
        return f"is {_name_of(value)}; {_name(info)} is expected"
    match info:
        case inspect.StrType():
            return _text_fault(str(value), info)
        case inspect.IntType() | inspect.FloatType():
            assert isinstance(value, int | float)
            return _number_fault(value, info)
        case inspect.EnumType(cls=cls):
            return _word_fault(value, [member.value for member in cls])
        case inspect.LiteralType(values=values):
            return _word_fault(value, list(values))
    return None


def _text_fault(text: str, info: inspect.StrType) -> str | None:
    if "\0" in text:
        return "holds a NUL character"
    if info.max_length is not None and len(text) > info.max_length:
        return f"has {len(text)} characters; at most {info.max_length} are allowed"
    if info.min_length is not None and len(text) < info.min_length:
        return "is empty" if not text else f"has fewer than {info.min_length} characters"
    return None


def _number_fault(number: int | float, info: inspect.IntType | inspect.FloatType) -> str | None:
    if isinstance(number, float) and not math.isfinite(number):  # an integer may exceed a float
        return "is not a finite number"
    if info.ge is not None and number < info.ge:
        return f"is {shown(number)}; at least {info.ge} is expected"
    if info.gt is not None and number <= info.gt:
        return f"is {shown(number)}; more than {info.gt} is expected"
    if info.le is not None and number > info.le:
        return f"is {shown(number)}; at most {info.le} is allowed"
    return None


def _word_fault(value: object, words: list[object]) -> str | None:
    if value in words:
        return None
    return f"is {shown(value)}; one of {', '.join(map(str, words))} is expected"


def _fits(value: object, info: inspect.Type) -> bool:
    """Whether the value is of the right kind, whatever it holds."""
    match info:
        case inspect.Metadata(type=inner):
            return _fits(value, inner)
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
    raise AssertionError(f"no request has a part of type {info}")


def _name(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner):
            return _name(inner)
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


def _name_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {shown(value)}"
        case str():
            return f"the text {shown(value)}"
        case list():
            return "a list"
        case _:
            return "an object"


def parse(body: bytes) -> object:
    """The parsed document. Raises ValueError with a sentence for what is no JSON."""
    try:
        return msgspec.json.decode(body)
    except UnicodeDecodeError as error:
        raise ValueError(f"The body is not UTF-8 (byte {error.start}).") from None
    except RecursionError:
        raise ValueError(f"The body is nested more than {DEPTH_MAX} deep.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"The body is not JSON that can be read: {error}.") from None


class _Repeating(dict[str, object]):
    """An object in which names stand more than once."""

    names: tuple[str, ...] = ()


def repeated(body: bytes) -> list[FieldError]:
    """Every name that an object says more than once, in a body that `parse` has read.

    Parsers differ in which of the values they take, so nobody can rely on any.
    """
    is_repeating = False

    def made(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal is_repeating
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        is_repeating = True
        marked = _Repeating(plain)
        marked.names = tuple(n for n, count in Counter(n for n, _ in pairs).items() if count > 1)
        return marked

    try:
        document = json.loads(body.decode(), object_pairs_hook=made, parse_int=float)
    except (RecursionError, ValueError) as error:
        return [FieldError("", f"cannot be read: {shown(str(error))}")]
    return _repeating_names(document) if is_repeating else []


def _repeating_names(document: object) -> list[FieldError]:
    found: list[FieldError] = []
    left = [("", document)]
    while left and len(found) < FAULTS_MAX:
        at, value = left.pop()
        if isinstance(value, _Repeating):
            found += [
                FieldError(f"{at}/{escape(n)}", "is said more than once") for n in value.names
            ]
        if isinstance(value, dict):
            left += [(f"{at}/{escape(name)}", item) for name, item in value.items()]
        elif isinstance(value, list):
            left += [(f"{at}/{index}", item) for index, item in enumerate(value)]
    return found


def says_all(body: bytes, again: bytes) -> bool:
    """Whether all names of a body are in the text made of what was decoded from it.

    Then none was said more than once. False says only that it takes `repeated` to know: a null
    may have been left out. Colons stand behind names, and in texts, which both have alike unless
    the body writes a colon in another way.
    """
    if b"\\" in body and b"\\u003" in body:
        return False
    return body.count(b":") == again.count(b":")
