"""The command `fairlead`, as a process of its own, for a running installation."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from fairlead_standalone.service.testing import StandaloneInstallation

COMMAND: Final = str(Path(sys.executable).with_name("fairlead"))
COMMAND_S_MAX: Final = 240.0


def run_fairlead(
    standalone: StandaloneInstallation, *words: str, given: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run `fairlead WORDS` with the data folder of this installation and no other settings.

    `given`: its standard input.
    """
    environment = {name: value for name, value in os.environ.items() if "FAIRLEAD" not in name}
    return subprocess.run(
        [COMMAND, *words],
        env={**environment, "FAIRLEAD_DATA": str(standalone.data)},
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S_MAX,
    )
