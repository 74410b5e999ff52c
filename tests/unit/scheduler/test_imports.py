"""What a start imports before it leads: each of these takes a tenth of a second or more."""

import os
import subprocess
import sys

LATER = {"fastapi", "uvicorn", "redis", "aiokafka", "jwt", "cryptography"}


def test_imports_before_the_first_lease_are_limited() -> None:
    modules = "fairlead_scheduler.__main__, fairlead_scheduler.service.service"
    code = f"import sys, {modules}; print(*sys.modules)"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    found = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert LATER.isdisjoint(found.stdout.split())
