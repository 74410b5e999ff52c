"""The form of the page of jobs: what it sends becomes a short address."""

import pytest

from fairlead_common.domain.problems import Problem
from fairlead_lookout.http.pages.jobs.job_list_pages import read_form

NOW_MS = 1_800_000_000_000


def test_fields_without_a_value_are_left_out() -> None:
    assert read_form({"q": "", "queue": "a", "state": " "}, NOW_MS) == {"queue": "a"}


def test_a_label_has_a_name_and_a_value() -> None:
    assert read_form({"label": "a.b/c=d=e"}, NOW_MS) == {"label.a.b/c": "d=e"}
    for label in ("a", "a=", "=b"):
        with pytest.raises(Problem) as caught:
            read_form({"label": label}, NOW_MS)
        assert label in caught.value.field_errors[0].detail


def test_hours_are_counted_from_now() -> None:
    assert read_form({"submittedWithin": "24h"}, NOW_MS) == {
        "submittedAfter": "2027-01-14T08:00:00Z"
    }
    for hours in ("24", "0h", "-1h", "99999h", "1d"):
        with pytest.raises(Problem):
            read_form({"submittedWithin": hours}, NOW_MS)
