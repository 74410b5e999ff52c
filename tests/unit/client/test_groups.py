"""Groups from Python and on the command line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead import Client, Completion, GroupRole, GroupSpec, Job, cli
from tests.unit.client.fake_server import Reply, Server

ID = "0mzzv6xczd7fvszyb3cq9w227ffq"
FILE = """
queue: q
jobSet: s
groups:
  - clientId: fit
    roles:
      - {name: worker, min: 1, max: 2, template: {command: ["true"], image: x}}
"""
ROLE = {
    "name": "worker", "min": 1, "max": 2, "queued": 0, "pending": 0, "running": 1,
    "succeeded": 0, "failed": 0, "stopped": 1,
    "lastScaling": {
        "time": "2026-01-01T00:00:00Z", "change": "stopped", "members": 1, "by": "scheduler",
        "reason": "taken",
    },
}  # fmt: skip
GROUP: dict[str, Any] = {
    "id": ID, "queue": "q", "jobSet": "s", "clientId": "fit", "state": "RUNNING",
    "roles": [ROLE], "restarts": 1, "lastChange": "groupRunning",
    "submitted": "2026-01-01T00:00:00Z", "changed": "2026-01-01T00:00:01Z",
}  # fmt: skip
MEMBER = {
    "id": "0a", "role": "worker", "index": 0, "state": "RUNNING", "run": 1, "node": "n0",
    "submitted": "2026-01-01T00:00:00Z",
}  # fmt: skip


def submitted(**more: object) -> dict[str, object]:
    member = {"id": "0a", "clientId": "fit/worker-0", "role": "worker", "index": 0}
    group = {"id": ID, "clientId": "fit", "duplicate": False, "members": [member], **more}
    return {"position": "p", "groups": [group]}


def groups_sent(server: Server) -> list[Any]:
    """The groups of the newest request (`Any`: JSON)."""
    body = server.asked[-1].json()
    assert isinstance(body, dict)
    found: list[Any] = body["groups"]
    return found


def file(folder: Path, text: str = FILE) -> str:
    path = folder / "group.yaml"
    path.write_text(text)
    return str(path)


def test_a_group_without_client_id_gets_one_so_that_it_can_be_repeated(server: Server) -> None:
    server.routes["POST /api/v1/groups"] = lambda _: submitted()
    role = GroupRole(name="worker", min=1, template=Job(command=("true",)))
    with Client() as client:
        done = client.submit_groups(
            "q", "s", [GroupSpec(roles=(role,), completion=Completion(roles=("worker",)))]
        )
    assert done.groups[0].members[0].client_id == "fit/worker-0"
    sent = groups_sent(server)[0]
    assert sent.pop("clientId").startswith("g")
    assert sent == {
        "roles": [{"name": "worker", "min": 1, "template": {"command": ["true"]}}],
        "completion": {"roles": ["worker"]},
    }


def test_a_file_of_groups_is_submitted(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/groups"] = lambda _: submitted()
    assert cli.invoke(["submit", file(tmp_path)]) == 0
    assert capsys.readouterr().out == "submitted 1 job to q/s\n"
    assert groups_sent(server)[0]["clientId"] == "fit"


def test_a_dry_run_of_a_file_lists_roles_that_can_never_run(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roles = [{"name": "worker", "feasible": False, "why": "too big"}]
    server.routes["POST /api/v1/groups"] = lambda _: submitted(roles=roles)
    assert cli.invoke(["submit", file(tmp_path), "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert "1 group for q/s can be submitted; nothing was created" in printed.out
    assert printed.err == "role worker of fit is infeasible now: too big\n"
    assert server.asked[-1].query == {"dryRun": "true"}


@pytest.mark.parametrize(
    ("verdict", "but", "lines"),
    [
        (
            {"feasible": False, "why": "2 members need 3 cpu"},
            ", but it cannot run as nodes and limits are now",
            "group fit is infeasible now: 2 members need 3 cpu\n",
        ),
        (
            {
                "feasible": False,
                "why": "role worker: too big",
                "roles": [{"name": "worker", "feasible": False, "why": "too big"}],
            },
            ", but it cannot run as nodes and limits are now",
            "role worker of fit is infeasible now: too big\n",
        ),
        (
            {"feasible": None, "why": "role worker: pool 'x' has no nodes"},
            "",
            "it is not known whether group fit can run: role worker: pool 'x' has no nodes\n",
        ),
        ({"feasible": True}, "", ""),
    ],
)
def test_a_dry_run_says_whether_the_group_can_run(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verdict: dict[str, object],
    but: str,
    lines: str,
) -> None:
    server.routes["POST /api/v1/groups"] = lambda _: submitted(**verdict)
    assert cli.invoke(["submit", file(tmp_path), "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"1 group for q/s can be submitted{but}; nothing was created\n"
    assert printed.err == lines


def test_defaults_without_jobs_are_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["submit", file(tmp_path, f"{FILE}\ndefaults: {{cpu: 1}}")]) != 0
    assert "`defaults`, which apply to jobs only" in capsys.readouterr().err
    assert server.asked == []


def test_groups_are_listed_and_described(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/groups"] = lambda _: {"groups": [GROUP]}
    detail = {
        **GROUP, "labels": {}, "completionRoles": ["worker"], "onMemberFailure": "restartMember",
        "restartLimit": 3, "members": [MEMBER], "earlierMembers": 12,
    }  # fmt: skip
    server.routes[f"GET /api/v1/groups/{ID}"] = lambda _: detail
    assert cli.invoke(["get", "groups", "--state", "running"]) == 0
    assert server.asked[-1].query["state"] == "RUNNING"
    assert "worker 1/2" in capsys.readouterr().out
    assert cli.invoke(["describe", "group", "q/s/fit"]) == 0
    printed = capsys.readouterr().out
    assert "Role worker (1 to 2 members): 1 running, 1 stopped" in printed
    assert "worker-0  RUNNING on n0" in printed
    assert "Last scaling: 2026-01-01T00:00:00Z  1 surplus member stopped: taken" in printed
    assert re.search(r"Earlier members:\s+12\n", printed)
    assert "1 of 3" in printed


WHY = {
    "code": "gang-does-not-fit", "sentence": "The group does not fit.", "nodes": {"busy": 2},
    "jobs": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", [ID, "q/s/fit"])
def test_why_explains_a_waiting_group_by_id_and_by_name(
    server: Server, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    server.routes["GET /api/v1/groups"] = lambda _: {"groups": [GROUP]}
    waiting = {**GROUP, "state": "QUEUED", "onMemberFailure": "fail", "why": WHY}
    server.routes[f"GET /api/v1/groups/{ID}"] = lambda _: waiting
    assert cli.invoke(["why", name]) == 0
    assert capsys.readouterr().out == (
        "QUEUED: The group does not fit.\n  2 nodes: busy\n"
        "Role worker (1 to 2 members): 1 running, 1 stopped\n"
    )
    assert cli.invoke(["why", name, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["why"]["code"] == "gang-does-not-fit"
    assert cli.invoke(["describe", "group", name]) == 0
    assert "The group does not fit." in capsys.readouterr().out


def test_why_says_why_a_group_ended(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    failed = {**GROUP, "state": "FAILED", "onMemberFailure": "fail", "reason": "member a-0 failed"}
    server.routes[f"GET /api/v1/groups/{ID}"] = lambda _: failed
    assert cli.invoke(["why", ID]) == 0
    assert capsys.readouterr().out.startswith("FAILED: Member a-0 failed.\n")


def test_why_explains_a_waiting_array_after_jobs_and_groups(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    array = {
        "id": ID, "queue": "q", "jobSet": "s", "count": 9, "indexes": "0-8", "tasks": 9,
        "waiting": 8, "live": 9, "states": {"QUEUED": 8, "RUNNING": 1}, "priorityClass": "default",
        "pool": "default", "submitted": "2026-01-01T00:00:00Z", "submittedBy": "anna",
        "why": {"code": "max-running", "sentence": "At most 1."},
    }  # fmt: skip
    server.routes[f"GET /api/v1/arrays/{ID}"] = lambda _: array
    assert cli.invoke(["why", ID]) == 0
    assert capsys.readouterr().out == "8 queued, 1 running: At most 1.\n"


def test_why_names_what_does_not_exist(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.routes["GET /api/v1/groups"] = lambda _: {"groups": []}
    assert cli.invoke(["why", "q/s/none"]) == 3
    printed = capsys.readouterr().err
    assert "/jobs/q%2Fs%2Fnone" in printed
    assert "no group or array of this name either" in printed


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("worker=3", {"name": "worker", "max": 3}),
        ("worker=1..3", {"name": "worker", "min": 1, "max": 3}),
        ("worker=2..", {"name": "worker", "min": 2}),
    ],
)
def test_roles_are_scaled(
    server: Server, capsys: pytest.CaptureFixture[str], text: str, sent: dict[str, object]
) -> None:
    server.routes[f"PATCH /api/v1/groups/{ID}"] = lambda _: {
        "id": ID, "position": "p", "submitted": 1
    }  # fmt: skip
    assert cli.invoke(["group", "scale", ID, text]) == 0
    assert server.asked[-1].json() == {"roles": [sent]}
    assert capsys.readouterr().out == f"group {ID} is scaled: 1 new member\n"


def test_scaling_to_the_present_numbers_says_so(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {"id": ID, "position": None, "submitted": 0}
    server.routes[f"PATCH /api/v1/groups/{ID}"] = lambda _: done
    assert cli.invoke(["group", "scale", ID, "worker=3"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"nothing to change: group {ID} has these numbers" in printed.err


@pytest.mark.parametrize("text", ["worker", "worker=", "worker=..", "worker=many", "=3"])
def test_other_numbers_are_refused(
    server: Server, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert cli.invoke(["group", "scale", ID, text]) == 2
    assert "is not ROLE=MAX or ROLE=MIN..MAX" in capsys.readouterr().err
    assert server.asked == []


def test_groups_are_restarted_and_cancelled(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {"id": ID, "position": "p", "submitted": 0}
    server.routes[f"POST /api/v1/groups/{ID}/restart"] = lambda _: done
    server.routes[f"DELETE /api/v1/groups/{ID}"] = lambda _: {**done, "position": None}
    assert cli.invoke(["group", "restart", ID, "--reason", "new data"]) == 0
    assert server.asked[-1].json() == {"reason": "new data"}
    assert cli.invoke(["group", "cancel", ID, "--reason", "enough"]) == 0
    assert server.asked[-1].query == {"reason": "enough"}
    printed = capsys.readouterr()
    assert f"restart of group {ID} requested" in printed.out
    assert "nothing to cancel" in printed.err


def test_an_unknown_group_is_named(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.routes["GET /api/v1/groups"] = lambda _: {"groups": []}
    assert cli.invoke(["group", "cancel", "q/s/none"]) == 2
    assert "there is no group 'none' in q/s" in capsys.readouterr().err


def test_a_group_is_changed(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes[f"PATCH /api/v1/groups/{ID}"] = lambda _: {
        "id": ID, "position": "p", "submitted": 2
    }  # fmt: skip
    template = file(tmp_path, 'command: ["false"]\ncpu: 2\n')
    arguments = ["group", "change", ID, "--priority", "3", "--step-max", "0"]
    assert cli.invoke([*arguments, "--template", f"worker={template}"]) == 0
    assert server.asked[-1].json() == {
        "roles": [{"name": "worker", "template": {"command": ["false"], "cpu": 2}}],
        "priority": 3,
        "elastic": {"stepMax": 0},
    }
    assert capsys.readouterr().out == f"group {ID} is changed: 2 new members\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to change"),
        (["--template", "worker"], "'worker' is not ROLE=FILE"),
        (["--template", "worker=/none.yaml"], "cannot be read"),
    ],
)
def test_changes_without_a_meaning_are_refused(
    server: Server, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert cli.invoke(["group", "change", ID, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert server.asked == []


def test_the_events_of_a_group_are_printed_until_it_has_ended(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [("0-1-0", "groupRunning", ""), ("0-2-0", "groupFailed", "boom")]
    text = "".join(
        f'id: {name}\ndata: {{"type": "{kind}", "time": "now", "reason": "{reason}"}}\n\n'
        for name, kind, reason in lines
    )
    stream = Reply(text.encode(), content_type="text/event-stream")
    server.routes[f"GET /api/v1/groups/{ID}/events"] = lambda _: stream
    ended = {**GROUP, "ended": "2026-01-01T00:00:02Z", "onMemberFailure": "fail"}
    server.routes[f"GET /api/v1/groups/{ID}"] = lambda _: ended
    assert cli.invoke(["group", "watch", ID]) == 1
    assert capsys.readouterr().out == "now  groupRunning\nnow  groupFailed: boom\n"
    asked = server.asked[0]
    assert asked.query == {"until": "finished"}
