"""Functions as commands of jobs."""

import subprocess
import sys

import pytest

from fairlead_airflow.function_jobs import NoResult, build_command, read_result

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


def test_output_without_a_result_is_an_error() -> None:
    with pytest.raises(NoResult):
        read_result(["something else"])
