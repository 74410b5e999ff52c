"""Airflow for tests, in an environment of its own: it pins versions that Fairlead does not.

    python -m tests.airflow_environment build    # once, half a minute: make airflow
    python -m tests.airflow_environment check    # say whether it is missing

The environment has what `clients/airflow/uv.lock` locks, in a folder below `~/.cache/fairlead` (or
`FAIRLEAD_CACHE`) that is named after the lock and the version of Python. Tests never install:
without that folder they are skipped and name the command.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from fairlead_common.domain.errors import WorldError

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / "clients" / "airflow" / "uv.lock"
SETUP: Final = ROOT / "tools" / "setup.sh"
BUILD_S_MAX: Final = 1_800
COMPLETE: Final = ".complete"


class AirflowUnavailable(WorldError):
    """Airflow cannot be had here; the message says what is missing."""


def find() -> Path:
    """The Python of the environment. Raises `AirflowUnavailable`."""
    folder = _folder()
    if not (folder / COMPLETE).exists():
        raise AirflowUnavailable(
            "Airflow has not been installed; install it once (half a minute) with: make airflow"
        )
    return folder / "bin" / "python"


def build() -> Path:
    """Install Airflow if it is not there; the folder. Raises `AirflowUnavailable`."""
    folder = _folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "airflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / COMPLETE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder)
            (folder / COMPLETE).touch()
    return folder


def _install(folder: Path) -> None:
    words = [str(SETUP), "airflow", str(folder)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=BUILD_S_MAX
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AirflowUnavailable(f"{' '.join(words)}: {error}") from error
    if done.returncode != 0:
        raise AirflowUnavailable(f"{' '.join(words)} failed: {done.stderr[-1000:].strip()}")


def _folder() -> Path:
    cache = Path(os.environ.get("FAIRLEAD_CACHE") or Path.home() / ".cache" / "fairlead")
    version = ".".join(map(str, sys.version_info[:2]))
    key = hashlib.sha256(LOCK.read_bytes() + version.encode()).hexdigest()
    return cache / f"airflow-{key[:16]}"


def say(text: str) -> None:
    """Say it where pytest does not swallow it."""
    print(text, file=sys.__stderr__, flush=True)


def main() -> None:
    """See the head of this file."""
    parser = argparse.ArgumentParser(description="Airflow for tests.")
    parser.add_argument("what", choices=["build", "check"])
    what = parser.parse_args().what
    try:
        if what == "build":
            say(f"Airflow for tests is in {build()}")
        else:
            find()
    except AirflowUnavailable as error:
        say(f"No Airflow, so tests that need it are skipped: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
