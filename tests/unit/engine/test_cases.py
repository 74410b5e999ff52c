"""The worked cases of the rules, and the command that runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead_scheduler.cases import case_file, case_runner
from fairlead_scheduler.cases.case_file import Case

FOLDER = Path(__file__).parents[2] / "cases"
CASES = {
    f"{path.relative_to(FOLDER).with_suffix('')}: {case.name}": case
    for path in sorted(FOLDER.rglob("*.yaml"))
    for case in case_file.read_cases(path)
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_worked_case_comes_out_as_written(case: Case) -> None:
    assert case_runner.run_case(case)[1] == []


def written(folder: Path, text: str) -> str:
    """A file with this text."""
    path = folder / "case.yaml"
    path.write_text(text)
    return str(path)


NODE = "nodes: [{name: n, resources: {cpu: 2, memory: 4Gi}}]"


def test_a_failed_case_prints_expected_and_actual_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path,
        f"- {{name: both start, {NODE}, rounds: [{{submit: [{{id: a, queue: A, count: 3, cpu: 1}}],"
        " expect: {scheduled: [a0-2]}}]}",
    )
    assert case_runner.main([path]) == 1
    assert capsys.readouterr().out == (
        "FAIL case.yaml: both start\n"
        "     round 0: scheduled: expected ['a0', 'a1', 'a2'], got ['a0', 'a1']\n"
        "0 passed, 1 failed\n"
    )


def test_json_prints_the_decisions_of_each_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path,
        f"- {{name: one waits, {NODE}, rounds: [{{submit: [{{id: a, queue: A, count: 2, cpu: 2}}]"
        "}, {submit: [{id: b, queue: A, cpu: 1, priorityClass: p1}]}]}",
    )
    assert case_runner.main(["--json", path]) == 0
    first, second = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    del first["ms"], second["ms"]
    assert first.pop("sentences")["a1"].startswith("All 2 CPUs of pool default are in use")
    assert second.pop("sentences").keys() == {"a1"}
    shares = {"weight": 1.0, "fair": 1.0, "uncapped": 1.0, "actual": 0.0, "demand": 2.0}
    assert first == {
        "case": "one waits",
        "round": 0,
        "placed": {"a0": "n0"},
        "preempted": {},
        "waiting": {"a1": "insufficient-resources"},
        "rejected": {},
        "failed": {},
        "shares": {"A": shares},
    }
    assert second["placed"] == {"b0": "n0"}
    assert second["preempted"] == {"a0": {"cause": "urgency", "for": "b0"}}


def test_json_lists_only_queued_jobs_as_waiting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of the snapshot that jobs have left bear the names of others, or none."""
    path = written(
        tmp_path,
        f"- {{name: one waits, {NODE}, rounds: [{{submit: [{{id: a, queue: A, count: 4, cpu: 1}},"
        " {id: b, queue: A, cpu: 3}]}, {finish: [a0]}]}",
    )
    assert case_runner.main(["--json", path]) == 0
    first, second = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first["rejected"] == {"b0": "infeasible"}
    assert first["waiting"].keys() == {"a2", "a3"}
    assert second["placed"] == {"a2": "n0"}
    assert second["waiting"] == {"a3": "insufficient-resources"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"- {{name: x, {NODE}, rounds: [], colour: red}}", "unknown field `colour`"),
        (f"- {{name: x, {NODE}, rounds: [{{expect: {{shedule: []}}}}]}}", "`shedule`"),
        (
            f"- {{name: x, {NODE}, rounds: [{{submit: [{{id: a, queue: A, gpus: 1}}]}}]}}",
            "$[0].rounds[0].submit[0]",
        ),
        (
            f"- {{name: x, {NODE}, rounds: [{{expect: {{shares: {{A: {{fare: 1}}}}}}}}]}}",
            "unknown field `fare`",
        ),
        (f"- {{name: x, {NODE}, settings: {{rates: 1}}, rounds: []}}", "unknown field `rates`"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_its_place(
    tmp_path: Path, text: str, place: str
) -> None:
    with pytest.raises(SystemExit, match=r"case\.yaml: .*") as stopped:
        case_runner.main([written(tmp_path, text)])
    assert place in str(stopped.value)


def test_a_case_with_an_unknown_job_fails_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, f"- {{name: x, {NODE}, rounds: [{{finish: [a0]}}]}}")
    assert case_runner.main([path]) == 1
    assert "there is no job 'a0', or it has ended" in capsys.readouterr().out


def test_the_command_ends_quietly_when_nobody_reads_on() -> None:
    command_line = [sys.executable, "-m", "fairlead_scheduler.cases", "--json"]
    files = [str(path) for path in sorted(FOLDER.glob("*.yaml"))]
    with subprocess.Popen(
        [*command_line, *files], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 1
