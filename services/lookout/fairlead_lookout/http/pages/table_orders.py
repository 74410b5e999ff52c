"""The order of a table of a page: by one of its columns, in the address as `sort=share`, with a
minus for descending.

Only tables that are in memory as a whole have it: of a part of a list, the greatest row would be
that of the part.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from fairlead_lookout.http.pages.error_pages import build_address
from fairlead_lookout.store.queries.list_filters import invalid_parameter

Row = TypeVar("Row")
SORT: Final = "sort"
"""The parameter of pages."""


class Column(msgspec.Struct, frozen=True):
    """By what rows are ordered: a value of a row, or None, which comes last in both directions.

    `is_descending`: the greatest value comes first, unless the order is turned.
    """

    find_value: Callable[[Any], Any]
    is_descending: bool = False


class TableOrder(msgspec.Struct, frozen=True):
    """The order of a table, and the addresses of its page in other orders. `query`: the other
    parameters of the address."""

    columns: Mapping[str, Column]
    default: str
    sort: str
    path: str
    query: Mapping[str, str | None]

    def sort_rows(self, rows: Sequence[Row]) -> list[Row]:
        """The rows in this order; rows with equal values stay in theirs."""
        find_value = self.columns[self.sort.removeprefix("-")].find_value
        valued = [(find_value(row), row) for row in rows]
        known = [each for each in valued if each[0] is not None]
        known.sort(key=lambda each: each[0], reverse=self.sort.startswith("-"))
        return [row for _, row in known] + [row for value, row in valued if value is None]

    def find_direction(self, column: str) -> str | None:
        """`ascending` or `descending`; None for a column that is not that of the order."""
        if self.sort.removeprefix("-") != column:
            return None
        return "descending" if self.sort.startswith("-") else "ascending"

    def find_address(self, column: str) -> str:
        """The page in the order of a column, or in the opposite order if it has that order."""
        turned = {None: None, "descending": column, "ascending": f"-{column}"}
        first = f"-{column}" if self.columns[column].is_descending else column
        return self._build_address(turned[self.find_direction(column)] or first)

    @property
    def parameter(self) -> str | None:
        """The parameter of an address with this order; the default needs none."""
        return None if self.sort == self.default else self.sort

    def _build_address(self, sort: str) -> str:
        return build_address(
            self.path, {**self.query, SORT: None if sort == self.default else sort}
        )


def parse_order(
    sort: str | None,
    columns: Mapping[str, Column],
    default: str,
    path: str,
    query: Mapping[str, str | None] | None = None,
) -> TableOrder:
    """The order of a parameter, or the default. Raises a 422 `Problem` for an unknown column."""
    if sort and sort.removeprefix("-") not in columns:
        known = ", ".join(columns)
        detail = f"{sort[:40]!r} is not a sort order. Use {known}; with a minus: descending."
        raise invalid_parameter(SORT, detail)
    return TableOrder(columns, default, sort or default, path, query or {})
