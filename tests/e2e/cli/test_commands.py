"""Every command of the command line against a real Fairlead that runs jobs on this machine."""

import csv
import json
import secrets
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cli.conftest import COMMAND_S_MAX, Terminal

EXAMPLES = Path(__file__).parents[3] / "examples" / "manifests"
LONG = "[seq, '1', '200000']"
SMALL = "defaults: {cpu: 100m, memory: 64Mi}"


@pytest.fixture
def job_set() -> str:
    return f"set-{secrets.token_hex(4)}"


def submitted(terminal: Terminal, job_set: str, jobs: str, *more: str, want: int = 0) -> list[str]:
    """Submit the jobs (YAML) to the queue `default`, and ask until they are listed; their ids."""
    file = terminal.folder / "jobs.yaml"
    file.write_text(f"queue: default\njobSet: {job_set}\n{SMALL}\njobs: {jobs}\n")
    done = terminal("submit", str(file), "-o", "name", *more, want=want)
    ids = [line for line in done.stdout.splitlines() if len(line) == 28]
    listed: set[str] = set()
    while not more and not listed.issuperset(ids):
        listed = set(terminal("get", "jobs", "--jobset", job_set, "-o", "name").stdout.split())
    return ids


def test_a_command_runs_with_its_output_on_both_streams(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--", "sh", "-c", "echo out; echo err >&2")
    assert done.stdout == "out\n"
    assert done.stderr == "err\n"


def test_the_exit_code_of_a_command_is_that_of_run(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--", "sh", "-c", "echo before; exit 7", want=7)
    assert done.stdout == "before\n"
    assert "FAILED" in done.stderr


def test_a_nonexistent_command_is_reported(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--", "no-such-command-anywhere", want=127)
    assert "there is no command" in done.stderr.lower()


def test_a_simulation_begins_with_the_jobs_of_the_running_server(
    terminal: Terminal, job_set: str
) -> None:
    runs = "{clientId: a, command: [sleep, '600']}"
    waits = "{clientId: b, command: [sleep, '600'], after: [a]}"
    first, second = submitted(terminal, job_set, f"[{runs}, {waits}]")
    while "RUNNING" not in terminal("describe", "job", first).stdout:
        pass
    (terminal.folder / "more.yaml").write_text("jobs: [{clientId: c, command: [x]}]")
    options = ("--from-live", "--jobs", "more.yaml")
    terminal("simulate", *options, "--run-seconds", "500", "--out", "out")
    with (terminal.folder / "out" / "jobs.csv").open() as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert float(rows[first]["start_s"]) == 0
    assert 0 < float(rows[first]["end_s"]) < 500, "it has run for a moment"
    assert float(rows[second]["start_s"]) >= float(rows[first]["end_s"])
    assert rows["c"]["state"] == "SUCCEEDED"
    assert "--run-seconds" in terminal("simulate", *options, want=2).stderr
    terminal("cancel", first, second)


def test_a_long_output_is_complete(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--", "seq", "1", "20000")
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 20_001))


def test_a_command_gets_the_requested_environment(terminal: Terminal) -> None:
    words = ["sh", "-c", "echo $COLOUR $FAIRLEAD_QUEUE"]
    done = terminal("run", "--cpu", "100m", "-e", "COLOUR=green", "--", *words)
    assert done.stdout == "green default\n"


def test_a_command_runs_in_the_current_folder(
    terminal: Terminal,
) -> None:
    (terminal.folder / "hello.py").write_text("open('out.txt', 'w').write('hello')")
    terminal("run", "--cpu", "100m", "--", "python3", "hello.py")
    assert (terminal.folder / "out.txt").read_text() == "hello"


def test_jobs_of_a_file_run_in_the_current_folder_or_their_own(
    terminal: Terminal, job_set: str
) -> None:
    (terminal.folder / "data").mkdir()
    jobs = "[{command: [touch, here]}, {command: [touch, there], workingDir: data}]"
    submitted(terminal, job_set, jobs, "--wait")
    assert (terminal.folder / "here").exists()
    assert (terminal.folder / "data" / "there").exists()


def test_a_scratch_run_has_an_empty_folder_of_its_own(terminal: Terminal) -> None:
    done = terminal("run", "--cpu", "100m", "--scratch", "--", "sh", "-c", "ls -A; pwd")
    assert done.stdout.count("\n") == 1
    assert str(terminal.folder) not in done.stdout


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
    _, printed = process.communicate(timeout=COMMAND_S_MAX)
    assert process.returncode == 130, printed
    assert "cancelling" in printed
    terminal("watch", "default", job_set, want=1)
    assert "CANCELLED" in terminal("get", "jobs", "--jobset", job_set).stdout


def test_a_file_of_jobs_runs_in_order_of_dependencies(terminal: Terminal, job_set: str) -> None:
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


def test_a_list_is_exported_and_a_queue_described(terminal: Terminal, job_set: str) -> None:
    (job,) = submitted(terminal, job_set, "[{command: ['true']}]", "--wait")
    heads, line = terminal("export", "jobs", "--jobset", job_set).stdout.splitlines()
    row = dict(zip(heads.split(","), line.split(","), strict=False))
    assert (row["id"], row["jobSet"]) == (job, job_set)
    printed = terminal("describe", "queue", "default", "-o", "json").stdout
    assert json.loads(printed)["queue"] == "default"


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


def test_every_error_of_a_file_is_listed_and_nothing_is_created(
    terminal: Terminal, job_set: str
) -> None:
    file = terminal.folder / "bad.yaml"
    file.write_text(
        f"queue: default\njobSet: {job_set}\n"
        "jobs: [{command: [a], cpu: 1.5x}, {command: [a], memory: -1}, {comand: [a]}]\n"
    )
    printed = terminal("submit", str(file), want=3).stderr
    for pointer in ("/jobs/0/cpu", "/jobs/1/memory", "/jobs/2/comand"):
        assert pointer in printed
    assert terminal("get", "jobs", "--jobset", job_set).stdout == ""


def test_an_unknown_queue_is_refused(terminal: Terminal) -> None:
    assert "nowhere" in terminal("run", "--queue", "nowhere", "--", "true", want=3).stderr


def test_queues_are_created_once_and_listed(terminal: Terminal) -> None:
    name = f"q-{secrets.token_hex(4)}"
    assert "created" in terminal("queue", "create", name, "--weight", "2.5").stdout
    assert "already" in terminal("queue", "create", name, want=3).stderr
    assert name in terminal("get", "queues", "-o", "name").stdout.split()
    assert json.loads(terminal("queue", "get", name, "-o", "json").stdout)["weight"] == 2.5


def test_a_job_is_described_with_its_run_and_spec(terminal: Terminal, job_set: str) -> None:
    (job_id,) = submitted(terminal, job_set, "[{command: [echo, hello], labels: {a: b}}]", "--wait")
    printed = terminal("describe", "job", job_id, "--spec").stdout
    for text in (job_id, "SUCCEEDED", "a=b", "RUN", "hello"):
        assert text in printed
    assert (
        json.loads(terminal("describe", "job", job_id, "-o", "json").stdout)["runs"][0]["run"] == 1
    )


def test_why_prints_the_reason_of_a_waiting_job(terminal: Terminal, job_set: str) -> None:
    (job_id,) = submitted(terminal, job_set, "[{command: ['true'], hold: true}]")
    assert "held" in terminal("why", job_id).stdout
    terminal("cancel", job_id)


def test_a_job_larger_than_any_node_is_rejected_with_the_reason(terminal: Terminal) -> None:
    printed = terminal("run", "--cpu", "9999", "--", "true", want=1).stderr
    assert "REJECTED" in printed


def test_a_job_set_is_cancelled(terminal: Terminal, job_set: str) -> None:
    jobs = "[{command: [sleep, '600']}, {command: [sleep, '600'], hold: true}]"
    submitted(terminal, job_set, jobs)
    printed = terminal("cancel", "--queue", "default", "--jobset", job_set, "--reason", "enough")
    assert "requested" in printed.stdout
    last = terminal("watch", "default", job_set, "--json", want=1).stdout.splitlines()[-1]
    assert json.loads(last)["states"] == {"CANCELLED": 2}


def test_job_sets_are_listed_with_counts(terminal: Terminal, job_set: str) -> None:
    submitted(terminal, job_set, "[{command: ['true']}, {command: ['true']}]", "--wait")
    rows = terminal("get", "jobsets", "--queue", "default").stdout.splitlines()
    (row,) = [row for row in rows if job_set in row]
    assert row.split() == ["default", job_set, "2", "2", "2", "SUCCEEDED"]


def test_a_log_is_followed_to_its_end_and_limited_to_its_tail(
    terminal: Terminal, job_set: str
) -> None:
    command = "['sh', '-c', 'for i in 1 2 3; do echo $i; sleep 0.2; done']"
    (job_id,) = submitted(terminal, job_set, f"[{{command: {command}}}]")
    terminal("watch", "default", job_set)
    assert terminal("logs", job_id, "-f").stdout == "1\n2\n3\n"
    assert terminal("logs", job_id, "--tail", "1").stdout == "3\n"
    printed = terminal("logs", job_id, "--since", "soon", want=3).stderr
    assert "Write a duration like 30s, 10m, 2h or 1h30m, or a time like 2026-01-31" in printed
    printed = terminal("logs", job_id, "--since", "10m", want=3).stderr
    assert "Cluster local does not know when the lines of a log were written" in printed


def test_an_unknown_job_is_reported(terminal: Terminal) -> None:
    printed = terminal("describe", "job", "0" * 28, want=3).stderr
    assert "does not exist" in printed


def test_a_wrong_token_is_refused_with_a_hint(terminal: Terminal) -> None:
    printed = terminal("get", "queues", want=3, FAIRLEAD_TOKEN="fl_wrong").stderr
    assert "hint" in printed


def test_a_missing_server_exits_with_4(terminal: Terminal) -> None:
    printed = terminal("--server", "http://127.0.0.1:1", "get", "queues", want=4).stderr
    assert "fairlead up" in printed


def test_help_names_the_commands_of_other_packages(terminal: Terminal) -> None:
    words = terminal("--help").stdout.split()
    assert {"up", "token", "submit", "run", "watch"} <= set(words)


def test_jobs_are_found_by_label_and_cancelled_by_filter(terminal: Terminal, job_set: str) -> None:
    jobs = "[{hold: true, command: [a], labels: {x: y}}, {hold: true, command: [a]}]"
    first, _ = submitted(terminal, job_set, jobs)
    chosen = ["--queue", "default", "--jobset", job_set]
    assert terminal("get", "jobs", *chosen, "--label", "x=y", "-o", "name").stdout.split() == [
        first
    ]
    printed = terminal("cancel", *chosen, "--label", "x=y", "--dry-run").stdout
    assert printed.startswith("would cancel 1 job; nothing was done")
    terminal("cancel", *chosen)
    terminal("watch", "default", job_set, want=1)
    printed = terminal("cancel", *chosen, "--state", "QUEUED").stderr
    assert "no such jobs" in printed


def test_why_describes_the_end_of_a_job(terminal: Terminal, job_set: str) -> None:
    command = "[{command: [sh, -c, 'exit 3'], retry: {limit: 1, on: [exit-code]}}]"
    (job_id,) = submitted(terminal, job_set, command, "--wait", want=1)
    job = json.loads(terminal("describe", "job", job_id, "-o", "json").stdout)
    printed = terminal("why", job_id).stdout.splitlines()
    assert printed[0].startswith("FAILED: ")
    assert [line[:5] for line in printed[2:4]] == ["Run 1", "Run 2"]
    assert f"fairlead logs default/{job_set}/{job['clientId']}" in printed[-1]


def test_nodes_are_cordoned_and_listed(terminal: Terminal) -> None:
    (node,) = json.loads(terminal("get", "nodes", "-o", "json").stdout)
    place = (node["cluster"], node["node"])
    terminal("cluster", "cordon", *place, "--reason", "new disk")
    try:
        printed = terminal("get", "nodes", "--cluster", node["cluster"]).stdout
        assert "yes: new disk" in printed
    finally:
        terminal("cluster", "uncordon", *place)
    assert "no clusters" not in terminal("get", "clusters").stdout
    printed = terminal("cluster", "cordon", "nowhere", want=3).stderr
    assert "get clusters" in printed


def test_a_token_works_until_it_is_revoked(terminal: Terminal) -> None:
    made = json.loads(terminal("token", "create", "bot", "--role", "viewer", "-o", "json").stdout)
    mine = {"FAIRLEAD_TOKEN": made["token"]}
    terminal("get", "queues", **mine)
    assert "hint" in terminal("queue", "create", "no", want=3, **mine).stderr
    assert made["id"] in terminal("token", "list", "--all", "-o", "name").stdout.split()
    terminal("token", "revoke", made["id"])
    terminal("get", "queues", want=3, **mine)


def test_the_doctor_finds_nothing_wrong(terminal: Terminal) -> None:
    printed = terminal("doctor").stdout
    assert "BAD" not in printed
    assert {"version", "lag", "clock", "credentials"} <= set(printed.replace(":", "").split())


@pytest.mark.parametrize("command", ["run", "logs"])
def test_a_closed_output_pipe_is_not_an_error(
    terminal: Terminal, job_set: str, command: str
) -> None:
    arguments = ["run", "--cpu", "100m", "--", "seq", "1", "200000"]
    if command == "logs":
        arguments = ["logs", *submitted(terminal, job_set, f"[{{command: {LONG}}}]", "--wait")]
    words = terminal.words(arguments)
    piped = f"{shlex.join(words)} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", piped],
        env=terminal.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=COMMAND_S_MAX,
    )
    assert done.stdout == "1\n141\n"
    assert done.stderr == ""


