"""Nothing is left to compile once a scheduler is warm."""

import subprocess
import sys

import pytest

from fairlead_scheduler.engine.compiler.decorators import is_compiled


@pytest.mark.skipif(not is_compiled(), reason="nothing is compiled here")
def test_no_round_compiles_a_kernel_after_warm_up() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.properties.engine.warmed"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
