"""Printing lists and single things as a table, JSON, YAML or names.

Tables are plain columns that `grep` and `awk` can read, as wide as they need to be.
"""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Annotated, Final, TypeVar

import typer

T = TypeVar("T")

COLUMN_MAX: Final = 60


class Format(StrEnum):
    """How to print."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


FormatOption = Annotated[
    Format, typer.Option("-o", "--output", help="How to print: table, json, yaml or name.")
]
Columns = Mapping[str, Callable[[T], object]]
"""Heading -> what stands below it."""


def items(
    found: Iterable[T], output: Format, columns: Columns[T], name: Callable[[T], str], none: str
) -> None:
    """Print a list. `none` is said on stderr when a table would be empty."""
    match output:
        case Format.TABLE:
            rows = [[_cell(value(item)) for value in columns.values()] for item in found]
            if rows:
                table(list(columns), rows)
            else:
                typer.echo(none, err=True)
        case Format.NAME:
            for item in found:
                typer.echo(name(item))
        case Format.JSON | Format.YAML:
            thing([_plain(item) for item in found], output)


def thing(value: object, output: Format) -> None:
    """Print one thing as JSON or YAML."""
    plain = _plain(value)
    if output is Format.YAML:
        import yaml

        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
        typer.echo(text.rstrip("\n"))
    else:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2))


def line(value: object) -> None:
    """Print one thing as one line of JSON."""
    import msgspec

    typer.echo(msgspec.json.encode(_plain(value)))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns; the last is cut nowhere, others after `COLUMN_MAX` characters."""
    shown = [list(headings), *([*(_cut(cell) for cell in row[:-1]), row[-1]] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("   ".join(cells).rstrip())


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Print named values below one another, without those that are absent."""
    shown = [(name, _cell(value)) for name, value in pairs if value not in (None, "", {}, ())]
    width = max((len(name) for name, _ in shown), default=0) + 2
    for name, value in shown:
        typer.echo(f"{name + ':':<{width}} {value}".rstrip())


def limited(found: Iterable[T], limit: int) -> list[T]:
    """The first ones; says so when there are more."""
    iterator = iter(found)
    shown = list(islice(iterator, limit))
    if len(shown) == limit and next(iterator, None) is not None:
        typer.echo(f"(the first {limit}; more with --limit)", err=True)
    return shown


def age(time: str | None, now: datetime.datetime) -> str:
    """How long ago that was, in one unit and the next: 45s, 3m20s, 5h12m, 12d4h."""
    if time is None:
        return ""
    s = max(0, int((now - datetime.datetime.fromisoformat(time)).total_seconds()))
    if s < 60:
        return f"{s}s"
    if s < 3600:
        return f"{s // 60}m{s % 60}s"
    if s < 86400:
        return f"{s // 3600}h{s % 3600 // 60}m"
    return f"{s // 86400}d{s % 86400 // 3600}h"


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{key}={inner}" for key, inner in value.items())
        case list() | tuple():
            return ", ".join(map(_cell, value))
        case _:
            return " ".join(str(value).split())


def _cut(cell: str) -> str:
    return cell if len(cell) <= COLUMN_MAX else cell[: COLUMN_MAX - 1] + "…"


def _plain(value: object) -> object:
    """As the API would write it, without what is absent."""
    import msgspec

    builtin = msgspec.to_builtins(value)
    if isinstance(value, msgspec.Struct):
        assert isinstance(builtin, dict)
        return {key: inner for key, inner in builtin.items() if inner not in (None, "", [], {})}
    return builtin
