"""Printing lists and single things as a table, JSON, YAML or names.

Tables are plain columns. Piped, they are as wide as they need to be, for `grep` and `awk`; on a
terminal they fit its width: long cells are cut, and columns that matter less are left out.
"""

import datetime
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Annotated, Final, TypeVar

import typer

T = TypeVar("T")

GAP: Final = "   "
CELL_MIN: Final = 9
"""The least width of a cell that is cut."""

COLOURS: Final = {
    "QUEUED": "yellow",
    "LEASED": "cyan",
    "PENDING": "cyan",
    "RUNNING": "blue",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "magenta",
    "PREEMPTED": "magenta",
    "REJECTED": "red",
}
"""The colours of the states of jobs and runs."""


class Format(StrEnum):
    """How to print."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class WideFormat(StrEnum):
    """How to print a list of jobs; `wide`: a table of all columns, never cut."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def plain(self) -> Format:
        """How to print it, however wide."""
        return Format.TABLE if self is WideFormat.WIDE else Format(self.value)


WideFormatOption = Annotated[
    WideFormat,
    typer.Option("-o", "--output", help="How to print: table, wide, json, yaml or name."),
]
FormatOption = Annotated[
    Format, typer.Option("-o", "--output", help="How to print: table, json, yaml or name.")
]
LimitOption = Annotated[
    int, typer.Option(min=1, help="The maximum number of results.", metavar="NUMBER")
]
Columns = Mapping[str, Callable[[T], object]]
"""Heading -> the value of its cells."""


def print_list(
    found: Iterable[T],
    output: Format,
    columns: Columns[T],
    name: Callable[[T], str],
    none: str,
    spare: Sequence[str] = (),
    *,
    is_wide: bool = False,
) -> None:
    """Print a list. `none` is printed on stderr if a table is empty.

    `spare`: headings of columns that are left out of a table that is too wide, these first.
    `is_wide`: a table may be wider than the terminal.
    """
    match output:
        case Format.TABLE:
            rows = [[_format_cell(value(item)) for value in columns.values()] for item in found]
            if rows:
                print_table(list(columns), rows, None if is_wide else terminal_columns(), spare)
            else:
                typer.echo(none, err=True)
        case Format.NAME:
            for item in found:
                typer.echo(name(item))
        case Format.JSON | Format.YAML:
            print_object([_to_json_values(item) for item in found], output)


def print_detail(value: object, name: str, output: Format, print_table: Callable[[], None]) -> None:
    """Print all of one thing: as JSON or YAML, only its `name`, or by `print_table`."""
    match output:
        case Format.JSON | Format.YAML:
            print_object(value, output)
        case Format.NAME:
            typer.echo(name)
        case Format.TABLE:
            print_table()


def print_object(value: object, output: Format) -> None:
    """Print one thing as JSON or YAML."""
    plain = _to_json_values(value)
    if output is Format.YAML:
        from fairlead.cli.output import yaml_text

        text = yaml_text.write_document(plain)
        typer.echo(_replace_unprintable(text, lambda letter: f"\\U{ord(letter):08x}"))
    else:
        import msgspec

        typer.echo(_escape_json(msgspec.json.format(msgspec.json.encode(plain), indent=2)))


def print_json_line(value: object) -> None:
    """Print one thing as one line of JSON."""
    import msgspec

    typer.echo(_escape_json(msgspec.json.encode(_to_json_values(value))))


def print_line(text: str) -> None:
    """Print one line, which may contain text from users."""
    typer.echo(replace_control_characters(text.replace("\n", " ")))


def print_outcome(subject: str, outcome: str, differences: Iterable[str] = ()) -> None:
    """Print what became of an object, as `queue vision changed`, and the differences below it."""
    typer.echo(f"{subject} {outcome}")
    for line in differences:
        print_line(f"  {line}")


def terminal_columns() -> int | None:
    """How wide stdout is if it is a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns_max: int | None = None,
    spare: Sequence[str] = (),
) -> None:
    """Print columns, cut to `columns_max` characters if it is given."""
    whole = [list(column) for column in zip(headings, *rows, strict=True)]
    if columns_max is not None:
        whole = _drop_spare_columns(whole, columns_max, spare)
    widths = [max(map(_width, column)) for column in whole]
    if columns_max is not None:
        _narrow_columns(widths, columns_max)
    coloured = _is_coloured()
    for row in zip(*whole, strict=True):
        cells = [_fit_cell(cell, width) for cell, width in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        typer.echo(GAP.join(map(_colour_state, cells) if coloured else cells).rstrip())


def print_fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Print named values below one another, without those that are absent."""
    cells = [
        (name, _format_cell(value)) for name, value in pairs if value not in (None, "", {}, (), [])
    ]
    width = max((len(name) for name, _ in cells), default=0) + 2
    for name, value in cells:
        typer.echo(f"{name + ':':<{width}} {value}".rstrip())


