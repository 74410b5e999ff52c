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


def submit(
    machine: Installation,
    name: str,
    script: str,
    array: dict[str, object] | None,
    after: tuple[object, ...] = (),
) -> str:
    """Submit an array to the job set `arrays`, or without `array` a job; its id."""
    job = {
        "clientId": name,
        "command": ["/bin/sh", "-c", script],
        "cpu": "10m",
        "memory": "16Mi",
        "array": array,
        "after": after,
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


def test_jobs_and_arrays_wait_for_whole_arrays(machine: Installation, file: Path) -> None:
    """Also while another scheduler takes over. What waits for an array that failed is cancelled."""
    index = "$FAIRLEAD_ARRAY_INDEX"
    work = f"sleep 0.2; echo a{index} >> {file}"
    submit(machine, "part", work, {"count": 4, "maxRunning": 2})
    merge = submit(machine, "merge", f"echo merge >> {file}", None, ({"array": "part"},))
    after = ({"array": "part"}, "merge")
    more = submit(machine, "more", f"echo b{index} >> {file}; exit {index}", {"count": 2}, after)
    lost = submit(machine, "lost", f"echo lost >> {file}", None, ({"array": "more"},))
    why = machine.ask("GET", f"/jobs/{merge}?wait=5s")["why"]
    assert (why["code"], list(why["clientIds"].values())) == ("dependencies", ["part"])
    machine.standalone.wait_for(lambda: len(lines(file)) >= 1)
    machine.standalone.child("scheduler").kill()
    found = see(machine, more, lambda each: "ended" in each)
    assert found["states"] == {"SUCCEEDED": 1, "FAILED": 1}
    written = lines(file)
    assert sorted(written[:4]) == ["a0", "a1", "a2", "a3"]
    assert written[4] == "merge"
    assert sorted(written[5:]) == ["b0", "b1"]

    def has_ended() -> bool:
        return bool(machine.ask("GET", f"/jobs/{lost}?wait=5s")["state"] == "CANCELLED")

    machine.standalone.wait_for(has_ended)
    reason = machine.ask("GET", f"/jobs/{lost}")["reason"]
    assert reason == "array more, which it waits for, cannot succeed: its task 1 ended FAILED"
