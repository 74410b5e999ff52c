"""How commands name jobs: ids, client ids of a job set, and the job set that was used last."""

import os
from pathlib import Path

import pytest

from fairlead import cli
from fairlead.cli.support import recent_job_set
from tests.unit.client.fake_server import FILE, Request, Server, accept

ID = "0a" + "0" * 26
DETAIL = {"id": ID, "queue": "q", "jobSet": "s", "state": "SUCCEEDED", "clientId": "one"}


def cancelled(server: Server, *words: str) -> object:
    """The jobs that the server is asked to cancel."""
    server.routes["POST /api/v1/jobs/cancel"] = lambda _: {"position": "p", "matched": 1}
    assert cli.invoke(["cancel", *words]) == 0
    body = server.asked[-1].json()
    assert isinstance(body, dict)
    return body["ids"]


def submit(server: Server, folder: Path, text: str = FILE) -> None:
    server.routes["POST /api/v1/jobs"] = accept
    file = folder / "jobs.yaml"
    file.write_text(text)
    assert cli.invoke(["submit", str(file)]) == 0


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([ID], [ID]),
        (["q/s/one"], ["q/s/one"]),
        (["q/deep/set/one"], ["q/deep/set/one"]),
        (["one", "two", "--queue", "q", "--jobset", "s"], ["q/s/one", "q/s/two"]),
        (["one", ID, "--jobset", "s"], ["default/s/one", ID]),
    ],
)
def test_a_job_is_named_by_its_id_or_its_client_id(
    server: Server, words: list[str], asked: list[str]
) -> None:
    assert cancelled(server, *words) == asked


def test_a_client_id_alone_refers_to_the_last_job_set(server: Server, tmp_path: Path) -> None:
    submit(server, tmp_path)
    submit(server, tmp_path, FILE.replace("jobSet: s", "jobSet: later"))
    assert cancelled(server, "one") == ["q/later/one"]
    assert cancelled(server, "one", "--jobset", "s") == ["default/s/one"]


def test_a_client_id_of_no_known_job_set_is_not_guessed(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["why", "one"]) == 2
    assert "--jobset NAME" in capsys.readouterr().err
    assert server.asked == []


def test_the_next_command_waits_for_a_recent_submission(server: Server, tmp_path: Path) -> None:
    submit(server, tmp_path)
    server.routes["GET /api/v1/jobs/q%2Fs%2Fone"] = lambda _: DETAIL
    assert cli.invoke(["why", "one"]) == 0
    assert server.asked[-1].query["after"] == "p"


def test_a_damaged_file_is_ignored(server: Server, tmp_path: Path) -> None:
    submit(server, tmp_path)
    recent_job_set.state_file(os.environ).write_text("{")
    assert recent_job_set.load(server.url) is None
    submit(server, tmp_path)
    assert recent_job_set.load(server.url) is not None


def test_logs_show_the_given_name_of_the_job(server: Server) -> None:
    def log(asked: Request) -> object:
        return {"asked": asked.path}

    server.routes["GET /api/v1/jobs/q%2Fs%2Fone/logs"] = log
    assert cli.invoke(["logs", "q/s/one"]) == 0
