"""Commands about arrays, and about tasks that are no jobs yet."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead import cli
from tests.unit.client import fake_server
from tests.unit.client.fake_server import Server

ARRAY = "0101m8ax1sp14yk26s088xp00000"
TASK = "0101m8ax1sp14yk26s088xp00005"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    with fake_server.serve({}) as running:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "FAIRLEAD_DATA"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("FAIRLEAD_SERVER", running.url)
        monkeypatch.setenv("FAIRLEAD_TOKEN", "fl_t")
        yield running


def test_an_array_gets_another_priority(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    matched = [50, 0]
    server.routes["POST /api/v1/jobs/reprioritize"] = lambda _: {
        "position": "p",
        "matched": matched.pop(0),
    }
    command = ["array", "reprioritize", ARRAY, "--priority", "7", "--reason", "urgent"]
    assert cli.invoke(command) == 0
    assert server.asked[-1].json() == {"ids": [ARRAY], "priority": 7, "reason": "urgent"}
    assert capsys.readouterr().out == f"priority 7 of array {ARRAY} requested\n"
    assert cli.invoke(command) == 0
    assert capsys.readouterr().err == f"fairlead: nothing to change: array {ARRAY} has ended\n"


def test_a_preemption_of_a_task_that_waits_says_that_it_does_not_run(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/jobs/preempt"] = lambda _: {"position": "p", "matched": 0}
    assert cli.invoke(["preempt", TASK]) == 0
    assert capsys.readouterr().err == "fairlead: nothing to preempt: the job does not run\n"
    assert cli.invoke(["preempt", TASK, ARRAY]) == 0
    assert "none of these jobs runs" in capsys.readouterr().err
