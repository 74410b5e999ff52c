"""Small simulations for tests: jobs and nodes as Python values, results as rows."""

import csv
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fairlead_scheduler.simulate import simulation
from fairlead_scheduler.simulate.output.figures import Summary

Value = Any  # a value of a YAML or JSON file
Job = Mapping[str, Value]
Row = dict[str, str]
NODES = ({"name": "n", "count": 1, "resources": {"cpu": 4, "memory": "16Gi"}},)


class Result(msgspec.Struct, frozen=True):
    """The output files of a simulation."""

    files: dict[str, bytes]
    summary: Summary

    def rows(self, name: str) -> list[Row]:
        """The rows of one of the tables."""
        return list(csv.DictReader(self.files[name].decode().splitlines()))

    @property
    def jobs(self) -> dict[str, Row]:
        """`jobs.csv` by id."""
        return {row["id"]: row for row in self.rows("jobs.csv")}

    @property
    def runs(self) -> list[Row]:
        """`runs.csv`."""
        return self.rows("runs.csv")


def job(job_id: str, **changes: Value) -> dict[str, Value]:
    """A job of one core that is submitted at 0 and runs for 10 s."""
    ordinary = {"id": job_id, "queue": "a", "submitSeconds": 0, "runSeconds": 10, "cpu": 1}
    return {**ordinary, **changes}


def group(group_id: str, *roles: Job, **changes: Value) -> dict[str, Value]:
    """A group that is submitted at 0, whose members have one core and run for 10 s."""
    ordinary = {"id": group_id, "queue": "a", "submitSeconds": 0}
    members = [{"runSeconds": 10, "cpu": 1, **role} for role in roles]
    return {**ordinary, "roles": members, **changes}


def simulate(
    jobs: Sequence[Job],
    nodes: Sequence[Mapping[str, Value]] = NODES,
    settings: Mapping[str, Value] | None = None,
    seed: int = 0,
    *,
    every_round: bool = False,
) -> Result:
    """Write the input files and simulate, as the command does. Raises `InvalidInput`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = write(folder, jobs, nodes, settings, seed)._replace(every_round=every_round)
        out = folder / "out"
        outcome = simulation.run_simulation(
            options, simulation.read_input(options), out, ignore_progress
        )
        files = {file.name: file.read_bytes() for file in out.iterdir()}
        return Result(files, outcome.summary)


def write(
    folder: Path,
    jobs: Sequence[Job],
    nodes: Sequence[Mapping[str, Value]] = NODES,
    settings: Mapping[str, Value] | None = None,
    seed: int = 0,
) -> simulation.SimulationOptions:
    """The files of a simulation."""
    (folder / "jobs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in jobs))
    (folder / "nodes.yaml").write_text(json.dumps(list(nodes)))
    (folder / "settings.yaml").write_text(json.dumps(settings or {}))
    return simulation.SimulationOptions(
        folder / "jobs.jsonl", folder / "nodes.yaml", folder / "settings.yaml", seed
    )


def ignore_progress(done: int, jobs: int, now_ms: int) -> None:
    """Ignore the progress."""


def jobs_file(options: simulation.SimulationOptions) -> Path:
    """The file with the jobs."""
    assert options.jobs is not None
    return options.jobs
