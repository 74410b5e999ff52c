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
