"""What is wrong with the input: file, line, field and reason, all of it within a bound. Pure."""

from typing import Final

import msgspec

KEPT_MAX: Final = 100
"""Faults that are told one by one; those beyond are counted."""


class InputFault(msgspec.Struct, frozen=True):
    """One thing wrong. `line` counts from 1; 0 means the file as a whole."""

    file: str
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.field}: {self.reason}" if self.field else f"{place}: {self.reason}"


class BadInput(Exception):
    """The input cannot be simulated; `faults` says all that is wrong with it."""

    def __init__(self, faults: "Faults") -> None:
        super().__init__("\n".join(faults.lines()))
        self.faults = faults


class Faults:
    """Collects what is wrong, so that all of it can be mended at once."""

    def __init__(self) -> None:
        self.kept: list[InputFault] = []
        self.count = 0

    def add(self, file: str, line: int, field: str, reason: str) -> None:
        """One more."""
        self.count += 1
        if len(self.kept) < KEPT_MAX:
            self.kept.append(InputFault(file, line, field, reason))

    def lines(self) -> list[str]:
        """All that is kept, and how many more there are."""
        more = self.count - len(self.kept)
        return [str(fault) for fault in self.kept] + ([f"... and {more} more"] if more else [])

    def check(self) -> None:
        """Raise `BadInput` if there is any."""
        if self.count:
            raise BadInput(self)


def per_field(values: object, kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """Every field that does not fit the struct, as (field, reason): msgspec names one only."""
    if not isinstance(values, dict):
        return [("", f"is {_kind_of(values)}; a mapping of fields is expected")]
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    found = [
        (str(name), f"there is no such field; the fields are {', '.join(sorted(known))}")
        for name in values
        if name not in known
    ]
    for name, field in known.items():
        if name in values:
            try:
                msgspec.convert(values[name], field.type)
            except msgspec.ValidationError as error:
                found.append((name, plain(error)))
        elif field.required:
            found.append((name, "is missing"))
    return found


def plain(error: msgspec.ValidationError) -> str:
    """msgspec's sentence, with the place written as people would."""
    text, _, place = str(error).partition(" - at `")
    inner = place.rstrip("`").removeprefix("$").lstrip(".")
    return f"{text} (at {inner})" if inner else text


def _kind_of(value: object) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true/false"}
    return "empty" if value is None else names.get(type(value), "something else")
