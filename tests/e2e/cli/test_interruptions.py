"""What the command line does when parts of Fairlead are killed in the middle."""

import json
import os
import secrets
import signal
import subprocess
from pathlib import Path

import pytest

from fairlead_standalone.service.testing import StandaloneInstallation
from tests.e2e.cli.conftest import COMMAND_S_MAX, Terminal


def begin(terminal: Terminal, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        terminal.words(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=terminal.environment,
        text=True,
    )


@pytest.mark.parametrize("part", ["web", "executor", "scheduler", "valkey", "postgres"])
def test_the_output_of_a_command_is_complete_despite_kills(
    standalone: StandaloneInstallation, terminal: Terminal, part: str, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    rest = f"until [ -e {go} ]; do sleep 0.1; done; for i in 2 3 4 5 6; do echo $i; sleep 0.5; done"
    process = begin(terminal, "run", "--cpu", "100m", "--", "sh", "-c", f"echo 1; {rest}")
    assert process.stdout is not None
    first = process.stdout.readline()
    os.kill(standalone.child(part).pid, signal.SIGKILL)
    go.touch()
    later, output = process.communicate(timeout=COMMAND_S_MAX)
    assert process.returncode == 0, output
    assert (first, later) == ("1\n", "2\n3\n4\n5\n6\n"), output


def test_a_watch_continues_after_the_server_is_killed(
    standalone: StandaloneInstallation, terminal: Terminal, tmp_path: Path
) -> None:
    job_set = f"set-{secrets.token_hex(4)}"
    go = tmp_path / "go"
    job = {"command": ["sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done"], "cpu": "100m"}
    text = json.dumps({"queue": "default", "jobSet": job_set, "jobs": [job]})
    terminal("submit", "-", stdin=text)
    process = begin(terminal, "watch", "default", job_set, "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["jobs"] == 1
    os.kill(standalone.child("web").pid, signal.SIGKILL)
    go.touch()
    rest, output = process.communicate(timeout=COMMAND_S_MAX)
    assert process.returncode == 0, output
    assert json.loads(rest.splitlines()[-1])["states"] == {"SUCCEEDED": 1}
