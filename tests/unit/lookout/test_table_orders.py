"""The order of a table by one of its columns."""

from typing import Final

import pytest

from fairlead_common.domain.problems import Problem
from fairlead_lookout.http.pages.table_orders import Column, TableOrder, parse_order

Row = tuple[str, int | None]
COLUMNS: Final = {
    "name": Column(lambda row: row[0]),
    "size": Column(lambda row: row[1], is_descending=True),
}
ROWS: Final[list[Row]] = [("a", 2), ("b", None), ("c", 1), ("d", 2), ("e", 3)]


def order(sort: str | None = None, **query: str | None) -> TableOrder:
    return parse_order(sort, COLUMNS, "name", "/page", query)


def names(sort: str) -> str:
    return "".join(name for name, _ in order(sort).sort_rows(ROWS))


def test_equal_rows_stay_in_their_order_and_rows_without_a_value_are_last() -> None:
    assert names("size") == "cadeb"
    assert names("-size") == "eadcb"
    assert names("name") == "abcde"
    assert names("-name") == "edcba"


def test_the_head_of_a_column_leads_to_its_order_and_back() -> None:
    first = order(q="x", queue=None)
    assert first.find_direction("name") == "ascending"
    assert first.find_direction("size") is None
    assert first.find_address("size") == "/page?q=x&sort=-size"
    assert first.find_address("name") == "/page?q=x&sort=-name"
    second = order("-size", q="x")
    assert second.find_direction("size") == "descending"
    assert second.find_address("size") == "/page?q=x&sort=size"
    assert order("-name").find_address("name") == "/page"


def test_the_default_order_needs_no_parameter() -> None:
    assert (order().parameter, order("name").parameter, order("size").parameter) == (
        None,
        None,
        "size",
    )


@pytest.mark.parametrize("sort", ["colour", "-", "--size", "SIZE", "size,name"])
def test_an_unknown_column_is_an_error_that_names_the_others(sort: str) -> None:
    with pytest.raises(Problem) as caught:
        order(sort)
    (error,) = caught.value.field_errors
    assert (error.pointer, "Use name, size;" in error.detail) == ("/query/sort", True)
