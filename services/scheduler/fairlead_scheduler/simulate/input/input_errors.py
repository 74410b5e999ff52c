"""The errors of the input, each with file, line, field and reason; limited in number. Pure."""

from typing import Final

import msgspec

LISTED_MAX: Final = 100
"""The number of errors that are listed; the others are only counted."""


class InputError(msgspec.Struct, frozen=True):
    """One error. `line` counts from 1; 0 means the whole file."""

    file: str
    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.field}: {self.reason}" if self.field else f"{place}: {self.reason}"


class InvalidInput(Exception):
    """The input cannot be simulated; `errors` lists its errors."""

    def __init__(self, errors: "InputErrors") -> None:
        super().__init__("\n".join(errors.lines()))
        self.errors = errors


class InputErrors:
    """Collects all errors of the input, so that they can be corrected together."""

    def __init__(self) -> None:
        self.listed: list[InputError] = []
        self.count = 0

    def add(self, file: str, line: int, field: str, reason: str) -> None:
        """Add an error."""
        self.count += 1
        if len(self.listed) < LISTED_MAX:
            self.listed.append(InputError(file, line, field, reason))

    def lines(self) -> list[str]:
        """The listed errors, and the number of the others."""
        more = self.count - len(self.listed)
        return [str(error) for error in self.listed] + ([f"... and {more} more"] if more else [])

    def check(self) -> None:
        """Raise `InvalidInput` if there is an error."""
        if self.count:
            raise InvalidInput(self)


def find_field_errors(values: object, kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """All invalid fields as (field, reason): msgspec reports only the first."""
    if not isinstance(values, dict):
        return [("", f"is {_name_type(values)}; a mapping of fields is expected")]
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
                found.append((name, describe_error(error)))
        elif field.required:
            found.append((name, "is missing"))
    return found


def describe_error(error: msgspec.ValidationError) -> str:
    """The message of msgspec, with the path of the field as in YAML."""
    text, _, place = str(error).partition(" - at `")
    inner = place.rstrip("`").removeprefix("$").lstrip(".")
    return f"{text} (at {inner})" if inner else text


def _name_type(value: object) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true/false"}
    return "empty" if value is None else names.get(type(value), "something else")
