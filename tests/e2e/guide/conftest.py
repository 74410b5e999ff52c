"""A new user: a clean home, and the guide's first command running in another terminal."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from fairlead_standalone.servers.addresses import free_port
from fairlead_standalone.service.testing import KERNELS, wait_for
from tests.e2e.guide.guides import blocks

ENVIRONMENT_NAMES: Final = ("PYTHONPATH", "LANG", "TMPDIR")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What a person has who has just installed Fairlead."""
    home = tmp_path_factory.mktemp("home")
    variables = {
        name: os.environ[name] for name in ("PYTHONPATH", "LANG", "TMPDIR") if name in os.environ
    }
    own = str(Path(sys.executable).parent)
    return {
        **KERNELS,
        **variables,
        "HOME": str(home),
        "PATH": f"{own}:/usr/local/bin:/usr/bin:/bin",
    }


@pytest.fixture(scope="session")
def home(environment: Mapping[str, str]) -> Iterator[Path]:
    """The home of somebody who has typed the guide's first command in another terminal."""
    folder = Path(environment["HOME"])
    (typed,) = [block for block in blocks("guide.md") if block.name == "up"]
    words = [*typed.text.split(), "--port", str(free_port())]
    printed = folder / "up.txt"
    with (
        printed.open("wb") as output,
        subprocess.Popen(
            words, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT
        ) as running,
    ):
        try:
            wait_for(lambda: "Try it" in printed.read_text() or running.poll() is not None)
            assert running.poll() is None, printed.read_text()
            yield folder
        finally:
            running.terminate()
