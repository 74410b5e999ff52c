"""Cursors of lists."""

import pytest

from fairlead_common.domain.problems import Problem
from fairlead_lookout.store.queries import list_cursors


def test_a_cursor_leads_back_to_its_place_in_its_list() -> None:
    query = ("jobs", "q", None, ["QUEUED"])
    cursor = list_cursors.encode(query, -5, "0abc")
    assert list_cursors.decode(query, cursor) == (-5, "0abc")
    assert list_cursors.decode(query, None) is None
    for wrong in (("jobs", "q", None, []), ("jobsets", "q", None, ["QUEUED"])):
        with pytest.raises(Problem):
            list_cursors.decode(wrong, cursor)


@pytest.mark.parametrize("text", ["", "%", "AAAA", "W10", "x" * 400, "é", "W251bGxd"])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        list_cursors.decode(("jobs",), text)
    (error,) = refused.value.field_errors
    assert error.detail == "Unknown cursor. Request the list again without `cursor`."


@pytest.mark.parametrize(
    ("number", "id_", "number_max"),
    [
        (2**63, "", list_cursors.BIGINT_MAX),
        (2**31, "", list_cursors.INT_MAX),
        (-(2**31), "", list_cursors.INT_MAX),
        (1, "a\0b", list_cursors.BIGINT_MAX),
    ],
)
def test_a_cursor_with_values_that_postgres_refuses_is_refused(
    number: int, id_: str, number_max: int
) -> None:
    """The cursor is not signed: anybody can make one."""
    cursor = list_cursors.encode(("jobs",), number, id_)
    with pytest.raises(Problem):
        list_cursors.decode(("jobs",), cursor, number_max)
