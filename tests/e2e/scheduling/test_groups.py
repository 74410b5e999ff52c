"""Groups on real processes by the public API: success, failures, scaling, cancellation."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fairlead_common.domain.records import events as ev
from tests.e2e.scheduling.installation import Installation, lines

Response = dict[str, Any]  # JSON


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where members write what they did."""
    return tmp_path / "lines"


def role(name: str, script: str, least: int, most: int | None = None) -> dict[str, object]:
    """A role whose members run a script."""
    template = {"command": ["/bin/sh", "-c", script], "cpu": "100m", "memory": "16Mi"}
    most = least if most is None else most
    return {"name": name, "min": least, "max": most, "template": template}


def submit(machine: Installation, name: str, *roles: dict[str, object], **fields: object) -> str:
    """Submit a group to the job set `groups`; its id."""
    group = {"clientId": name, "roles": list(roles), **fields}
    body = {"queue": "default", "jobSet": "groups", "groups": [group]}
    (made,) = machine.ask("POST", "/groups", body)["groups"]
    machine.ids |= {member["clientId"]: member["id"] for member in made["members"]}
    return str(made["id"])


def see(machine: Installation, group: str, is_so: Callable[[Response], bool]) -> Response:
    """The group as lookout shows it, once it is so."""

    def read() -> Response:
        response: Response = machine.ask("GET", f"/groups/{group}?wait=5s")
        return response

    machine.standalone.wait_for(lambda: is_so(read()))
    return read()


def is_in(state: str) -> Callable[[Response], bool]:
    return lambda found: bool(found["state"] == state)


def states(found: Response) -> dict[str, str]:
    """The states of the members by their names; of several of an index the last."""
    return {f"{each['role']}-{each['index']}": each["state"] for each in found["members"]}


def forever(file: Path) -> str:
    """Runs until it is stopped. `$$` is `$` in a command, as in Kubernetes."""
    who = "$FAIRLEAD_ROLE-$FAIRLEAD_ROLE_INDEX"
    return f"""
        trap 'echo stopped {who} >> {file}; exit 0' TERM
        echo {who} $$$$ $FAIRLEAD_RUN >> {file}
        while :; do sleep 0.05; done
    """


def process(file: Path, member: str) -> int:
    """The process of the newest run of a member."""
    found = [line.split() for line in lines(file) if line.startswith(f"{member} ")]
    return int(found[-1][1])


def test_a_group_succeeds_with_its_workers_and_its_server_is_stopped(
    machine: Installation, file: Path
) -> None:
    variables = " ".join(
        f"${name}"
        for name in (
            "FAIRLEAD_GROUP",
            "FAIRLEAD_ROLE",
            "FAIRLEAD_ROLE_INDEX",
            "FAIRLEAD_ROLE_MIN",
            "FAIRLEAD_ROLE_MAX",
            "FAIRLEAD_GROUP_SIZE",
        )
    )
    work = f"""
        echo {variables} >> {file}
        until grep -q "^ps-0" {file}; do sleep 0.05; done
    """
    group = submit(
        machine,
        "trains",
        role("ps", forever(file), 1),
        role("worker", work, 2),
        completion={"roles": ["worker"]},
    )
    found = see(machine, group, is_in("SUCCEEDED"))
    found = see(machine, group, lambda each: set(states(each).values()) == {"SUCCEEDED"})
    assert {"trains worker 0 2 2 3", "trains worker 1 2 2 3", "stopped ps-0"} <= set(lines(file))
    (server,) = [each for each in found["members"] if each["role"] == "ps"]
    assert server["reason"] == "stopped: the group has completed"
    assert (found["lastChange"], found["restarts"]) == ("groupSucceeded", 0)
    again = submit(
        machine,
        "trains",
        role("ps", forever(file), 1),
        role("worker", work, 2),
        completion={"roles": ["worker"]},
    )
    assert again == group


def test_a_killed_worker_restarts_alone_and_a_killed_server_restarts_the_group(
    machine: Installation, file: Path
) -> None:
    group = submit(
        machine, "restarts", role("ps", forever(file), 1), role("worker", forever(file), 1, 2)
    )
    see(machine, group, lambda each: set(states(each).values()) == {"RUNNING"})
    machine.standalone.wait_for(lambda: len(lines(file)) >= 3)
    os.kill(process(file, "worker-1"), signal.SIGKILL)
    again = machine.first("restarts/worker-1", ev.JobRequeued)
    assert again.restarts_of == group
    machine.standalone.wait_for(
        lambda: any(line.startswith("worker-1 ") and line.endswith(" 2") for line in lines(file))
    )
    assert not [line for line in lines(file) if line.startswith("stopped")]
    os.kill(process(file, "ps-0"), signal.SIGKILL)
    machine.standalone.wait_for(
        lambda: any(line.startswith("ps-0 ") and line.endswith(" 2") for line in lines(file))
    )
    found = see(machine, group, is_in("RUNNING"))
    assert found["restarts"] == 2
    assert {"stopped worker-0", "stopped worker-1"} <= set(lines(file))
    machine.ask("DELETE", f"/groups/{group}?reason=enough")
    found = see(machine, group, is_in("CANCELLED"))
    assert found["reason"] == "enough"
    assert set(states(found).values()) == {"CANCELLED"}


def test_a_group_fails_with_a_member_if_it_says_so(machine: Installation, file: Path) -> None:
    group = submit(
        machine,
        "fails",
        role("ps", forever(file), 1),
        role("worker", f"until grep -q ^ps-0 {file}; do sleep 0.05; done; exit 3", 1),
        onMemberFailure="fail",
    )
    found = see(machine, group, is_in("FAILED"))
    assert "member worker-0 failed (exit-code)" in found["reason"]
    found = see(machine, group, lambda each: states(each)["ps-0"] == "CANCELLED")
    assert states(found)["worker-0"] == "FAILED"


def test_a_group_is_scaled_up_and_down_and_restarted(machine: Installation, file: Path) -> None:
    group = submit(machine, "scales", role("worker", forever(file), 1, 2))
    see(machine, group, lambda each: set(states(each).values()) == {"RUNNING"})
    made = machine.ask("PATCH", f"/groups/{group}", {"roles": [{"name": "worker", "max": 3}]})
    assert made["submitted"] == 1
    found = see(machine, group, lambda each: states(each).get("worker-2") == "RUNNING")
    assert found["roles"][0]["max"] == 3
    machine.ask("PATCH", f"/groups/{group}", {"roles": [{"name": "worker", "max": 1}]})
    found = see(machine, group, lambda each: each["roles"][0]["stopped"] == 2)
    assert states(found)["worker-0"] == "RUNNING"
    machine.ask("PATCH", f"/groups/{group}", {"roles": [{"name": "worker", "max": 2}]})
    found = see(machine, group, lambda each: states(each)["worker-1"] == "RUNNING")
    assert (len(found["members"]), found["earlierMembers"]) == (3, 1)
    machine.ask("POST", f"/groups/{group}/restart", {"reason": "new data"})
    machine.standalone.wait_for(
        lambda: any(line.startswith("worker-0 ") and line.endswith(" 2") for line in lines(file))
    )
    machine.ask("DELETE", f"/groups/{group}")
    see(machine, group, is_in("CANCELLED"))
    headers = {"authorization": f"Bearer {machine.standalone.token}"}
    url = f"{machine.standalone.address}/api/v1/groups/{group}"
    refused = httpx2.patch(url, json={"roles": [{"name": "worker", "max": 3}]}, headers=headers)
    assert refused.status_code == 409
    assert "has ended (CANCELLED)" in refused.json()["detail"]
