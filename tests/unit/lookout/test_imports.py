"""What the start of a lookout imports: what only webhooks need takes a tenth of a second."""

import subprocess
import sys

NEEDLESS = {"aiohttp", "aiokafka", "jwt"}


def test_imports_of_a_lookout_are_limited() -> None:
    code = "import sys, fairlead_lookout.__main__; print(*sys.modules)"
    words = [sys.executable, "-P", "-c", code]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    imported = set(found.stdout.split())
    assert "fairlead_lookout.service.webhooks.http_client" in imported
    assert NEEDLESS.isdisjoint(imported)
