"""`fairlead submit` of a file with several documents: all, or none where that can be known."""

from pathlib import Path

import pytest

from fairlead import cli
from tests.unit.client import fake_server
from tests.unit.client.fake_server import FILE, Request, Server, accept


def test_no_document_is_submitted_unless_all_are_valid(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(asked: Request) -> object:
        return fake_server.problem(422, "no queue") if b'"bad"' in asked.body else accept(asked)

    server.routes["POST /api/v1/jobs"] = judge
    (tmp_path / "two.yaml").write_text(f"{FILE}\n---\n{FILE.replace('queue: q', 'queue: bad')}")
    assert cli.invoke(["submit", str(tmp_path / "two.yaml")]) == 3
    assert all(each.query == {"dryRun": "true"} for each in server.asked if each.method == "POST")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "document 2 of the file was refused" in printed.err


def test_submitted_documents_are_reported_when_a_later_one_is_refused(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(asked: Request) -> object:
        is_late = b'"late"' in asked.body and not asked.query
        return fake_server.problem(409, "taken") if is_late else accept(asked)

    server.routes["POST /api/v1/jobs"] = judge
    (tmp_path / "two.yaml").write_text(f"{FILE}\n---\n{FILE.replace('queue: q', 'queue: late')}")
    assert cli.invoke(["submit", str(tmp_path / "two.yaml")]) == 3
    assert capsys.readouterr().out == "submitted 2 jobs to q/s\n"


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ("{queue: q, jobSet: s, jbos: []}", "two.yaml, document 2 is not valid: "),
        ("{jobSet: s, jobs: []}", "two.yaml, document 2 names no queue"),
        ("{queue: q, jobSet: s}", "two.yaml, document 2 has neither jobs nor groups"),
    ],
)
def test_errors_name_the_document(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], second: str, says: str
) -> None:
    (tmp_path / "two.yaml").write_text(f"{FILE}\n---\n{second}")
    assert cli.invoke(["submit", str(tmp_path / "two.yaml")]) == 2
    assert says in capsys.readouterr().err
    assert server.asked == []


def test_a_refused_document_of_a_dry_run_is_named(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["POST /api/v1/jobs"] = lambda _: fake_server.problem(422, "wrong")
    (tmp_path / "two.yaml").write_text(f"{FILE}\n---\n{FILE}")
    assert cli.invoke(["submit", str(tmp_path / "two.yaml"), "--dry-run"]) == 3
    assert "document 1 of the file was refused" in capsys.readouterr().err
