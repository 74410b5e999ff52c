"""Manifests of Kubernetes on the command line: `fairlead submit` and `fairlead convert`."""

from pathlib import Path

import pytest

from fairlead import cli
from tests.unit.client import fake_server
from tests.unit.client.fake_server import FILE, Server

MANIFEST = "{apiVersion: batch/v1, kind: Job, metadata: {name: scan}}"
FIELDS = [
    {"pointer": "/manifests/0/spec/completions", "use": "used", "detail": "the number of jobs"},
    {"pointer": "/manifests/0/status", "use": "ignored", "detail": "the jobs are new"},
]


def file(folder: Path, text: str = MANIFEST) -> str:
    """A file with this text."""
    path = folder / "manifest.yaml"
    path.write_text(text)
    return str(path)


def test_manifests_are_submitted_and_what_has_no_effect_is_listed(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"id": "0a", "clientId": "scan", "duplicate": False}
    server.routes["POST /api/v1/manifests"] = lambda _: {
        "queue": "q", "jobSet": "scan", "position": "p", "jobs": [job], "fields": FIELDS
    }  # fmt: skip
    assert cli.invoke(["submit", file(tmp_path), "--queue", "q"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "submitted 1 job to q/scan\n"
    assert printed.err == "ignored /manifests/0/status: the jobs are new\n"
    sent = server.asked[-1].json()
    assert sent == {
        "queue": "q",
        "manifests": [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "scan"}}],
    }


def test_a_dry_run_of_manifests_says_what_could_be_submitted(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"id": "0a", "clientId": "scan", "duplicate": False, "feasible": False, "why": "too big"}
    server.routes["POST /api/v1/manifests"] = lambda _: {
        "queue": "q", "jobSet": "scan", "position": None, "jobs": [job], "fields": []
    }  # fmt: skip
    assert cli.invoke(["submit", file(tmp_path), "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert "1 job for q/scan can be submitted" in printed.out
    assert "scan is infeasible now: too big" in printed.err
    assert server.asked[-1].query == {"dryRun": "true"}


def test_a_conversion_is_a_file_for_submit(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [{"clientId": "scan", "podSpec": {}}]
    server.routes["POST /api/v1/manifests/convert"] = lambda _: {
        "queue": "q", "jobSet": "scan", "jobs": jobs, "fields": FIELDS
    }  # fmt: skip
    assert cli.invoke(["convert", file(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ("queue: q\njobSet: scan\njobs:\n- clientId: scan\n  podSpec: {}\n")
    assert printed.err == "ignored /manifests/0/status: the jobs are new\n"


def test_a_report_lists_every_field(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/manifests/convert"] = lambda _: {
        "queue": "q", "jobSet": "scan", "jobs": [], "fields": FIELDS
    }  # fmt: skip
    assert cli.invoke(["convert", file(tmp_path), "--report", "-o", "table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["/manifests/0/spec/completions", "used"],
        ["/manifests/0/status", "ignored"],
    ]


def test_a_file_has_manifests_or_submissions(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = file(tmp_path, f"{MANIFEST}\n---\n{FILE}")
    assert cli.invoke(["submit", both]) == 2
    assert "as document 2, something else" in capsys.readouterr().err
    assert server.asked == []


def test_a_file_without_manifests_cannot_be_converted(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["convert", file(tmp_path, FILE)]) == 2
    assert "has no manifest of Kubernetes" in capsys.readouterr().err
    assert server.asked == []


def test_the_refusal_of_a_manifest_names_the_field(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/manifests"] = lambda _: fake_server.problem(422, "wrong")
    assert cli.invoke(["submit", file(tmp_path)]) == 3
    assert "wrong" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["submit", "convert"])
def test_refused_manifests_print_nothing_and_are_named_by_their_document(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for path in ("", "/convert"):
        server.routes[f"POST /api/v1/manifests{path}"] = lambda _: fake_server.problem(422, "wrong")
    assert cli.invoke([command, file(tmp_path, f"{MANIFEST}\n---\n{MANIFEST}")]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "`/manifests/1` the second" in printed.err
    assert cli.invoke([command, file(tmp_path)]) == 3
    assert "the second" not in capsys.readouterr().err
