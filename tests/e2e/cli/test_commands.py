"""Every command of the command line against a real Fairlead that runs jobs on this machine."""

import json
import secrets
import signal
import subprocess

import pytest

from tests.e2e.cli.conftest import COMMAND_S_MAX, Terminal

SMALL = "defaults: {cpu: 100m, memory: 64Mi}"


@pytest.fixture
def job_set() -> str:
    return f"set-{secrets.token_hex(4)}"


def submitted(terminal: Terminal, job_set: str, jobs: str, *more: str, want: int = 0) -> list[str]:
    """Submit the jobs (YAML) to the queue `default`; their ids."""
    file = terminal.folder / "jobs.yaml"
    file.write_text(f"queue: default\njobSet: {job_set}\n{SMALL}\njobs: {jobs}\n")
    done = terminal("submit", str(file), "-o", "name", *more, want=want)
    return [line for line in done.stdout.splitlines() if len(line) == 28]


def test_a_command_runs_with_its_output_on_both_streams(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--", "sh", "-c", "echo out; echo err >&2")
    assert done.stdout == "out\n"
    assert done.stderr == "err\n"


def test_the_exit_code_of_a_command_is_that_of_run(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--", "sh", "-c", "echo before; exit 7", want=7)
    assert done.stdout == "before\n"
    assert "FAILED" in done.stderr


def test_a_command_that_does_not_exist_says_so(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--", "no-such-command-anywhere", want=127)
    assert "there is no command" in done.stderr.lower()


def test_a_long_output_arrives_whole(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--", "seq", "1", "20000")
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 20_001))


def test_a_command_gets_the_environment_asked_for(terminal: Terminal) -> None:
    words = ["sh", "-c", "echo $COLOUR $FAIRLEAD_QUEUE"]
    done = terminal("run", "--cpu", "100m", "-e", "COLOUR=green", "--", *words)
    assert done.stdout == "green default\n"


def test_ctrl_c_cancels_the_job(terminal: Terminal, job_set: str) -> None:
    words = terminal.words(
        ["run", "--cpu", "100m", "--jobset", job_set, "--", "sh", "-c", "echo on; sleep 600"]
    )
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=terminal.environment, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=COMMAND_S_MAX)
    assert process.returncode == 130, told
    assert "cancelling" in told
    terminal("watch", "default", job_set, want=1)
    assert "CANCELLED" in terminal("get", "jobs", "--jobset", job_set).stdout


def test_a_file_of_jobs_is_run_in_order_of_what_waits_for_what(
    terminal: Terminal, job_set: str
) -> None:
    jobs = "[{clientId: a, command: [echo, one]}, {command: [echo, two], after: [a]}]"
    first, second = submitted(terminal, job_set, jobs, "--wait")
    assert terminal("logs", first).stdout == "one\n"
    assert terminal("logs", second).stdout == "two\n"
    listed = json.loads(terminal("get", "jobs", "--jobset", job_set, "-o", "json").stdout)
    assert {job["state"] for job in listed} == {"SUCCEEDED"}


def test_jobs_come_from_standard_input_as_json(terminal: Terminal, job_set: str) -> None:
    text = json.dumps(
        {"queue": "default", "jobSet": job_set, "jobs": [{"command": ["true"], "cpu": "100m"}]}
    )
    assert "submitted 1 job to" in terminal("submit", "-", "--wait", stdin=text).stdout


def test_submitting_a_file_twice_runs_named_jobs_once(terminal: Terminal, job_set: str) -> None:
    jobs = "[{clientId: once, command: [echo, hello]}]"
    first = submitted(terminal, job_set, jobs, "--wait")
    assert submitted(terminal, job_set, jobs, "--wait") == first
    found = json.loads(terminal("get", "jobs", "--jobset", job_set, "-o", "json").stdout)
    assert len(found) == 1


def test_waiting_for_a_job_that_fails_ends_with_1_and_names_it(
    terminal: Terminal, job_set: str
) -> None:
    file = terminal.folder / "bad.yaml"
    file.write_text(
        f"queue: default\njobSet: {job_set}\n{SMALL}\n"
        "jobs: [{clientId: good, command: ['true']}, {clientId: bad, command: ['false']}]\n"
    )
    done = terminal("submit", str(file), "--watch", want=1)
    assert "bad: FAILED" in done.stderr
    assert "good" not in done.stderr


def test_a_dry_run_creates_nothing(terminal: Terminal, job_set: str) -> None:
    submitted(terminal, job_set, "[{command: ['true']}]", "--dry-run")
    assert terminal("get", "jobs", "--jobset", job_set).stdout == ""


def test_every_fault_of_a_file_is_named_and_nothing_is_created(
    terminal: Terminal, job_set: str
) -> None:
    file = terminal.folder / "bad.yaml"
    file.write_text(
        f"queue: default\njobSet: {job_set}\n"
        "jobs: [{command: [a], cpu: 1.5x}, {command: [a], memory: -1}, {comand: [a]}]\n"
    )
    told = terminal("submit", str(file), want=3).stderr
    for pointer in ("/jobs/0/cpu", "/jobs/1/memory", "/jobs/2/comand"):
        assert pointer in told
    assert terminal("get", "jobs", "--jobset", job_set).stdout == ""


def test_an_unknown_queue_is_refused(terminal: Terminal) -> None:
    assert "nowhere" in terminal("run", "--queue", "nowhere", "--", "true", want=3).stderr


def test_queues_are_made_listed_and_not_made_twice(terminal: Terminal) -> None:
    name = f"q-{secrets.token_hex(4)}"
    assert "created" in terminal("queue", "create", name, "--weight", "2.5").stdout
    assert "already" in terminal("queue", "create", name, want=3).stderr
    assert name in terminal("get", "queues", "-o", "name").stdout.split()
    assert json.loads(terminal("queue", "get", name, "-o", "json").stdout)["weight"] == 2.5


def test_a_job_is_described_with_its_run_and_spec(terminal: Terminal, job_set: str) -> None:
    (job_id,) = submitted(terminal, job_set, "[{command: [echo, hello], labels: {a: b}}]", "--wait")
    told = terminal("describe", "job", job_id, "--spec").stdout
    for text in (job_id, "SUCCEEDED", "a=b", "RUN", "hello"):
        assert text in told
    assert (
        json.loads(terminal("describe", "job", job_id, "-o", "json").stdout)["runs"][0]["run"] == 1
    )


def test_a_job_that_waits_says_why(terminal: Terminal, job_set: str) -> None:
    (job_id,) = submitted(terminal, job_set, "[{command: ['true'], hold: true}]")
    assert "held" in terminal("why", job_id).stdout
    terminal("cancel", job_id)


def test_a_job_larger_than_any_node_is_rejected_with_the_reason(terminal: Terminal) -> None:
    told = terminal("run", "--cpu", "9999", "--", "true", want=1).stderr
    assert "REJECTED" in told


def test_a_job_set_is_cancelled(terminal: Terminal, job_set: str) -> None:
    jobs = "[{command: [sleep, '600']}, {command: [sleep, '600'], hold: true}]"
    submitted(terminal, job_set, jobs)
    told = terminal("cancel", "--queue", "default", "--jobset", job_set, "--reason", "enough")
    assert "requested" in told.stdout
    last = terminal("watch", "default", job_set, "--json", want=1).stdout.splitlines()[-1]
    assert json.loads(last)["states"] == {"CANCELLED": 2}


def test_job_sets_are_listed_with_counts(terminal: Terminal, job_set: str) -> None:
    submitted(terminal, job_set, "[{command: ['true']}, {command: ['true']}]", "--wait")
    rows = terminal("get", "jobsets", "--queue", "default").stdout.splitlines()
    (row,) = [row for row in rows if job_set in row]
    assert row.split() == ["default", job_set, "2", "2", "2", "SUCCEEDED"]


def test_a_log_is_followed_to_its_end_and_cut_to_its_tail(terminal: Terminal, job_set: str) -> None:
    command = "['sh', '-c', 'for i in 1 2 3; do echo $i; sleep 0.2; done']"
    (job_id,) = submitted(terminal, job_set, f"[{{command: {command}}}]")
    terminal("watch", "default", job_set)
    assert terminal("logs", job_id, "-f").stdout == "1\n2\n3\n"
    assert terminal("logs", job_id, "--tail", "1").stdout == "3\n"


def test_a_job_that_nobody_knows_is_said_so(terminal: Terminal) -> None:
    told = terminal("describe", "job", "0" * 28, want=3).stderr
    assert "no job" in told


def test_a_wrong_token_is_refused_with_a_hint(terminal: Terminal) -> None:
    told = terminal("get", "queues", want=3, FAIRLEAD_TOKEN="fl_wrong").stderr
    assert "hint" in told


def test_a_server_that_is_not_there_ends_with_4(terminal: Terminal) -> None:
    told = terminal("--server", "http://127.0.0.1:1", "get", "queues", want=4).stderr
    assert "fairlead up" in told


def test_help_names_the_commands_of_other_packages(terminal: Terminal) -> None:
    words = terminal("--help").stdout.split()
    assert {"up", "token", "submit", "run", "watch"} <= set(words)
