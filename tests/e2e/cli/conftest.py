"""A terminal in which the commands of `fairlead` are typed."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead_standalone.service.testing import StandaloneInstallation
from tests.e2e.commands import COMMAND

COMMAND_S_MAX = 180.0


class Terminal:
    """Types `fairlead ...` where FAIRLEAD_DATA names the running server's folder."""

    def __init__(self, data: Path, folder: Path) -> None:
        variables = {name: value for name, value in os.environ.items() if "FAIRLEAD" not in name}
        self.environment = {**variables, "FAIRLEAD_DATA": str(data), "HOME": str(folder)}
        self.folder = folder

    def words(self, arguments: Sequence[str]) -> list[str]:
        """The command line."""
        return [COMMAND, *arguments]

    def __call__(
        self, *arguments: str, stdin: str = "", want: int = 0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one command; it must end with the exit code wanted, and never with a traceback."""
        done = subprocess.run(
            self.words(arguments),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S_MAX,
            env={**self.environment, **environment},
            cwd=self.folder,
        )
        report = f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        assert done.returncode == want, report
        assert "Traceback" not in done.stderr, report
        return done


@pytest.fixture
def terminal(standalone: StandaloneInstallation, tmp_path: Path) -> Terminal:
    return Terminal(standalone.data, tmp_path)
