"""Which modules a program imports when it starts."""

import os
import subprocess
import sys


def list_imported(*modules: str, **environment: str) -> set[str]:
    """The names of all modules that a new process has when it has imported these.

    `environment`: variables beside the ones of this process.
    """
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    words = [sys.executable, "-P", "-c", code]
    variables = {**os.environ, **environment}
    found = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
    return set(found.stdout.split())
