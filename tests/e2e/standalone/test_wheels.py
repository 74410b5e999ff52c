"""Wheels of the tree, as the Python client's page makes them, in a clean environment."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service.testing import KERNELS, wait_for
from tests.conftest import ROOT

BOUND_S = 500
NOT_OURS = ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS")


def run(*words: str | Path, environment: Mapping[str, str], cwd: Path) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(
        words,
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_wheels_in_a_clean_environment_start_fairlead_and_run_a_job(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    installing = {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_OURS and not name.startswith("FAIRLEAD")
    }
    environment = {**KERNELS, **installing, "HOME": str(home)}
    wheels = tmp_path / "dist"
    run(ROOT / "tools" / "setup.sh", "wheels", wheels, environment=installing, cwd=ROOT)
    names = {wheel.name.partition("-")[0] for wheel in wheels.glob("*.whl")}
    assert {"fairlead", "fairlead_common", "fairlead_standalone"} <= names

    own = tmp_path / "my-environment"
    uv = next(iter((ROOT / ".tools").glob("uv-*/bin/uv")), Path("uv"))
    run(uv, "venv", "--quiet", "--python", sys.executable, own, environment=installing, cwd=home)
    install = (uv, "pip", "install", "--quiet", "--python", own / "bin" / "python")
    run(*install, *sorted(wheels.glob("*.whl")), environment=installing, cwd=home)

    command, data = own / "bin" / "fairlead", home / "data"
    printed = home / "up.txt"
    with (
        printed.open("wb") as output,
        subprocess.Popen(
            [command, "up", "--data", data, "--port", str(free_port())],
            env=environment,
            cwd=home,
            stdout=output,
            stderr=output,
        ) as up,
    ):
        try:
            wait_for(lambda: (data / "address").exists() or up.poll() is not None)
            variables = {**environment, "FAIRLEAD_DATA": str(data)}
            words = (command, "run", "--", "echo", "hello")
            assert run(*words, environment=variables, cwd=home) == "hello\n", printed.read_text()
            assert "FAILED" not in run(command, "get", "jobs", environment=variables, cwd=home)
        finally:
            up.terminate()
    assert "ended; the data stays in" in printed.read_text()
