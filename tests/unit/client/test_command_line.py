"""The `fairlead` command against a served table of answers: output, exit codes and hints."""

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import msgspec
import pytest

from fairlead import AsyncClient, Retries, ServerUnreachable, cli
from fairlead.cli.commands.jobs import run_command
from tests.unit.client import fake_server
from tests.unit.client.fake_server import FILE, Request, Server, accept

JOB = {
    "id": "0a00000000000000000000000000",
    "queue": "q",
    "jobSet": "s",
    "state": "FAILED",
    "clientId": "one",
    "reason": "The command ended with exit code 3.",
    "exitCode": 3,
    "submitted": "2026-01-01T00:00:00.000Z",
    "run": 1,
}
RUN = {
    "run": 1,
    "state": "FAILED",
    "node": "n1",
    "exitCode": 3,
    "running": "2026-01-01T00:00:01.000Z",
    "ended": "2026-01-01T00:01:03.000Z",
}
DETAIL = {**JOB, "runs": [RUN]}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "jobs.yaml"
    path.write_text(FILE)
    return str(path)


def job_set(**states: int) -> object:
    live = states.get("QUEUED", 0)
    return {
        "queue": "q",
        "jobSet": "s",
        "jobs": sum(states.values()),
        "live": live,
        "states": states,
    }


