"""What the start of an executor imports: each of these takes a tenth of a second or more."""

import subprocess
import sys

NEEDLESS = {"jwt", "cryptography.x509", "httpx2", "aiohttp", "kubernetes_asyncio", "aiokafka"}


def test_imports_of_an_executor_without_kubernetes_are_limited() -> None:
    code = "import sys, fairlead_executor.__main__; print(*sys.modules)"
    words = [sys.executable, "-P", "-c", code]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    imported = set(found.stdout.split())
    assert "fairlead_common.web.auth.authenticator" in imported
    assert NEEDLESS.isdisjoint(imported)
