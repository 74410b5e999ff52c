"""Processes that are stopped for a while and go on: no healthy run is given up for it."""

import os
import signal
import time
from pathlib import Path

from fairlead import Client
from fairlead_standalone.service.testing import PYTHON_ENGINE, StandaloneInstallation

TIMEOUT_S = 6.0
FROZEN_S = TIMEOUT_S + 2.0
SETTINGS = {
    **PYTHON_ENGINE,
    "FAIRLEAD_EXECUTOR_STALE_S": "4",
    "FAIRLEAD_EXECUTOR_TIMEOUT_S": f"{TIMEOUT_S:g}",
}


def test_a_scheduler_that_was_frozen_gives_up_no_run_of_an_executor_that_reported(
    tmp_path: Path,
) -> None:
    lines, go_on = tmp_path / "lines", tmp_path / "go-on"
    wait = f"while [ ! -e {go_on} ]; do sleep 0.2; done"
    command = ["/bin/sh", "-c", f'echo "$FAIRLEAD_RUN" >> {lines}; {wait}']
    with StandaloneInstallation(tmp_path, environment=SETTINGS) as standalone:
        standalone.start()
        with Client(standalone.address, token=standalone.token) as client:
            client.submit("default", "set", [{"clientId": "a", "command": command, "cpu": "50m"}])
            standalone.wait_for(lambda: lines.exists() and lines.read_text() != "")
            frozen = standalone.child("scheduler")
            os.kill(frozen.pid, signal.SIGSTOP)
            time.sleep(FROZEN_S)  # the fault itself: nothing shows that the time is over
            if frozen.is_running():
                os.kill(frozen.pid, signal.SIGCONT)
            standalone.wait_ready()
            client.submit("default", "next", [{"clientId": "b", "command": ["true"], "cpu": "50m"}])
            assert client.wait("default", "next").states == {"SUCCEEDED": 1}
            go_on.touch()
            assert client.wait("default", "set").states == {"SUCCEEDED": 1}
    assert lines.read_text().split() == ["1"]
