"""`fairlead resubmit --failed`, and how job sets count what was submitted again."""

import pytest

from fairlead import cli
from tests.unit.client.fake_server import Server

SET = {"queue": "q", "jobSet": "s", "jobs": 5, "states": {"FAILED": 2, "SUCCEEDED": 3}}
DONE = {"action": "a", "kind": "resubmit", "queue": "q", "jobSet": "s", "state": "DONE"}


def answers(server: Server, count: int) -> None:
    """The server finds so many jobs that failed."""
    server.routes["GET /api/v1/jobsets/q/s"] = lambda _: SET
    server.routes["POST /api/v1/jobs/resubmit"] = lambda _: {"action": "a", "total": count}
    server.routes["GET /api/v1/actions/a"] = lambda _: {
        **DONE,
        "total": count,
        "done": count,
        "made": count,
        "position": "p",
    }


def test_failed_jobs_of_a_job_set_are_resubmitted(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(server, 2)
    assert cli.invoke(["resubmit", "--failed", "--queue", "q", "--jobset", "s"]) == 0
    assert capsys.readouterr().out == "submitted 2 jobs to q/s\n"
    (posted,) = [each.json() for each in server.asked if each.method == "POST"]
    assert isinstance(posted, dict)
    assert posted["filter"] == {"queue": "q", "jobSet": "s"}
    assert posted["failed"] is True


@pytest.mark.parametrize("chosen", [["--failed"], ["--into", "t"]], ids=lambda words: words[0])
def test_the_memory_of_resubmitted_jobs_is_multiplied(server: Server, chosen: list[str]) -> None:
    answers(server, 2)
    server.routes["GET /api/v1/jobs"] = lambda _: {"groups": []}
    words = ["resubmit", *chosen, "--queue", "q", "--jobset", "s", "--memory-factor", "2"]
    assert cli.invoke(words) == 0
    (posted,) = [each.json() for each in server.asked if each.method == "POST"]
    assert isinstance(posted, dict)
    assert posted["memoryFactor"] == 2.0


def test_a_memory_factor_outside_of_its_range_is_refused(server: Server) -> None:
    for factor in ("0.5", "17", "nan", "much"):
        words = ["resubmit", "--failed", "--queue", "q", "--jobset", "s", "--memory-factor"]
        assert cli.invoke([*words, factor]) == 2, factor
    assert server.asked == []


def test_a_job_set_without_failures_is_not_an_error(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(server, 0)
    assert cli.invoke(["resubmit", "--failed", "--queue", "q", "--jobset", "s"]) == 0
    assert "nothing to resubmit" in capsys.readouterr().out


@pytest.mark.parametrize(
    "more", [["--state", "FAILED"], ["--into", "t"], ["one"]], ids=lambda words: words[0]
)
def test_failed_is_combined_with_a_job_set_only(server: Server, more: list[str]) -> None:
    words = ["resubmit", "--failed", "--queue", "q", "--jobset", "s", *more]
    assert cli.invoke(words) == 2
    assert server.asked == []


def test_a_job_set_whose_failures_were_resubmitted_succeeded(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/jobsets/q/s"] = lambda _: {**SET, "superseded": 2}
    assert cli.invoke(["watch", "q", "s"]) == 0
    assert "2 FAILED (2 submitted again)" in capsys.readouterr().out
