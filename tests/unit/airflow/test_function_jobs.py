"""Functions as commands of jobs."""

import subprocess
import sys

import pytest

from fairlead_airflow.jobs.function_jobs import NoResult, build_command, read_result

SOURCE = """\
def join(parts: list[Unknown], *, by: str) -> str:
    print("in {braces}")
    return by.join(parts)
"""


def run(command: tuple[str, ...]) -> list[str]:
    """The lines that the command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split("\n")


def test_result_of_the_function_is_in_the_output() -> None:
    lines = run(build_command(sys.executable, SOURCE, "join", [["a", "ö\n'"]], {"by": '"'}))
    assert lines[0] == "in {braces}"
    assert read_result(lines) == "a\"ö\n'"


def test_argument_without_json_is_refused() -> None:
    with pytest.raises(TypeError, match="An argument of join cannot be sent"):
        build_command(sys.executable, SOURCE, "join", [{1, 2}], {})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{1, 2}", "cannot be returned as JSON: Object of type set is not JSON serializable"),
        ("float('nan')", "cannot be returned as JSON: Out of range float values"),
        ("'a' + chr(0)", "contains the character NUL"),
        ("'x' * 500_000", "has 500002 characters; at most 500000 are allowed"),
    ],
)
def test_result_that_airflow_cannot_store_fails_the_job_with_one_line(
    value: str, text: str
) -> None:
    command = build_command(sys.executable, f"def make():\n    return {value}\n", "make", [], {})
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_result_with_the_text_of_an_escaped_nul_is_returned() -> None:
    source = "def make():\n    return chr(92) + 'u0000'\n"
    assert read_result(run(build_command(sys.executable, source, "make", [], {}))) == r"\u0000"


def test_output_without_a_result_is_an_error() -> None:
    with pytest.raises(NoResult):
        read_result(["something else"])