def test_ctrl_c_ends_waiting_and_reports_that_jobs_continue(
    terminal: Terminal, job_set: str
) -> None:
    text = json.dumps(
        {"queue": "default", "jobSet": job_set, "jobs": [{"hold": True, "command": ["a"]}]}
    )
    path = terminal.folder / "jobs.json"
    path.write_text(text)
    ways_out = f"`fairlead cancel --queue default --jobset={job_set}` ends them"
    for arguments, said in (
        (["submit", str(path), "--watch"], ways_out),
        (["watch", "default", job_set, "--json"], ""),
    ):
        process = subprocess.Popen(
            terminal.words(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**terminal.environment, "PYTHONUNBUFFERED": "1"},
            text=True,
        )
        assert process.stdout is not None
        while job_set not in (line := process.stdout.readline()) or "submitted" in line:
            assert line, process.communicate()
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=COMMAND_S_MAX)
        assert process.returncode == 130
        assert said in printed if said else printed == ""
    terminal("cancel", "--queue", "default", "--jobset", job_set)


def test_following_a_log_waits_for_the_run_with_a_message(terminal: Terminal, job_set: str) -> None:
    (held,) = submitted(terminal, job_set, "[{hold: true, command: [echo, hello], cpu: 100m}]")
    process = subprocess.Popen(
        terminal.words(["logs", held, "-f"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=terminal.environment,
        text=True,
    )
    assert process.stderr is not None
    assert "no output yet: QUEUED: The job is held" in process.stderr.readline()
    terminal("release", held)
    assert process.communicate(timeout=COMMAND_S_MAX) == ("hello\n", "")
    assert process.returncode == 0


def test_bash_completes_commands(terminal: Terminal) -> None:
    text = """
        eval "$(fairlead completion bash)"
        COMP_WORDS=(fairlead queue cor); COMP_CWORD=2
        complete -p fairlead | sed 's/.*-F \\([^ ]*\\).*/\\1/' > function
        $(cat function) fairlead; echo "${COMPREPLY[@]}"
    """
    own = str(Path(terminal.words([])[0]).parent)
    done = subprocess.run(
        ["bash", "-c", text],
        env={**terminal.environment, "PATH": f"{own}:/usr/bin:/bin"},
        cwd=terminal.folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=COMMAND_S_MAX,
    )
    assert done.stdout.split() == ["cordon"], done.stderr


def test_unicode_names_are_printed_unchanged(terminal: Terminal, job_set: str) -> None:
    name = f"{job_set}-größe-漢字"
    submitted(terminal, name, "[{clientId: été, command: ['true']}]", "--wait")
    printed = terminal("get", "jobs", "--jobset", name).stdout
    assert name in printed
    assert "été" in printed


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_the_examples_of_manifests_run_to_success(terminal: Terminal, name: str) -> None:
    example = EXAMPLES / name
    done = terminal("submit", str(example), "--wait")
    assert "submitted" in done.stdout
    again = terminal("submit", str(example))
    assert "exist already" in again.stdout


def test_indexed_jobs_print_their_index(terminal: Terminal) -> None:
    terminal("submit", str(EXAMPLES / "indexed-job.yaml"), "--jobset", "index", "--wait")
    done = terminal("logs", "default/index/indexed-2")
    assert done.stdout == "this is index 2\n"
