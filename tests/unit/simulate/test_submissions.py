"""A simulation of a file that `fairlead submit` reads."""

from pathlib import Path

import pytest

from fairlead_scheduler.simulate import command, faults
from tests.unit.simulate.builders import nothing

JOBS = """
queue: default
jobSet: s
defaults: {cpu: 1, memory: 1Gi}
jobs:
  - {clientId: a, command: [echo], retry: {limit: 2}}
  - {clientId: b, command: [echo], after: [a], cpu: 2}
  - {command: [echo], gang: {name: g, size: 2}, hold: true}
  - {command: [echo], gang: {name: g, size: 2}, labels: {team: x}}
"""


def order(folder: Path, text: str, run_s: float | None = 60.0) -> command.Order:
    (folder / "jobs.yaml").write_text(text)
    (folder / "nodes.yaml").write_text("- {name: n, count: 1, resources: {cpu: 4, memory: 16Gi}}")
    return command.Order(folder / "jobs.yaml", folder / "nodes.yaml", run_s=run_s)


def test_jobs_of_a_submission_run_in_virtual_time(tmp_path: Path) -> None:
    wanted = order(tmp_path, JOBS)
    given = command.read(wanted)
    assert given.trace.ids == ["a", "b", "job-2", "job-3"]
    summary = command.run(wanted, given, None, nothing).summary
    assert summary.jobs == 4


@pytest.mark.parametrize(
    ("text", "run_s", "said"),
    [
        (JOBS, None, "--run-seconds"),
        ("[1, 2]", 1.0, "is no submission"),
        ("{jobs: [{podSpec: {}}]}", 1.0, "podSpec"),
        ("{jobs: [{command: [a], cpu: -1}]}", 1.0, "cpu"),
        ("{jobs: [{command: [a], priority: high}]}", 1.0, "priority"),
    ],
)
def test_what_cannot_be_simulated_is_named(
    tmp_path: Path, text: str, run_s: float | None, said: str
) -> None:
    with pytest.raises(faults.BadInput, match=said):
        command.read(order(tmp_path, text, run_s))
