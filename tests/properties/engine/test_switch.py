"""A process goes on with compiled kernels where it began with Python."""

import subprocess
import sys

import pytest

from fairlead_scheduler.engine.compiler.decorators import is_compiled


@pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")
def test_the_switch_to_compiled_kernels_changes_no_decision() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.properties.engine.switched"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
