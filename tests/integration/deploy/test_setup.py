"""What `make setup` says on machines that lack something."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def machine(folder: Path, *programs: str) -> dict[str, str]:
    """The environment of a machine with these programs only, besides those that all have."""
    programs_folder = folder / "bin"
    programs_folder.mkdir()
    for name in ("sh", "dirname", "rm", "mv", "touch", *programs):
        found = shutil.which(name)
        assert found is not None
        (programs_folder / name).symlink_to(found)
    return {"PATH": str(programs_folder), "HOME": str(folder)}


def setup(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script as in a fresh clone that holds nothing else."""
    (folder / "clone" / "tools").mkdir(parents=True)
    script = shutil.copy(ROOT / "tools" / "setup.sh", folder / "clone" / "tools")
    return subprocess.run(
        [script, "run"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_without_python_it_says_what_to_install(tmp_path: Path) -> None:
    done = setup(tmp_path, machine(tmp_path))
    assert done.returncode == 1
    assert "apt-get install -y python3 python3-pip" in done.stderr


def test_without_pip_it_says_what_to_install(tmp_path: Path) -> None:
    environment = machine(tmp_path)
    empty = tmp_path / "empty"
    words = [sys.executable, "-m", "venv", "--without-pip", str(empty)]
    subprocess.run(words, check=True, timeout=60)
    (tmp_path / "bin" / "python3").symlink_to(empty / "bin" / "python3")
    # a link into the environment keeps its prefix only when called by its own path
    environment["PATH"] = f"{empty / 'bin'}{os.pathsep}{environment['PATH']}"
    done = setup(tmp_path, environment)
    assert done.returncode == 1
    assert "apt-get install -y python3-pip" in done.stderr


@pytest.mark.parametrize("target", ["up", "setup", "check", "test", "bench", "clean"])
def test_make_knows_the_target(target: str) -> None:
    done = subprocess.run(
        ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
