"""What `make setup` says on machines that lack something."""

import os
import shutil
import subprocess
import sys
import zipfile
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


def test_setup_without_python_names_the_package_to_install(tmp_path: Path) -> None:
    done = setup(tmp_path, machine(tmp_path))
    assert done.returncode == 1
    assert "apt-get install -y python3 python3-pip" in done.stderr


def test_setup_without_pip_names_the_package_to_install(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("target", ["up", "setup", "wheels", "check", "test", "bench", "clean"])
def test_make_knows_the_target(target: str) -> None:
    done = subprocess.run(
        ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_wheels_hold_all_files_of_their_packages(tmp_path: Path) -> None:
    """Modules, and the SQL, templates and static files that they read."""
    script = ROOT / "tools" / "setup.sh"
    subprocess.run([script, "wheels", tmp_path], check=True, timeout=120)
    packages = [
        file.parent
        for pattern in ("libs/*/*", "services/*/*", "clients/python/*")
        for file in ROOT.glob(f"{pattern}/__init__.py")
    ]
    wheels = {wheel.name.split("-")[0]: wheel for wheel in tmp_path.glob("*.whl")}
    assert wheels.keys() == {package.name for package in packages}
    for package in packages:
        wanted = {
            str(file.relative_to(package.parent))
            for file in package.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        }
        with zipfile.ZipFile(wheels[package.name]) as wheel:
            held = {name for name in wheel.namelist() if not name.endswith("/")}
        assert wanted == {name for name in held if ".dist-info/" not in name}
