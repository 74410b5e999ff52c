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
    assert capsys.readouterr().out == ""


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
