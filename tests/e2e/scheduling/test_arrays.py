"""Arrays on real processes by the public API: indexes, `maxRunning`, failures, cancellation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scheduling.installation import Installation, lines

Response = dict[str, Any]  # JSON


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where tasks write what they did."""
    return tmp_path / "lines"


def submit(machine: Installation, name: str, script: str, array: dict[str, object]) -> str:
    """Submit an array to the job set `arrays`; its id."""
    job = {
        "clientId": name,
        "command": ["/bin/sh", "-c", script],
        "cpu": "10m",
        "memory": "16Mi",
        "array": array,
    }
    body = {"queue": "default", "jobSet": "arrays", "jobs": [job]}
    (made,) = machine.ask("POST", "/jobs", body)["jobs"]
    return str(made["id"])


def see(machine: Installation, array: str, is_so: Callable[[Response], bool]) -> Response:
    """The array as lookout shows it, once it is so."""

    def read() -> Response:
        response: Response = machine.ask("GET", f"/arrays/{array}?wait=5s")
        return response

    machine.standalone.wait_for(lambda: is_so(read()))
    return read()


def test_each_task_has_its_index_and_the_array_ends(machine: Installation, file: Path) -> None:
    work = f"echo $FAIRLEAD_ARRAY_INDEX of $FAIRLEAD_ARRAY_COUNT >> {file}"
    array = submit(machine, "indexes", f"{work}; test $FAIRLEAD_ARRAY_INDEX != 6", {
        "count": 10, "indexes": "0-9:3",
    })  # fmt: skip
    found = see(machine, array, lambda each: "ended" in each)
    assert found["states"] == {"SUCCEEDED": 3, "FAILED": 1}
    assert sorted(lines(file)) == ["0 of 10", "3 of 10", "6 of 10", "9 of 10"]
    again = machine.ask("POST", f"/arrays/{array}/resubmit", {"indexes": "6,9"})
    found = see(machine, again["id"], lambda each: "ended" in each)
    assert found["states"] == {"SUCCEEDED": 1, "FAILED": 1}


def test_no_more_tasks_run_than_max_running_and_the_rest_is_cancelled(
    machine: Installation, file: Path
) -> None:
    work = f"echo $FAIRLEAD_ARRAY_INDEX >> {file}; while :; do sleep 0.05; done"
    array = submit(machine, "bounded", work, {"count": 100_000, "maxRunning": 2})
    machine.standalone.wait_for(lambda: len(lines(file)) == 2)
    found = see(machine, array, lambda each: bool(each["states"].get("RUNNING") == 2))
    assert found["why"]["code"] == "max-running"
    assert found["waiting"] == 99_998
    machine.ask("POST", f"/arrays/{array}/cancel", {"indexes": "0,5-99999"})
    machine.standalone.wait_for(lambda: len(lines(file)) == 3)
    assert sorted(lines(file)) == ["0", "1", "2"]
    machine.ask("POST", f"/arrays/{array}/cancel", {"reason": "enough"})
    found = see(machine, array, lambda each: "ended" in each)
    assert found["states"] == {"CANCELLED": 100_000}


def test_an_array_goes_on_with_another_scheduler(machine: Installation, file: Path) -> None:
    work = f"echo $FAIRLEAD_ARRAY_INDEX >> {file}; sleep 0.2"
    array = submit(machine, "restarted", work, {"count": 12, "maxRunning": 2})
    machine.standalone.wait_for(lambda: len(lines(file)) >= 3)
    machine.standalone.child("scheduler").kill()
    found = see(machine, array, lambda each: "ended" in each)
    assert found["states"] == {"SUCCEEDED": 12}
    assert sorted(map(int, lines(file))) == list(range(12))


def test_each_task_follows_the_task_of_another_array_with_its_index(
    machine: Installation, file: Path
) -> None:
    index = "$FAIRLEAD_ARRAY_INDEX"
    first = submit(machine, "first", f"echo a{index} >> {file}; test {index} != 1", {"count": 3})
    after: dict[str, object] = {"count": 3, "afterCorresponding": "first"}
    second = submit(machine, "second", f"grep -q a{index} {file} && echo b{index} >> {file}", after)
    found = see(machine, second, lambda each: "ended" in each)
    assert found["states"] == {"SUCCEEDED": 2, "CANCELLED": 1}
    assert found["afterCorresponding"] == first
    assert sorted(lines(file)) == ["a0", "a1", "a2", "b0", "b2"]
