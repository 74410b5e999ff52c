"""Commands about arrays, and about tasks that are no jobs yet."""

import json
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


def test_a_dry_run_counts_the_tasks(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = {"id": ARRAY, "clientId": "one", "duplicate": False, "tasks": 10, "feasible": True}
    server.routes["POST /api/v1/jobs"] = lambda _: {"position": None, "jobs": [checked]}
    path = tmp_path / "one.yaml"
    path.write_text("{queue: q, jobSet: s, jobs: [{clientId: one, image: x}]}")
    assert cli.invoke(["submit", str(path), "--array", "0-9", "--dry-run"]) == 0
    said = "1 array of 10 tasks for q/s can be submitted; nothing was created\n"
    assert capsys.readouterr().out == said


def make_task(index: int, state: str, **fields: object) -> dict[str, object]:
    """A task as the server lists it."""
    job = {
        "id": f"{ARRAY[:-1]}{index + 1}", "queue": "q", "jobSet": "s", "state": state,
        "priority": 0, "priorityClass": "default", "pool": "default",
        "submitted": "2026-01-01T00:00:00Z", "changed": "2026-01-01T00:00:00Z",
        "index": index, "released": True,
    }  # fmt: skip
    return job | fields


def test_the_tasks_of_an_array_are_listed_by_index(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [
        make_task(0, "RUNNING", node="n0", cluster="c"),
        make_task(1, "FAILED", node="n1", exitCode=3, reason="exit code 3"),
        make_task(2, "QUEUED", waitingFor="scheduling"),
        make_task(3, "QUEUED", waitingFor="scheduling", released=False),
    ]
    server.routes["GET /api/v1/arrays"] = lambda _: {"arrays": [{
        "id": ARRAY, "queue": "q", "jobSet": "s", "clientId": "scan", "count": 4, "indexes": "0-3",
        "tasks": 4, "waiting": 1, "live": 3, "states": {}, "priority": 0, "pool": "default",
        "priorityClass": "default", "submitted": "2026-01-01T00:00:00Z", "submittedBy": "anna",
    }]}  # fmt: skip
    server.routes[f"GET /api/v1/arrays/{ARRAY}/tasks"] = lambda _: {"tasks": tasks}
    assert cli.invoke(["get", "tasks", "q/s/scan"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["INDEX", "ID", "STATE", "NODE", "EXIT", "REASON"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2", "3"]
    assert rows[1][2:] == ["RUNNING", "n0"]
    assert rows[2][2:] == ["FAILED", "n1", "3", "exit", "code", "3"]
    assert rows[3][2:] == ["QUEUED", "scheduling"]
    assert rows[4][2:] == ["QUEUED", "not", "released"]
    assert cli.invoke(["get", "tasks", ARRAY, "--state", "failed", "-o", "name"]) == 0
    assert server.asked[-1].query["state"] == "FAILED"
    assert capsys.readouterr().out.splitlines() == [str(task["id"]) for task in tasks]
    assert cli.invoke(["get", "tasks", ARRAY, "-o", "json", "--limit", "2"]) == 0
    printed = capsys.readouterr()
    assert [each["index"] for each in json.loads(printed.out)] == [0, 1]
    assert "the first 2; more with --limit" in printed.err
