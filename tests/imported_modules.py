"""Which modules a program imports when it starts."""

import subprocess
import sys


def list_imported(*modules: str) -> set[str]:
    """The names of all modules that a new process has when it has imported these."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    words = [sys.executable, "-P", "-c", code]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    return set(found.stdout.split())
