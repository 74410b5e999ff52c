"""Logs of several jobs, wide lists, and draining nodes."""

import pytest

from fairlead import cli
from tests.unit.client.fake_server import Reply, Request, Server

ONE, TWO = "0a" + "0" * 26, "0b" + "0" * 26
JOB = {
    "id": ONE,
    "queue": "q",
    "jobSet": "s",
    "state": "FAILED",
    "clientId": "one",
    "exitCode": 3,
    "category": "exit-code",
    "node": "n7",
    "started": "2026-01-01T00:00:00.000Z",
    "ended": "2026-01-01T00:01:05.000Z",
}


def test_lines_of_several_jobs_begin_with_their_names(
    server: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    listed = [JOB, {**JOB, "id": TWO, "clientId": "two"}]
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": listed}
    server.routes[f"GET /api/v1/jobs/{ONE}/logs"] = lambda _: Reply(b"a\nb\n")
    server.routes[f"GET /api/v1/jobs/{TWO}/logs"] = lambda _: Reply(b"no newline")
    words = ["logs", "--queue", "q", "--jobset", "s", "--state", "FAILED"]
    assert cli.invoke(words) == 0
    assert capfdbinary.readouterr().out == b"one | a\none | b\ntwo | no newline\n"
    assert server.asked[0].query["state"] == "FAILED"


def test_a_job_without_a_log_does_not_hide_the_others(
    server: Server, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    server.routes[f"GET /api/v1/jobs/{TWO}/logs"] = lambda _: Reply(b"b\n")
    assert cli.invoke(["logs", ONE, TWO]) == 0
    output = capfdbinary.readouterr()
    assert output.out == f"{TWO} | b\n".encode()
    assert ONE.encode() in output.err


@pytest.mark.parametrize("words", [["logs"], ["logs", "-f", ONE, TWO]], ids=" ".join)
def test_logs_need_a_job_and_follow_only_one(server: Server, words: list[str]) -> None:
    assert cli.invoke(words) == 2


def test_a_wide_list_has_exit_codes_nodes_and_times(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.routes["GET /api/v1/jobs"] = lambda _: {"jobs": [JOB]}
    assert cli.invoke(["get", "jobs", "-o", "wide"]) == 0
    output = capsys.readouterr().out
    for text in ("EXIT", "exit-code", "n7", "RAN FOR", "1m5s"):
        assert text in output


def cluster(server: Server, *runs: int) -> None:
    """A cluster of two nodes; the first has so many runs, each time that it is looked at."""
    left = list(runs)

    def nodes(_: Request) -> object:
        now = left.pop(0) if len(left) > 1 else left[0]
        return {"nodes": [{"node": "n1", "runs": now}, {"node": "n2", "runs": 5}]}

    server.routes["GET /api/v1/clusters/c/nodes"] = nodes
    server.routes["GET /api/v1/queues"] = lambda _: {"queues": [{"name": "a"}, {"name": "b"}]}
    cordon = {"executor": "c", "node": "n1", "cordoned": True}
    server.routes["PUT /api/v1/executors/c/nodes/n1"] = lambda _: cordon
    server.routes["POST /api/v1/jobs/preempt"] = lambda _: {"position": "p", "matched": 1}


def test_the_list_of_nodes_says_which_are_avoided_and_why(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    avoided = {"failures": 3, "reason": "no disk", "until": "2026-01-01T00:00:00Z"}
    node = {"node": "n1", "unschedulable": True, "avoided": avoided}
    server.routes["GET /api/v1/clusters/c/nodes"] = lambda _: {"nodes": [node]}
    assert cli.invoke(["get", "nodes", "--cluster", "c"]) == 0
    said = "avoided until 2026-01-01T00:00:00Z: 3 runs in a row failed to start"
    assert said in capsys.readouterr().out


def test_a_node_is_drained_of_the_runs_of_all_queues(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(server, 2, 1, 0)
    assert cli.invoke(["drain", "c", "n1", "--yes", "--reason", "new disks"]) == 0
    assert "preemption of 2 runs requested" in capsys.readouterr().out
    changes = [each for each in server.asked if each.method in ("PUT", "POST")]
    assert changes[0].json() == {"cordoned": True, "reason": "new disks"}
    filters = [body["filter"] for each in changes[1:] if isinstance(body := each.json(), dict)]
    assert filters == [{"queue": queue, "cluster": "c", "node": "n1"} for queue in ("a", "b")]


def test_a_dry_run_of_a_drain_changes_nothing(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(server, 2)
    assert cli.invoke(["drain", "c", "--dry-run"]) == 0
    assert "would preempt 7 runs on cluster c" in capsys.readouterr().out
    assert {each.method for each in server.asked} == {"GET"}


def test_a_node_that_does_not_exist_is_not_drained(server: Server) -> None:
    cluster(server, 2)
    assert cli.invoke(["drain", "c", "n9", "--yes"]) == 3
    assert {each.method for each in server.asked} == {"GET"}
