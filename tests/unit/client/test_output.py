"""How values look in tables, JSON and YAML."""

import datetime
import json

import pytest
import yaml

from fairlead.cli.commands.jobs import watch_command
from fairlead.cli.output import output_formats
from fairlead.models.job_models import JobSet

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("before_s", "text"),
    [(-5, "0s"), (59, "59s"), (200, "3m20s"), (18_720, "5h12m"), (1_051_200, "12d4h")],
)
def test_ages_have_two_units_at_most(before_s: int, text: str) -> None:
    time = (NOW - datetime.timedelta(seconds=before_s)).isoformat()
    assert output_formats.format_age(time, NOW) == text


def test_an_absent_time_has_no_age() -> None:
    assert output_formats.format_age(None, NOW) == ""


def printed(
    capsys: pytest.CaptureFixture[str],
    headings: list[str],
    *rows: list[str],
    columns_max: int | None = None,
    spare: tuple[str, ...] = (),
) -> list[str]:
    output_formats.print_table(headings, rows, columns_max, spare)
    return capsys.readouterr().out.splitlines()


def test_columns_are_aligned_and_not_cut_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "x" * 100
    heading, first, second = printed(capsys, ["A", "B"], ["1", "2"], [long, long])
    assert heading.index("B") == first.index("2") == len(long) + len(output_formats.GAP)
    assert second == f"{long}{output_formats.GAP}{long}"


def test_a_table_fits_the_terminal_and_ids_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    job_id = "0" * 28
    row = [job_id, "a-queue", "a-job-set-with-a-long-name", "r" * 200]
    lines = printed(capsys, ["ID", "QUEUE", "JOB SET", "REASON"], row, columns_max=80)
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith(job_id)
    assert lines[1].endswith("…")


def test_the_widest_columns_are_cut_first(capsys: pytest.CaptureFixture[str]) -> None:
    row = ["0" * 28, "c" * 18, "The job can never run in pool default: of 1 node, 1 is too small."]
    _, line = printed(capsys, ["ID", "CLIENT ID", "REASON"], row, columns_max=72)
    assert [len(cell) for cell in line.split("   ")] == [28, 18, 20]
    _, line = printed(capsys, ["ID", "CLIENT ID", "REASON"], row, columns_max=62)
    assert [len(cell) for cell in line.split("   ")] == [28, 14, 14]


def test_control_characters_are_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    columns: output_formats.Columns[str] = {"REASON": lambda text: text}
    output_formats.print_list(
        ["\x1b[2Jgone \u202e"], output_formats.Format.TABLE, columns, str, "none"
    )
    assert capsys.readouterr().out == "REASON\n�[2Jgone �\n"


def test_control_characters_in_labels_and_annotations_are_replaced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output_formats.print_fields([("Annotations", {"a": "\x1b]0;pwned\x07 \u202e", "b": None})])
    assert capsys.readouterr().out == "Annotations:  a=\ufffd]0;pwned\ufffd \ufffd, b=\n"


@pytest.mark.parametrize(
    "text", ["a \u202e\u0085 \U000e0001b", "é ☃ 😀", "two\n\u2066lines\tand more\n"]
)
def test_control_characters_are_escaped_in_json_and_yaml(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    value = {text: [text]}
    for output, read in (
        (output_formats.Format.JSON, json.loads),
        (output_formats.Format.YAML, yaml.safe_load),
    ):
        output_formats.print_object(value, output)
        printed = capsys.readouterr().out
        assert printed.replace("\n", "").isprintable()
        assert read(printed) == value
    assert text.isprintable() == (text in printed)
    output_formats.print_json_line(value)
    assert json.loads(line := capsys.readouterr().out) == value
    assert line.removesuffix("\n").isprintable()


def test_spare_columns_are_left_out_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = ["0" * 28, "a-queue", "RUNNING", "because of something"]
    headings = ["ID", "QUEUE", "STATE", "REASON"]
    lines = printed(capsys, headings, row, columns_max=40, spare=("QUEUE", "REASON"))
    assert lines[0].split() == ["ID", "STATE"]
    assert lines[1].split() == ["0" * 28, "RUNNING"]


def test_characters_of_double_width_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.cells import cell_len

    heading, first, second = printed(capsys, ["A", "B"], ["漢字", "1"], ["abcdef", "2"])
    places = {cell_len(line[: line.index(word)]) for line, word in ((first, "1"), (second, "2"))}
    assert places == {heading.index("B")}


def test_a_text_of_several_lines_stays_in_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    columns: output_formats.Columns[str] = {"REASON": lambda text: text}
    output_formats.print_list(["one\n  two"], output_formats.Format.TABLE, columns, str, "none")
    assert capsys.readouterr().out == "REASON\none two\n"


def test_counts_are_printed_in_the_order_of_the_life_cycle() -> None:
    states = {"SUCCEEDED": 2, "QUEUED": 1, "FAILED": 0}
    found = JobSet(queue="q", job_set="s", jobs=3, live=1, states=states)
    assert watch_command.describe_progress(found) == "q/s: 2 of 3 ended: 1 QUEUED, 2 SUCCEEDED"
