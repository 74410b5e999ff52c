"""Traces in the Standard Workload Format."""

import csv
from pathlib import Path

import pytest

from fairlead_scheduler.simulate import simulation
from fairlead_scheduler.simulate.input.input_errors import InvalidInput
from tests.unit.simulate.simulations import Value, ignore_progress

HEADER = "; Version: 2.2\n;  MaxProcs: 4\n; Note: a machine of four processors\n"


def line(number: int, submit: int, run: int, processors: int, **other: int) -> str:
    """A job; missing fields are -1."""
    fields = [number, submit, -1, run, processors, *[-1] * 13]
    for name, value in other.items():
        fields[{"requested": 7, "memory": 9, "status": 10, "user": 11, "queue": 14}[name]] = value
    return " ".join(map(str, fields)) + "\n"


def write_trace(folder: Path, text: str, **changes: Value) -> simulation.SimulationOptions:
    """A trace file."""
    trace = folder / "trace.swf"
    trace.write_text(text)
    return simulation.SimulationOptions(trace)._replace(**changes)


def jobs(options: simulation.SimulationOptions, folder: Path) -> dict[str, dict[str, str]]:
    """`jobs.csv` by id."""
    simulation.run_simulation(
        options, simulation.read_input(options), folder / "out", ignore_progress
    )
    with (folder / "out" / "jobs.csv").open() as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_the_header_gives_the_processors_of_the_machine(tmp_path: Path) -> None:
    text = HEADER + line(1, 0, 100, 3) + line(2, 10, 50, 2) + line(3, 20, 30, 1)
    found = jobs(write_trace(tmp_path, text), tmp_path)
    assert [row["start_s"] for row in found.values()] == ["0", "100", "20"]
    assert {row["queue"] for row in found.values()} == {"unknown"}


def test_the_number_of_processors_can_be_overridden(tmp_path: Path) -> None:
    text = HEADER + line(1, 0, 100, 3) + line(2, 10, 50, 2)
    found = jobs(write_trace(tmp_path, text, swf_processors=5), tmp_path)
    assert found["2"]["start_s"] == "10"


def test_requested_processors_override_used_ones(tmp_path: Path) -> None:
    text = HEADER + line(1, 0, 100, 1, requested=4) + line(2, 10, 50, 1)
    assert jobs(write_trace(tmp_path, text), tmp_path)["2"]["start_s"] == "100"


def test_the_field_of_the_queue_can_be_chosen(tmp_path: Path) -> None:
    text = HEADER + line(1, 0, 1, 1, queue=3, user=8)
    assert jobs(write_trace(tmp_path, text), tmp_path)["1"]["queue"] == "queue-3"
    assert jobs(write_trace(tmp_path, text, swf_queue="user"), tmp_path)["1"]["queue"] == "user-8"


def test_failed_jobs_of_a_trace_fail_after_their_run_time(tmp_path: Path) -> None:
    found = jobs(write_trace(tmp_path, HEADER + line(1, 0, 60, 1, status=0)), tmp_path)
    assert (found["1"]["state"], found["1"]["end_s"]) == ("FAILED", "60")


def test_jobs_that_never_ran_are_skipped_and_counted(tmp_path: Path) -> None:
    text = HEADER + line(1, 0, -1, 1) + line(2, 0, 5, 0) + line(3, 0, 5, 1)
    found = simulation.read_input(write_trace(tmp_path, text))
    assert (found.trace.ids, found.notes) == (
        ["3"],
        ["2 jobs without a run in the trace left out"],
    )


def test_memory_counts_if_nodes_are_given(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text("- {name: n, count: 2, resources: {cpu: 4, memory: 1Gi}}")
    text = line(1, 0, 9, 2, memory=512 * 1024) + line(2, 0, 9, 2, memory=512 * 1024)
    found = jobs(write_trace(tmp_path, text, nodes=nodes), tmp_path)
    assert {row["start_s"] for row in found.values()} == {"0"}
    with (tmp_path / "out" / "runs.csv").open() as file:
        assert {row["node"] for row in csv.DictReader(file)} == {"n0", "n1"}


ERRORS = {
    "too few fields": ("1 2 3\n", 1, "", "has 3 fields; the format has 18"),
    "a word": (line(1, 0, 1, 1).replace("1 0 -1 1", "1 zero -1 1"), 1, "submit time", "'zero'"),
    "no number": (line(1, 0, 1, 1).replace("1 0 -1 1", "1 nan -1 1"), 1, "submit time", "'nan'"),
    "a negative submit time": (line(1, -5, 1, 1), 1, "submit time", "is -5"),
    "a number twice": (line(1, 0, 1, 1) * 2, 2, "job number", "earlier line"),
    "more than any machine": (line(1, 0, 1, 10**15), 1, "allocated processors", "any machine"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_invalid_line_is_reported_with_its_field(tmp_path: Path, name: str) -> None:
    text, at, field, reason = ERRORS[name]
    with pytest.raises(InvalidInput) as caught:
        simulation.read_input(write_trace(tmp_path, text, swf_processors=4))
    (error,) = caught.value.errors.listed
    assert (error.line, error.field) == (at, field)
    assert reason in error.reason


def test_a_trace_without_processors_needs_the_option(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--swf-processors"):
        simulation.read_input(write_trace(tmp_path, line(1, 0, 1, 1)))
