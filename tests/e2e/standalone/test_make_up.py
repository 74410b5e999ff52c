"""`make up` in a fresh clone: what a newcomer types first."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service.testing import KERNELS, wait_for
from tests.conftest import ROOT

BOUND_S = 280


def test_a_fresh_clone_starts_and_runs_a_job_with_one_command(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git clone, so that it cannot be cloned")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True, timeout=60)
    environment = {n: v for n, v in os.environ.items() if n not in ("VIRTUAL_ENV", "MAKEFLAGS")}
    environment = {**KERNELS, **environment}
    words = ["make", "up", f"ARGS=--data {tmp_path / 'data'} --port {free_port()}"]
    with (
        (tmp_path / "printed").open("wb") as printed,
        subprocess.Popen(
            words,
            cwd=clone,
            env=environment,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        ) as make,
    ):
        try:
            wait_for(lambda: (tmp_path / "data" / "address").exists() or make.poll() is not None)
            done = subprocess.run(
                [clone / ".venv" / "bin" / "fairlead", "run", "--", "echo", "hello"],
                env={**environment, "FAIRLEAD_DATA": str(tmp_path / "data")},
                capture_output=True,
                text=True,
                timeout=BOUND_S,
                check=False,
            )
            said = (tmp_path / "printed").read_text()
            assert (done.returncode, done.stdout) == (0, "hello\n"), f"{done.stderr}\n{said}"
        finally:
            os.killpg(make.pid, signal.SIGINT)
    assert "ended; the data stays in" in (tmp_path / "printed").read_text()
