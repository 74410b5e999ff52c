"""SQL lives in files, one named, commented statement per block.

A block begins with a line `-- name: insert_job` and ends where the next begins.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final

_NAME: Final = re.compile(r"^-- name: *([a-z][a-z0-9_]*) *$", re.MULTILINE)


class Statements(Mapping[str, str]):
    """The statements of a file by name; an unknown name is a KeyError at first use."""

    def __init__(self, text: str) -> None:
        parts = _NAME.split(text)
        names, bodies = parts[1::2], parts[2::2]
        self._texts = {
            name: body.strip().rstrip(";") for name, body in zip(names, bodies, strict=True)
        }
        assert len(self._texts) == len(names), "two statements of one name"

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def load(package: str, path: str) -> Statements:
    """The statements of the SQL file at `path` inside a package."""
    return Statements(resources.files(package).joinpath(path).read_text())


def to_columns(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The columns of rows, for a statement that takes a list per column. No rows have no columns.

    `Any`: values that asyncpg encodes.
    """
    return [list(column) for column in zip(*rows, strict=True)]
