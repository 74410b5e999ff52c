"""The elastic training of the examples: it grows, shrinks, loses a trainer, and learns the same."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fairlead.cli.output import yaml_text
from tests.e2e.scheduling.installation import Installation

EXAMPLE = Path(__file__).parents[3] / "examples" / "elastic"
TOLERANCE = 1e-9
"""Of the loss, which does not depend on the number of trainers."""

Response = dict[str, Any]  # `Any`: JSON


def run_python(*words: str) -> str:
    """What a script of the example prints."""
    script, *arguments = words
    command = [sys.executable, str(EXAMPLE / script), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def loss_alone() -> float:
    """The loss of a run without Fairlead."""
    return float(run_python("train.py", "alone").split()[1])


class Training:
    """A training that was submitted, and what becomes of its group."""

    def __init__(self, machine: Installation, group: str) -> None:
        self.machine = machine
        self.group = group

    def read(self, wait_s: int = 5) -> Response:
        found: Response = self.machine.ask("GET", f"/groups/{self.group}?wait={wait_s}s")
        return found

    def until(self, is_so: Callable[[Response], bool]) -> Response:
        self.machine.standalone.wait_for(lambda: is_so(self.read()))
        return self.read()

    def until_trainers(self, is_so: Callable[[int], bool]) -> None:
        self.until(lambda found: is_so(count_trainers(found)))

    def list_starts(self, role: str) -> list[str]:
        """When the members of a role started, the first one first."""
        members = self.read()["members"]
        return sorted(member["started"] for member in members if member["role"] == role)

    def log_of(self, role: str, index: int = 0) -> str:
        """What the newest job of a member has printed."""
        jobs = [
            member["id"]
            for member in self.read()["members"]
            if (member["role"], member["index"]) == (role, index)
        ]
        headers = {"authorization": f"Bearer {self.machine.standalone.token}"}
        url = f"{self.machine.standalone.address}/api/v1/jobs/{jobs[-1]}/logs"
        return httpx2.get(url, headers=headers).text

    def kill_trainer(self, index: int) -> None:
        """As the machine's out-of-memory killer would; another process takes its place."""
        pattern = re.compile(rf"trainer {index} is process (\d+)")

        def find() -> list[str]:
            return pattern.findall(self.log_of("trainer", index))

        self.machine.standalone.wait_for(lambda: bool(find()))
        killed = find()[-1]
        os.kill(int(killed), signal.SIGKILL)
        self.machine.standalone.wait_for(lambda: find()[-1:] not in ([], [killed]))

    def loss(self, role: str) -> float:
        """The loss at which the training ended."""
        self.until(lambda found: bool(found["state"] == "SUCCEEDED"))
        (text,) = re.findall(r"^loss (\S+)$", self.log_of(role), re.MULTILINE)
        return float(text)


def find_trainers(found: Response) -> Response:
    trainers: list[Response] = [role for role in found["roles"] if role["name"] == "trainer"]
    return trainers[0]


def count_trainers(found: Response) -> int:
    return int(find_trainers(found)["running"])


def submit(machine: Installation, kind: str, path: str, until: Path) -> Training:
    """Submit the example as the command line would."""
    text = run_python("elastic.py", kind, "--until", str(until))
    documents: list[Any] = yaml_text.read_documents(text.encode())
    body = documents[0] if path == "/groups" else {"manifests": documents}
    (made,) = machine.ask("POST", path, body)["groups"]
    return Training(machine, made["id"])


def test_a_group_grows_shrinks_for_another_queue_and_survives_the_loss_of_a_trainer(
    machine: Installation, tmp_path: Path, loss_alone: float
) -> None:
    enough = tmp_path / "enough"
    training = submit(machine, "group", "/groups", enough)
    training.until_trainers(lambda count: count == 6)
    started = {role: training.list_starts(role) for role in ("server", "trainer")}
    assert started["server"] < started["trainer"], "C4: trainers start when the server runs"
    machine.ask("POST", "/queues", {"name": "other"})
    sleep = {"command": ["sleep", "3600"], "cpu": "250m", "memory": "16Mi"}
    machine.submit("other", "asks", *({"clientId": f"s{n}", **sleep} for n in range(8)))
    training.until_trainers(lambda count: 2 <= count <= 3)
    found = training.read()
    assert (found["state"], found["restarts"]) == ("RUNNING", 0)
    last = find_trainers(found)["lastScaling"]
    assert (last["change"], last["by"]) == ("stopped", "scheduler")
    assert "fair share" in last["reason"]
    training.until(lambda found: "the group runs with" in found.get("why", {}).get("sentence", ""))
    machine.ask("POST", "/jobs/cancel", {"filter": {"queue": "other", "jobSet": "asks"}})
    training.until_trainers(lambda count: count == 6)
    training.kill_trainer(0)
    assert training.read()["restarts"] == 1
    enough.touch()
    assert training.loss("server") == pytest.approx(loss_alone, rel=TOLERANCE)
    log = training.log_of("server")
    assert "6 trainers" in log
    assert training.read()["startup"] == ["server", "trainer"]


def test_a_training_job_grows_and_reaches_the_same_loss(
    machine: Installation, tmp_path: Path, loss_alone: float
) -> None:
    enough = tmp_path / "enough"
    training = submit(machine, "training-job", "/manifests", enough)
    training.until_trainers(lambda count: count == 6)
    training.kill_trainer(5)
    machine.standalone.wait_for(lambda: "6 trainers run" in training.log_of("master"))
    enough.touch()
    assert training.loss("pserver") == pytest.approx(loss_alone, rel=TOLERANCE)
    assert training.read()["roles"][0]["name"] == "master"
