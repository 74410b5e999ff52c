"""The examples of the Python client's page run as they stand, with warnings as errors, in an
environment into which nothing but the client's wheel was installed, as the page says."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.guide.guides import ROOT, blocks

EXAMPLES_S_MAX = 500
INSTALL_S_MAX = 300


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment made by the first commands of the page."""
    folder = tmp_path_factory.mktemp("wheels")
    typed, *_ = [block.text for block in blocks("python-client.md") if block.language == "sh"]
    making, _, installing = [line.split() for line in typed.splitlines()]
    assert making == ["make", "wheels"]
    run(str(ROOT / "tools" / "setup.sh"), "wheels", str(folder / "dist"))
    # uv, as the tests of containers: Debian's Python has no ensurepip
    run(uv(), "venv", "--quiet", "--python", sys.executable, str(folder / "my-environment"))
    interpreter = str(folder / "my-environment" / "bin" / "python")
    pip, *words, pattern = installing
    assert (pip, words) == ("my-environment/bin/pip", ["install"])
    (wheel,) = folder.glob(pattern)
    run(uv(), "pip", "install", "--quiet", "--python", interpreter, str(wheel))
    return interpreter


def uv() -> str:
    """The uv that tools/setup.sh made this environment with."""
    own = sorted((ROOT / ".tools").glob("uv-*/bin/uv"))
    found = str(own[-1]) if own else shutil.which("uv")
    assert found is not None, "run `make setup` first"
    return found


def run(*words: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    subprocess.run(words, env=environment, check=True, timeout=INSTALL_S_MAX)


def test_every_example_of_the_python_client_runs(
    home: Path, environment: Mapping[str, str], python: str
) -> None:
    program = home / "examples.py"
    examples = [block.text for block in blocks("python-client.md") if block.language == "python"]
    program.write_text("\n".join(examples))
    clean = {name: value for name, value in environment.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-W", "error", str(program)],
        env=clean,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=EXAMPLES_S_MAX,
    )
    assert done.returncode == 0, done.stderr
    assert "49" in done.stdout
    assert "/jobs/0/cpu" in done.stdout
    installed = [python, "-c", "import fairlead; print(fairlead.__file__)"]
    where = subprocess.run(
        installed, env=clean, cwd=home, capture_output=True, text=True, check=True
    )
    assert "my-environment" in where.stdout


def test_the_wheel_has_the_command_too(
    home: Path, environment: Mapping[str, str], python: str
) -> None:
    command = str(Path(python).with_name("fairlead"))
    words = [command, "get", "queues"]
    done = subprocess.run(
        words, env=environment, cwd=home, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "default" in done.stdout