def test_a_queue_is_created(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.routes["POST /api/v1/queues"] = lambda _: {"name": "a", "weight": 2}
    assert cli.invoke(["queue", "create", "a", "--weight", "2", "--label", "x=y"]) == 0
    assert server.asked[0].json() == {"name": "a", "weight": 2.0, "labels": {"x": "y"}}
    assert capsys.readouterr().out == "queue a created (weight 2)\n"


def test_a_file_is_submitted(server: Server, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    server.routes["POST /api/v1/jobs"] = accept
    assert cli.invoke(["submit", file]) == 0
    assert capsys.readouterr().out == "submitted 2 jobs to q/s\n"
    body = server.asked[-1].json()
    assert isinstance(body, dict)
    assert body["defaults"] == {"cpu": 1}


def test_ids_of_submitted_jobs_can_be_printed_for_other_programs(
    server: Server, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/jobs"] = accept
    assert cli.invoke(["submit", file, "-o", "name", "--jobset", "other"]) == 0
    assert capsys.readouterr().out == "id-one\nid-two\n"


def test_json_is_read_from_standard_input(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"queue": "q", "jobSet": "s", "jobs": [{"clientId": "a"}]}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    server.routes["POST /api/v1/jobs"] = accept
    assert cli.invoke(["submit", "-"]) == 0


def test_waiting_for_jobs_that_succeed_ends_with_0(server: Server, file: str) -> None:
    server.routes["POST /api/v1/jobs"] = accept
    server.routes["GET /api/v1/jobsets/q/s"] = lambda _: job_set(SUCCEEDED=2)
    assert cli.invoke(["submit", file, "--wait"]) == 0


def test_waiting_ends_with_1_and_names_the_failed_jobs(
    server: Server, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/jobs"] = accept
    server.routes["GET /api/v1/jobsets/q/s"] = lambda _: job_set(SUCCEEDED=1, FAILED=1)
    bad = {**JOB, "id": "id-one"}
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": [bad]}
    assert cli.invoke(["submit", file, "--watch"]) == 1
    assert "one: FAILED: The command ended with exit code 3." in capsys.readouterr().err


def test_failures_of_other_jobs_in_the_same_job_set_do_not_count(server: Server, file: str) -> None:
    server.routes["POST /api/v1/jobs"] = accept
    server.routes["GET /api/v1/jobsets/q/s"] = lambda _: job_set(SUCCEEDED=2, FAILED=1)
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": [{**JOB, "id": "somebody-elses"}]}
    assert cli.invoke(["submit", file, "--wait"]) == 0


def test_a_dry_run_prints_what_would_be_submitted(
    server: Server, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(asked: Request) -> object:
        assert asked.query["dryRun"] == "true"
        stuck = {"id": "b", "feasible": False, "why": "it asks for more than any node has"}
        return {"position": None, "jobs": [{"id": "a", "feasible": True}, stuck]}

    server.routes["POST /api/v1/jobs"] = check
    assert cli.invoke(["submit", file, "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert "2 jobs for q/s can be submitted; nothing was created" in printed.out
    assert "two is infeasible now: it asks for more than any node has" in printed.err


def test_a_refusal_prints_every_field_error_and_ends_with_3(
    server: Server, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = [{"pointer": f"/jobs/{n}/cpu", "detail": "no quantity"} for n in range(30)]
    server.routes["POST /api/v1/jobs"] = lambda _: fake_server.problem(422, "not valid", errors)
    assert cli.invoke(["submit", file]) == 3
    text = capsys.readouterr().err
    assert "/jobs/19/cpu: no quantity" in text
    assert "... and 10 more" in text


def test_a_missing_token_comes_with_a_hint(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/queues"] = lambda _: fake_server.problem(401, "no token")
    assert cli.invoke(["get", "queues"]) == 3
    assert "hint: set FAIRLEAD_TOKEN" in capsys.readouterr().err


def test_something_else_on_the_port_ends_with_4(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/queues"] = lambda _: fake_server.Reply(b"<html>")
    assert cli.invoke(["get", "queues"]) == 4
    assert "cannot be decoded" in capsys.readouterr().err


def test_no_server_at_all_ends_with_4(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FAIRLEAD_SERVER", "FAIRLEAD_DATA", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cli.invoke(["get", "jobs"]) == 4
    assert "fairlead up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not valid YAML"),
        ("", "is empty"),
        ("[1]", "is not valid"),
        ("{queue: q, jobSet: s, jbos: []}", "jbos"),
        ("{jobSet: s, jobs: []}", "names no queue"),
        ("{queue: q, jobs: []}", "names no jobSet"),
        ("{queue: q, jobSet: s, jobs: []}", "neither jobs nor groups for q/s"),
        ('{"queue": "q", "queue": "r", "jobSet": "s", "jobs": []}', "'queue' occurs twice"),
    ],
)
def test_a_file_that_is_not_a_submission_ends_with_2(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    assert cli.invoke(["submit", str(tmp_path / "bad.yaml")]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit"],
        ["submit", "/nowhere/at/all"],
        ["get", "jbos"],
        ["cancel"],
        ["cancel", "id", "--queue", "q"],
        ["cancel", "id", "--state", "QUEUED"],
        ["queue", "create", "a", "--label", "novalue"],
        ["run"],
        ["no-such-command"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(server: Server, arguments: list[str]) -> None:
    assert cli.invoke(arguments) == 2
    assert server.asked == []


def test_jobs_are_listed_as_a_table(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": [JOB]}
    arguments = ["get", "jobs", "--queue", "q", "--state", "failed"]
    assert cli.invoke(arguments) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == [
        "ID",
        "QUEUE",
        "JOB",
        "SET",
        "CLIENT",
        "ID",
        "STATE",
        "AGE",
        "REASON",
    ]
    assert row.startswith("0a00000000000000000000000000   q       s         one         FAILED")
    query = server.asked[0].query
    assert (query["queue"], query["state"]) == ("q", "FAILED")


def test_lists_can_be_read_by_programs(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": [JOB]}
    assert cli.invoke(["get", "jobs", "-o", "json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)[0]["jobSet"] == "s"
    assert cli.invoke(["get", "jobs", "-o", "yaml"]) == 0
    assert "jobSet: s" in capsys.readouterr().out
    assert cli.invoke(["get", "jobs", "-o", "name"]) == 0
    assert capsys.readouterr().out == "0a00000000000000000000000000\n"


def test_an_empty_list_prints_a_note_on_stderr_only(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/jobsets"] = lambda _: {"jobSets": []}
    assert cli.invoke(["get", "jobsets"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "No such job sets" in printed.err


def test_a_limited_list_prints_that_there_is_more(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": [JOB, JOB, JOB]}
    assert cli.invoke(["get", "jobs", "--limit", "2", "-o", "name"]) == 0
    printed = capsys.readouterr()
    assert printed.out == 2 * "0a00000000000000000000000000\n"
    assert "the first 2" in printed.err


def test_a_job_is_described_with_its_runs(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/jobs/0a00000000000000000000000000"] = lambda _: DETAIL
    assert cli.invoke(["describe", "job", "0a00000000000000000000000000"]) == 0
    text = capsys.readouterr().out
    assert "Exit code:  3" in text.replace("         ", "  ")
    assert "n1" in text
    assert " ago   1m2s " in text
    assert "Why:        The command ended with exit code 3." in text


def test_watching_prints_a_line_of_json_for_each_change(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/jobsets/q/s"] = lambda _: job_set(SUCCEEDED=2)
    assert cli.invoke(["watch", "q", "s", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["states"] == {"SUCCEEDED": 2}


def test_watching_jobs_that_end_badly_ends_with_1(server: Server) -> None:
    server.routes["GET /api/v1/jobsets/q/s"] = lambda _: job_set(SUCCEEDED=2, CANCELLED=1)
    assert cli.invoke(["watch", "q", "s"]) == 1


def test_many_jobs_are_not_cancelled_without_a_yes(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    server.routes["POST /api/v1/jobs/cancel"] = lambda _: {"position": "p", "matched": 101}
    arguments = ["cancel", "--queue", "q", "--jobset", "s"]
    assert cli.invoke(arguments) == 2
    assert "this would cancel 101 jobs; add --yes" in capsys.readouterr().err
    assert cli.invoke([*arguments, "--yes", "--reason", "why"]) == 0
    assert server.asked[-1].json() == {
        "filter": {"queue": "q", "jobSet": "s"},
        "reason": "why",
    }


def test_jobs_that_could_not_be_counted_need_confirmation(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    server.routes["POST /api/v1/jobs/cancel"] = lambda _: {"position": "p", "matched": None}
    arguments = ["cancel", "--queue", "q", "--label", "team=vision"]
    assert cli.invoke(arguments) == 2
    assert "this would cancel an unknown number of jobs; add --yes" in capsys.readouterr().err
    assert cli.invoke([*arguments, "--yes"]) == 0
    assert "cancellation of an unknown number of jobs requested" in capsys.readouterr().out


def test_an_action_on_no_jobs_is_requested_and_reported(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/jobs/cancel"] = lambda _: {"position": "p", "matched": 0}
    assert cli.invoke(["cancel", "--queue", "q"]) == 0
    assert "no such jobs exist" in capsys.readouterr().err
    assert "dryRun" not in server.asked[-1].query


def test_a_response_of_another_server_is_refused(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    page = fake_server.Reply(b"<html>\nnothing here\n</html>", 404, "text/html; charset=utf-8")
    server.routes["GET /api/v1/jobs"] = lambda _: page
    assert cli.invoke(["get", "jobs"]) == 3
    assert capsys.readouterr().err == (
        "fairlead: HTTP status 404: a page\n"
        "hint: is that a Fairlead server, or a proxy? `fairlead doctor` checks it\n"
    )


@pytest.mark.parametrize("arguments", [["cancel"], ["release"], ["reprioritize", "--priority=1"]])
def test_jobs_in_the_wrong_state_and_missing_jobs_have_different_messages(
    server: Server, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    verb = arguments[0]
    server.routes[f"POST /api/v1/jobs/{verb}"] = lambda _: {"position": "p", "matched": 0}
    assert cli.invoke([*arguments, "0a00000000000000000000000000"]) == 0
    printed = capsys.readouterr()
    assert f"nothing to {verb}: no job is in a state that permits it" in printed.err
    assert printed.out == ""


def test_a_character_that_the_terminal_cannot_print_is_escaped(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": [{**JOB, "clientId": "sn\u2603w"}]}
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    code = "from fairlead.__main__ import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "get", "jobs", "-o", "json"], capture_output=True, check=True
    )
    assert msgspec.json.decode(ended.stdout)[0]["clientId"] == "sn\u2603w"


def test_output_that_cannot_be_written_is_reported_without_a_traceback(server: Server) -> None:
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": [JOB]}
    code = "import sys; from fairlead import cli; sys.exit(cli.invoke(['get', 'jobs']))"
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.stderr == b"fairlead: the output cannot be written: No space left on device\n"
    assert ended.returncode == 2


def test_a_job_is_run_with_its_output_and_exit_code(
    server: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def log(asked: Request) -> object:
        return fake_server.Reply(asked.query["stream"].encode() + b"\n")

    done = {"position": "p", "jobs": [{"id": "0a00000000000000000000000000"}]}
    server.routes["POST /api/v1/jobs"] = lambda _: done
    server.routes["GET /api/v1/jobs/0a00000000000000000000000000"] = lambda _: DETAIL
    server.routes["GET /api/v1/jobs/0a00000000000000000000000000/logs"] = log
    assert cli.invoke(["run", "--cpu", "2", "--", "sh", "-c", "exit 3"]) == 3
    printed = capfdbinary.readouterr()
    assert printed.out == b"stdout\n"
    assert printed.err.startswith(b"stderr\n")
    (posted,) = [each for each in server.asked if each.method == "POST"]
    body = posted.json()
    assert isinstance(body, dict)
    assert body["jobs"][0]["command"] == ["sh", "-c", "exit 3"]


def test_ctrl_c_during_a_resubmission_prints_that_the_server_continues(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = {"action": "a", "kind": "resubmit", "queue": "q", "jobSet": "t", "state": "RUNNING"}

    def interrupted(_: Request) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return {**progress, "total": 2, "done": 1, "made": 1}

    server.routes["POST /api/v1/jobs/resubmit"] = lambda _: {"action": "a", "total": 2}
    server.routes["GET /api/v1/actions/a"] = interrupted
    assert (
        cli.invoke(
            [
                "resubmit",
                "0a00000000000000000000000000",
                "0b00000000000000000000000000",
                "--into",
                "t",
            ]
        )
        == 130
    )
    assert "the server continues" in capsys.readouterr().err


def test_a_job_whose_server_is_unreachable_is_reported_as_continuing(server: Server) -> None:
    async def attend() -> None:
        server.routes["GET /api/v1/jobs/0a00000000000000000000000000"] = lambda _: (
            fake_server.Reply(broken=True)
        )
        once = Retries(attempts_max=1)
        async with AsyncClient(server.url, token="fl_t", retries=once) as client:
            await run_command.attend(client, "0a00000000000000000000000000", "p")

    with pytest.raises(ServerUnreachable) as gone:
        asyncio.run(attend())
    assert "`fairlead logs -f 0a00000000000000000000000000`" in gone.value.__notes__[0]
    assert {asked.method for asked in server.asked} == {"GET"}


@pytest.mark.parametrize(
    ("duplicates", "text"),
    [
        ((True,), "No new job: it exists already in q/s.\n"),
        ((True, True), "No new jobs: all 2 exist already in q/s.\n"),
        ((False, True, False), "submitted 2 jobs to q/s (1 more exists already)\n"),
        ((False, True, True), "submitted 1 job to q/s (2 more exist already)\n"),
    ],
)
def test_only_new_jobs_are_reported_as_submitted(
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    duplicates: tuple[bool, ...],
    text: str,
) -> None:
    jobs = [{"id": f"0{n}", "duplicate": known} for n, known in enumerate(duplicates)]
    (tmp_path / "some.json").write_bytes(
        msgspec.json.encode({"queue": "q", "jobSet": "s", "jobs": [{}] * len(jobs)})
    )
    server.routes["POST /api/v1/jobs"] = lambda _: {"position": "p", "jobs": jobs}
    assert cli.invoke(["submit", str(tmp_path / "some.json")]) == 0
    assert capsys.readouterr().out == text


def test_text_of_others_is_printed_in_one_line_without_control_characters(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = {**DETAIL, "reason": "\x1b[2Jgone\nSUCCEEDED", "runs": []}
    server.routes["GET /api/v1/jobs/0a00000000000000000000000000"] = lambda _: forged
    assert cli.invoke(["why", "0a00000000000000000000000000"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "FAILED: �[2Jgone SUCCEEDED."
    server.routes["GET /api/v1/jobs/0b00000000000000000000000000"] = lambda _: fake_server.problem(
        404, "no \x1b[2Jb"
    )
    assert cli.invoke(["why", "0b00000000000000000000000000"]) == 3
    assert "no �[2Jb" in capsys.readouterr().err


def test_a_watch_without_a_terminal_prints_each_state_one_time(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    states = iter([job_set(QUEUED=1), job_set(QUEUED=1), job_set(SUCCEEDED=1)])
    server.routes["GET /api/v1/jobsets/q/s"] = lambda _: next(states)
    assert cli.invoke(["watch", "q", "s"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == "q/s: 0 of 1 ended: 1 QUEUED"
    assert last == "q/s: 1 of 1 ended: 1 SUCCEEDED"


def test_the_version_is_printed_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["--version"]) == 0
    assert capsys.readouterr().out == f"fairlead {metadata.version('fairlead')}\n"


def test_a_closed_port_is_unreachable(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert cli.invoke(["--server", url, "queue", "get", "a"]) == 4
    assert "does not answer" in capsys.readouterr().err


def test_a_command_of_a_missing_package_names_the_package() -> None:
    assert cli.find_missing_package("simulate", {"get", "up"}) == "fairlead-scheduler[fast]"
    assert cli.find_missing_package("simulate", {"simulate"}) is None
    assert cli.find_missing_package("sumbit", set()) is None
