"""How values look in tables."""

import datetime

import pytest

from fairlead.cli import output, watch
from fairlead.models import JobSet

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("before_s", "text"),
    [(-5, "0s"), (59, "59s"), (200, "3m20s"), (18_720, "5h12m"), (1_051_200, "12d4h")],
)
def test_ages_have_two_units_at_most(before_s: int, text: str) -> None:
    time = (NOW - datetime.timedelta(seconds=before_s)).isoformat()
    assert output.age(time, NOW) == text


def test_an_absent_time_has_no_age() -> None:
    assert output.age(None, NOW) == ""


def test_columns_are_aligned_and_only_the_last_is_never_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "x" * 100
    output.table(["A", "B"], [["1", "2"], [long, long]])
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.index("B") == first.index("2") == second.index(long)
    assert second.startswith("x" * 59 + "…")


def test_a_text_of_several_lines_stays_in_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    columns: output.Columns[str] = {"REASON": lambda text: text}
    output.items(["one\n  two"], output.Format.TABLE, columns, str, "none")
    assert capsys.readouterr().out == "REASON\none two\n"


def test_counts_are_told_in_the_order_of_a_jobs_life() -> None:
    states = {"SUCCEEDED": 2, "QUEUED": 1, "FAILED": 0}
    found = JobSet(queue="q", job_set="s", jobs=3, live=1, states=states)
    assert watch.sentence(found) == "q/s: 2 of 3 ended: 1 QUEUED, 2 SUCCEEDED"