def take_first(found: Iterable[T], limit: int) -> list[T]:
    """The first `limit` items; prints a note if there are more."""
    iterator = iter(found)
    items = list(islice(iterator, limit))
    if len(items) == limit and next(iterator, None) is not None:
        typer.echo(f"(the first {limit}; more with --limit)", err=True)
    return items


def format_age(time: str | None, now: datetime.datetime) -> str:
    """How long ago that was, in one unit and the next: 45s, 3m20s, 5h12m, 12d4h."""
    if time is None:
        return ""
    return format_duration((now - datetime.datetime.fromisoformat(time)).total_seconds())


def format_duration(seconds: float) -> str:
    """A duration in its largest unit and the next one: `2h5m`."""
    s = max(0, int(seconds))
    if s < 60:
        return f"{s}s"
    if s < 3600:
        return f"{s // 60}m{s % 60}s"
    if s < 86400:
        return f"{s // 3600}h{s % 3600 // 60}m"
    return f"{s // 86400}d{s % 86400 // 3600}h"


def format_count(count: int, noun: str) -> str:
    """`1 job`, `2 jobs`, `1,000 jobs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _drop_spare_columns(
    columns: list[list[str]], columns_max: int, spare: Sequence[str]
) -> list[list[str]]:
    """Without the spare columns that do not fit, however much the others are cut."""
    left = list(columns)
    for heading in spare:
        least = sum(min(max(map(_width, column)), _least(column)) for column in left)
        if least + len(GAP) * (len(left) - 1) <= columns_max:
            break
        left = [column for column in left if column[0] != heading]
    return left


def _least(column: Sequence[str]) -> int:
    """The least width of a column: names and numbers are never cut."""
    if column[0] in ("ID", "NAME", "STATE", "USED"):
        return max(map(_width, column))
    return max(CELL_MIN, _width(column[0]))


def _narrow_columns(widths: list[int], columns_max: int) -> None:
    """Take from the widest columns, down to `CELL_MIN`; the first, with the ids, stays whole."""
    over = sum(widths) + len(GAP) * (len(widths) - 1) - columns_max
    for _ in range(over):
        at = max(range(1, len(widths)), key=lambda each: (widths[each], each), default=0)
        if at == 0 or widths[at] <= CELL_MIN:
            return
        widths[at] -= 1


def _is_coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _colour_state(cell: str) -> str:
    """A state in its colour; other text unchanged."""
    word = cell.split(" ", 1)[0]
    colour = COLOURS.get(word)
    return cell if colour is None else typer.style(cell, fg=colour)


def _width(cell: str) -> int:
    """The width on a terminal: some characters take two columns."""
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len

    return cell_len(cell)


def _fit_cell(cell: str, width: int) -> str:
    has = _width(cell)
    if has <= width:
        return cell + " " * (width - has)
    if cell.isascii():
        return cell[: width - 1] + "…"
    from rich.cells import set_cell_size

    return set_cell_size(cell, width - 1) + "…"


def _format_cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{key}={_format_cell(inner)}" for key, inner in value.items())
        case list() | tuple():
            return ", ".join(map(_format_cell, value))
        case _:
            return replace_control_characters(" ".join(str(value).split()))


def replace_control_characters(text: str) -> str:
    """The text without control characters, which could control the terminal; keeps line breaks."""
    return _replace_unprintable(text, lambda _: "\N{REPLACEMENT CHARACTER}")


def _escape_json(encoded: bytes) -> str:
    """JSON whose unprintable characters, which could control the terminal, are escaped."""
    import json

    return _replace_unprintable(encoded.decode(), lambda letter: json.dumps(letter)[1:-1])


def _replace_unprintable(text: str, replacement: Callable[[str], str]) -> str:
    """The text with a replacement for each unprintable character but line breaks and tabs."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else replacement(letter)
        for letter in text
    )


def _to_json_values(value: object) -> object:
    """The value as JSON values, without absent fields."""
    import msgspec

    builtin = msgspec.to_builtins(value)
    if isinstance(value, msgspec.Struct):
        assert isinstance(builtin, dict)
        return {key: inner for key, inner in builtin.items() if inner not in (None, "", [], {})}
    return builtin
