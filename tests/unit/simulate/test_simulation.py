"""The command: exit codes, output, and files after an interruption."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fairlead_scheduler.simulate import commands, simulation
from fairlead_scheduler.simulate.output import progress_bar
from tests.unit.simulate.simulations import ignore_progress, job, write

PROGRAM = """
import typer
from fairlead_scheduler.simulate import commands
app = typer.Typer()
commands.register(app)
app()
"""


def app() -> typer.Typer:
    """The command as it is added to `fairlead`."""
    made = typer.Typer(pretty_exceptions_enable=False)
    made.callback()(empty_callback)
    commands.register(made)
    return made


def empty_callback() -> None:
    """Do nothing; with a callback a single command keeps its name."""


def run(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    result = CliRunner().invoke(app(), ["simulate", *arguments])
    return result.exit_code, result.stdout, result.stderr


def files(folder: Path) -> list[str]:
    """Options that name the files of `write`."""
    names = {"--jobs": "jobs.jsonl", "--nodes": "nodes.yaml"}
    return [word for option, name in names.items() for word in (option, str(folder / name))]


def test_the_command_prints_the_figures(tmp_path: Path) -> None:
    write(tmp_path, [job("a"), job("b", cpu=99)])
    code, printed, _ = run(files(tmp_path))
    assert code == 0
    assert printed == (
        "2 jobs in 10 s: 1 succeeded, 1 rejected\n"
        "utilisation  cpu 25.0 %, memory 0.0 %\n"
        "wait         mean 0 s, p50 0 s, p95 0 s, max 0 s\n"
        "slowdown     1.00 on average\n"
        "preemptions  none\n"
        "rounds       1\n"
        "\n"
        "queue  jobs  mean wait  p95 wait  max wait  slowdown  preempted  lost\n"
        "a         2        0 s       0 s       0 s      1.00          0   0 s\n"
        "\n"
        "1 job (b) of queue a refused: infeasible: The job can never run in pool default: it needs"
        " 99 CPUs on one node, and the largest node that matches has 4; of 1 node, 1 is too small."
        " Request less, or ask an operator for larger nodes.\n"
    )


def test_the_json_output_equals_the_summary_file(tmp_path: Path) -> None:
    write(tmp_path, [job("a")])
    out = tmp_path / "deep" / "out"
    code, printed, _ = run([*files(tmp_path), "--json", "--out", str(out)])
    assert code == 0
    assert printed == (out / "summary.json").read_text()
    assert json.loads(printed)["utilisation"] == {"cpu": 0.25, "memory": 0.0}
    assert sorted(file.name for file in out.iterdir()) == [
        "jobs.csv",
        "queues.csv",
        "report.html",
        "runs.csv",
        "summary.json",
        "timing.json",
    ]
    assert json.loads((out / "timing.json").read_text())["simulateS"] >= 0


def test_invalid_input_exits_with_2_and_lists_all_errors(tmp_path: Path) -> None:
    write(tmp_path, [job("a", cpu="x"), job("b", colour=1)])
    code, printed, errors = run(files(tmp_path))
    assert (code, printed) == (2, "")
    first, second = errors.splitlines()
    assert first.startswith(f"{tmp_path}/jobs.jsonl:1: cpu: 'x' is not a quantity")
    assert second.startswith(f"{tmp_path}/jobs.jsonl:2: colour: there is no such field")


def test_an_out_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    write(tmp_path, [job("a")])
    in_the_way = tmp_path / "jobs.jsonl"
    code, _, errors = run([*files(tmp_path), "--out", str(in_the_way / "out")])
    assert code == 2
    assert errors.startswith("--out: ")


def test_an_interrupted_simulation_leaves_no_files(tmp_path: Path) -> None:
    options = write(tmp_path, [job(f"a{n}") for n in range(9)])
    out = tmp_path / "out"

    def stop(done: int, jobs: int, now_ms: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulation.run_simulation(options, simulation.read_input(options), out, stop)
    assert not list(out.iterdir())


def test_existing_files_are_replaced_only_by_complete_files(tmp_path: Path) -> None:
    options = write(tmp_path, [job("a")])
    out = tmp_path / "out"
    simulation.run_simulation(options, simulation.read_input(options), out, ignore_progress)
    before = {file.name: file.read_bytes() for file in out.iterdir()}

    def stop(done: int, jobs: int, now_ms: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulation.run_simulation(options, simulation.read_input(options), out, stop)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_the_output_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    queues = ["blue", "green", "red"]
    jobs = [
        job(
            f"j{n}",
            queue=queues[n % 3],
            submitSeconds=n % 7,
            runSeconds={"min": 1, "meanTail": 20},
            failAfterSeconds={"probability": 0.3},
            retry={"limit": 1},
            resources={"licences": 1, "nvidia.com/gpu": n % 2},
        )
        for n in range(40)
    ]
    nodes = [{"name": "n", "count": 3, "resources": {"cpu": 4, "gpu": 2, "licences": 3}}]
    write(tmp_path, jobs, nodes)
    written = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed, "FAIRLEAD_KERNELS": "python"}
        words = [sys.executable, "-c", PROGRAM, *files(tmp_path), "--out", str(out)]
        subprocess.run(words, env=environment, check=True, capture_output=True)
        written.append({f.name: f.read_bytes() for f in out.iterdir() if f.name != "timing.json"})
    assert written[0] == written[1]


class Screen:
    """A terminal or a file that records its text."""

    def __init__(self, terminal: bool) -> None:
        self.text, self._terminal = "", terminal

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._terminal

    def write(self, text: str) -> int:
        """Record the text."""
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_simulation_shows_a_progress_bar_only_on_a_terminal(terminal: bool) -> None:
    screen = Screen(terminal)
    now_s = [0.0]
    bar = progress_bar.Bar(screen, lambda: now_s[0])
    for step in range(progress_bar.STEPS_PER_READING):
        bar(step, 200, 60_000)
    assert screen.text == "", "it has not taken long yet"
    now_s[0] = 30.0
    for _ in range(progress_bar.STEPS_PER_READING):
        bar(50, 200, 3_600_000)
    assert ("25 %  50 of 200 jobs, 1 h simulated, about 1 min 30 s left" in screen.text) == terminal
    bar.close()
    assert screen.text.endswith("\r\x1b[K") == terminal


def test_reading_the_input_does_not_import_the_engine() -> None:
    """The kernels are chosen after the input is read, and before numba is imported."""
    code = "import sys, fairlead_scheduler.simulate.simulation; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
