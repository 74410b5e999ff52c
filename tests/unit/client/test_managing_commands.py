"""Commands for operators, and those that ask nothing of a server."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import typer

from fairlead import cli
from fairlead.cli.commands.setup import doctor_command
from tests.unit.client import fake_server
from tests.unit.client.fake_server import Reply, Request, Server

CONFIG = """\
# my servers
current: here
contexts:
  here: {server: "http://127.0.0.1:1"}
  work: {server: "https://work.example", token: fl_secret}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    with fake_server.serve({}) as running:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "FAIRLEAD_DATA"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("FAIRLEAD_SERVER", running.url)
        monkeypatch.setenv("FAIRLEAD_TOKEN", "fl_t")
        yield running


@pytest.fixture
def config(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A configuration file, which is what says which server to ask."""
    monkeypatch.delenv("FAIRLEAD_SERVER")
    monkeypatch.delenv("FAIRLEAD_TOKEN")
    file = tmp_path / ".config" / "fairlead" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG)
    return file


def queues(server: Server, *there: dict[str, object]) -> None:
    """Let the server have these queues."""
    by_path = {f"/api/v1/queues/{queue['name']}": queue for queue in there}
    server.routes["POST /api/v1/queues"] = Request.json
    for path in by_path:
        server.routes[f"GET {path}"] = lambda asked: by_path[asked.path]
        server.routes[f"PUT {path}"] = Request.json


def test_applying_prints_the_changes(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queues(server, {"name": "a", "version": 3, "weight": 1.0}, {"name": "b", "version": 4})
    file = tmp_path / "queues.yaml"
    file.write_text(
        "kind: queue\nname: a\nweight: 2\n---\n- {name: b}\n- {name: c, retryPolicy: {limit: 1}}\n"
    )
    assert cli.invoke(["apply", "-f", str(file), "--dry-run"]) == 0
    changes = [asked for asked in server.asked if asked.method != "GET"]
    assert [(asked.method, asked.query) for asked in changes] == [
        ("PUT", {"dryRun": "true"}),
        ("POST", {"dryRun": "true"}),
    ]
    assert "queue a would change\n  weight: 1 -> 2\n" in capsys.readouterr().out
    assert cli.invoke(["apply", "-f", str(file)]) == 0
    assert capsys.readouterr().out == (
        "queue a changed\n  weight: 1 -> 2\nqueue b unchanged\n"
        "queue c created\n  retryPolicy.limit: none -> 1\n"
    )
    (put,) = [asked for asked in server.asked if asked.method == "PUT" and not asked.query]
    assert put.headers["if-match"] == '"3"'


def test_applying_keeps_a_cordon_unless_the_file_sets_it(server: Server, tmp_path: Path) -> None:
    queues(server, {"name": "a", "version": 3, "cordoned": True, "reason": "a fire"})
    file = tmp_path / "queues.yaml"
    for text, want in (
        ("{name: a, weight: 2}", {"cordoned": True, "reason": "a fire"}),
        ("{name: a, weight: 2, cordoned: false}", {}),
    ):
        file.write_text(text)
        assert cli.invoke(["apply", "-f", str(file)]) == 0
        sent = server.asked[-1].json()
        assert isinstance(sent, dict)
        cordon_fields = {name: sent[name] for name in ("cordoned", "reason") if sent.get(name)}
        assert cordon_fields == want


def test_a_refused_queue_is_named_and_the_others_are_created(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = {
        "type": "/problems/invalid",
        "title": "Not valid",
        "status": 422,
        "errors": [{"pointer": "/weight", "detail": "is -1"}],
    }
    content = "application/problem+json"
    refusal = fake_server.Reply(msgspec.json.encode(problem), 422, content)

    def make(asked: Request) -> object:
        return refusal if b"-1" in asked.body else asked.json()

    server.routes["POST /api/v1/queues"] = make
    file = tmp_path / "queues.yaml"
    file.write_text("{name: a, weight: -1}\n---\n{name: b}\n")
    assert cli.invoke(["apply", "-f", str(file)]) == 3
    output = capsys.readouterr()
    assert "queue a is refused" in output.err
    assert "/weight: is -1" in output.err
    assert output.out == "queue b created\n"


def test_every_error_of_a_file_is_reported_before_any_change(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("{name: a, wieght: 2}\n---\n{kind: job}\n---\n5\n---\n[{name: b}, {name: b}]\n")
    assert cli.invoke(["apply", "-f", str(file)]) == 2
    output = capsys.readouterr().err
    for text in ("document 1: wieght", "document 2: its kind is 'job'", "document 3:", "queue b"):
        assert text in output
    assert server.asked == []


def test_an_update_changes_only_the_given_fields(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {"name": "a", "version": 3, "weight": 2.0, "labels": {"x": "1", "y": "2"}}
    queues(server, old)
    arguments = ["--limit", "default/cpu=0.5", "--limit", "default/memory=64Gi"]
    assert cli.invoke(["queue", "update", "a", *arguments, "--remove-label", "x"]) == 0
    assert server.asked[-1].json() == {
        "name": "a",
        "weight": 2.0,
        "labels": {"y": "2"},
        "limits": {"default": {"cpu": 0.5, "memory": "64Gi"}},
    }
    assert "limits.default.cpu: none -> 0.5" in capsys.readouterr().out


def test_the_order_of_a_queue_is_given_and_changed(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    queues(server, {"name": "a", "version": 3, "weight": 2.0})
    assert cli.invoke(["queue", "create", "b", "--order", "fair"]) == 0
    assert server.asked[-1].json() == {"name": "b", "weight": 1.0, "order": "fair"}
    assert cli.invoke(["queue", "update", "a", "--order", "fair"]) == 0
    assert server.asked[-1].json() == {"name": "a", "weight": 2.0, "order": "fair"}
    assert "order: fifo -> fair" in capsys.readouterr().out
    assert cli.invoke(["queue", "update", "a", "--order", "lifo"]) == 2
    assert "'fifo', 'fair'" in capsys.readouterr().err


@pytest.mark.parametrize("weight", ["nan", "inf"])
def test_a_weight_without_a_json_form_is_sent_as_text(server: Server, weight: str) -> None:
    queues(server)
    cli.invoke(["queue", "create", "a", f"--weight={weight}"])
    assert server.asked[-1].json() == {"name": "a", "weight": weight}


def test_creating_an_existing_queue_prints_a_hint(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/queues"] = lambda _: fake_server.problem(409, "there is one")
    assert cli.invoke(["queue", "create", "a"]) == 3
    assert "hint: `fairlead queue update a`" in capsys.readouterr().err


def test_a_token_is_printed_alone_on_stdout(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {"id": "7", "name": "bot", "roles": ["viewer"], "token": "fl_new"}
    server.routes["POST /api/v1/tokens"] = lambda _: made
    assert cli.invoke(["token", "create", "bot", "--role", "viewer", "--expires", "2d"]) == 0
    output = capsys.readouterr()
    assert output.out == "fl_new\n"
    assert "token 7 of bot (viewer)" in output.err
    assert server.asked[0].json() == {
        "name": "bot",
        "roles": ["viewer"],
        "expiresInSeconds": 172_800,
    }


def test_the_token_of_a_folder_is_printed_without_a_server(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text("fl_kept\n")
    assert cli.invoke(["token", "show", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "fl_kept\n"
    assert cli.invoke(["token", "show", "--data", str(tmp_path / "nowhere")]) == 2


def test_a_link_has_the_servers_address(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.routes["POST /api/v1/sign-in-links"] = lambda _: {"path": "/sign-in?code=x"}
    assert cli.invoke(["token", "link"]) == 0
    assert capsys.readouterr().out == f"{server.url}/sign-in?code=x\n"


def test_choosing_a_context_keeps_the_rest_of_the_file(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["context", "use", "work"]) == 0
    assert config.read_text() == CONFIG.replace("current: here", 'current: "work"')
    assert config.stat().st_mode & 0o777 == 0o600
    assert cli.invoke(["context", "list"]) == 0
    output = capsys.readouterr().out
    assert "*         work   https://work.example" in output
    assert "fl_secret" not in output


def test_an_unknown_context_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["context", "use", "play"]) == 2
    assert "known: here, work" in capsys.readouterr().err
    assert config.read_text() == CONFIG


def test_a_context_can_be_named_for_one_command(
    config: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG + f'  third: {{server: "{server.url}", token: fl_third}}\n')
    server.routes["GET /api/v1/queues"] = lambda _: {"queues": []}
    assert cli.invoke(["--context", "third", "get", "queues"]) == 0
    assert server.asked[0].headers["authorization"] == "Bearer fl_third"


def test_the_doctor_reports_problems(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.routes["GET /healthz"] = lambda _: fake_server.Reply(b"ok\n")
    ready = {"ready": True, "version": "0.1.0", "checks": {"log": "ok"}}
    server.routes["GET /readyz"] = lambda _: ready
    server.routes["GET /metrics"] = lambda _: fake_server.Reply(b"")
    server.routes["GET /api/v1/queues"] = lambda _: fake_server.problem(401, "who?")
    assert cli.invoke(["doctor"]) == 3
    output = capsys.readouterr().out
    assert f"ok   server: {server.url} answers" in output
    assert "BAD  credentials: who?\n     hint: set FAIRLEAD_TOKEN" in output


def test_a_deep_check_without_the_services_programs_says_where_to_run_it() -> None:
    (found,) = doctor_command.check_deeply((), None)
    assert (found.name, found.code) == ("scheduler state", 1)
    assert "FAIRLEAD_DATABASE_URL and FAIRLEAD_LOG_URL" in found.hint


def test_a_data_folder_is_refused_without_a_deep_check(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["doctor", "--data", "x"]) == 2
    assert "--data is only used with --deep" in capsys.readouterr().err
    assert not server.asked


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_a_shell(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_FAIRLEAD_COMPLETE", "")
    monkeypatch.delenv("_FAIRLEAD_COMPLETE")
    assert cli.invoke(["completion", shell]) == 0
    assert "_FAIRLEAD_COMPLETE=complete_" in capsys.readouterr().out


def commands(app: typer.Typer, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    for command in app.registered_commands:
        assert command.name is not None or command.callback is not None
        yield (*path, command.name or command.callback.__name__)  # type: ignore[union-attr]
    for group in app.registered_groups:
        assert isinstance(group.name, str)
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, *path, group.name)


@pytest.mark.parametrize("words", list(commands(cli.build_app())), ids=" ".join)
def test_every_command_has_help_with_examples_that_fit_80_columns(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.invoke([*words, "--help"]) == 0
    output = capsys.readouterr().out
    assert "Examples:" in output
    assert f"fairlead {' '.join(words)}" in output
    assert not [line for line in output.splitlines() if len(line) > 90]


SHARE = {
    "pool": "default",
    "queue": "vision",
    "weight": 2.0,
    "actualShare": 0.5,
    "fairShare": 0.25,
    "demandShare": 1.0,
    "running": 3,
    "queued": 4,
    "firstWaiting": "0a",
}
WAITING = {
    "pool": "default",
    "queue": "vision",
    "code": "insufficient-resources",
    "sentence": "0 of 3 nodes have room: 3 too little cpu.",
    "jobs": 4,
}
REPORTS = {
    "queue vision": {
        "queue": "vision",
        "weight": 2.0,
        "cordoned": True,
        "reason": "holiday",
        "limits": {"default": {"cpu": 0.5}},
        "shares": [SHARE],
        "waiting": [WAITING],
        "reasons": {"insufficient-resources": 4},
    },
    "pool default": {
        "pool": "default",
        "round": {
            "time": "2026-01-01T00:00:00.000Z",
            "outcome": "finished",
            "scheduled": 3,
            "preempted": 0,
            "waiting": 4,
            "nodes": 3,
            "stepsMs": {"plan": 4.2},
        },
        "shares": [SHARE],
        "waiting": [WAITING],
        "reasons": {"insufficient-resources": 4},
    },
}


@pytest.mark.parametrize("what", REPORTS)
def test_a_report_has_allocations_and_the_reasons_why_jobs_wait(
    server: Server, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    kind, name = what.split()
    server.routes[f"GET /api/v1/{kind}s/{name}/report"] = lambda _: REPORTS[what]
    groups = [{"group": {"state": "QUEUED"}, "jobs": 1_004}]
    server.routes["GET /api/v1/jobs"] = lambda _: {"groups": groups, "total": "1004"}
    assert cli.invoke(["describe", kind, name]) == 0
    output = capsys.readouterr().out
    assert "50.0%    25.0%   100.0%" in output
    assert "4 jobs (vision): 0 of 3 nodes have room" in output
    assert "insufficient-resources=4" in output
    assert ("1,004 QUEUED" in output) == (kind == "queue")
    assert ("holiday" in output) == (kind == "queue")
    assert ("2026-01-01T00:00:00.000Z" in output) == (kind == "pool")
    assert cli.invoke(["describe", kind, name, "-o", "json"]) == 0
    assert '"actualShare": 0.5' in capsys.readouterr().out


def test_an_export_is_written_unchanged(
    server: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def table(asked: Request) -> Reply:
        return Reply(f"{asked.query}\n".encode(), content_type="text/csv")

    server.routes["GET /api/v1/jobs/export.csv"] = table
    server.routes["GET /api/v1/jobsets/export.csv"] = table
    assert cli.invoke(["export", "jobs", "--queue", "q", "--state", "failed"]) == 0
    assert cli.invoke(["export", "jobsets", "--format", "ndjson"]) == 0
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "{'queue': 'q', 'state': 'FAILED', 'format': 'csv'}",
        "{'format': 'ndjson'}",
    ]


def test_a_cordon_that_the_log_does_not_have_yet_is_not_reported_as_in_effect(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer, printed in (
        ({"name": "a", "cordoned": True}, "queue a cordoned: none of its jobs"),
        ({"name": "a", "cordoned": True, "pending": True}, "will be cordoned when the log"),
    ):
        server.routes["POST /api/v1/queues/a/cordon"] = lambda _, answer=answer: answer  # type: ignore[misc]
        assert cli.invoke(["queue", "cordon", "a"]) == 0
        assert printed in capsys.readouterr().out


def test_a_deletion_that_the_log_does_not_have_yet_says_so(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer, printed in (
        ({"name": "a", "version": 2}, "queue a deleted\n"),
        ({"name": "a", "version": 2, "pending": True}, "until the log is available\n"),
    ):
        server.routes["DELETE /api/v1/queues/a"] = lambda _, answer=answer: answer  # type: ignore[misc]
        assert cli.invoke(["queue", "delete", "a"]) == 0
        assert capsys.readouterr().out.endswith(printed)


def test_a_cordon_of_a_node_that_the_log_does_not_have_yet_is_not_reported_as_in_effect(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    cordon = {"executor": "c", "node": "n1", "cordoned": True}
    for answer, printed in (
        (cordon, "node n1 of cluster c cordoned\n"),
        ({**cordon, "pending": True}, "node n1 of cluster c will be cordoned when the log"),
    ):
        server.routes["PUT /api/v1/executors/c/nodes/n1"] = lambda _, answer=answer: answer  # type: ignore[misc]
        assert cli.invoke(["cluster", "cordon", "c", "n1"]) == 0
        assert capsys.readouterr().out.startswith(printed)
