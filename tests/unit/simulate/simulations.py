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

Value = Any  # whatever stands in a YAML or JSON file
Job = Mapping[str, Value]
Row = dict[str, str]
NODES = ({"name": "n", "count": 1, "resources": {"cpu": 4, "memory": "16Gi"}},)


class Result(msgspec.Struct, frozen=True):
    """What a simulation wrote."""

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


def simulate(
    jobs: Sequence[Job],
    nodes: Sequence[Mapping[str, Value]] = NODES,
    settings: Mapping[str, Value] | None = None,
    seed: int = 0,
) -> Result:
    """Simulate by way of files, as the command does. Raises `BadInput`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        order = write(folder, jobs, nodes, settings, seed)
        out = folder / "out"
        outcome = simulation.run(order, simulation.read(order), out, nothing)
        files = {file.name: file.read_bytes() for file in out.iterdir()}
        return Result(files, outcome.summary)


def write(
    folder: Path,
    jobs: Sequence[Job],
    nodes: Sequence[Mapping[str, Value]] = NODES,
    settings: Mapping[str, Value] | None = None,
    seed: int = 0,
) -> simulation.Order:
    """The files of a simulation."""
    (folder / "jobs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in jobs))
    (folder / "nodes.yaml").write_text(json.dumps(list(nodes)))
    (folder / "settings.yaml").write_text(json.dumps(settings or {}))
    return simulation.Order(
        folder / "jobs.jsonl", folder / "nodes.yaml", folder / "settings.yaml", seed
    )


def nothing(done: int, jobs: int, now_ms: int) -> None:
    """Nobody watches."""


def file_of(order: simulation.Order) -> Path:
    """The file with the jobs."""
    assert order.jobs is not None
    return order.jobs
