"""The examples of the Python client's page run as they stand, with warnings as errors."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.guide.guides import blocks

EXAMPLES_S_MAX = 500


def test_every_example_of_the_python_client_runs(
    home: Path, environment: Mapping[str, str]
) -> None:
    program = home / "examples.py"
    examples = [block.text for block in blocks("python-client.md") if block.language == "python"]
    program.write_text("\n".join(examples))
    done = subprocess.run(
        ["python", "-W", "error", str(program)],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=EXAMPLES_S_MAX,
    )
    assert done.returncode == 0, done.stderr
    assert "49" in done.stdout
    assert "/jobs/0/cpu" in done.stdout
