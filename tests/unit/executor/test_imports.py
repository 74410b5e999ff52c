"""What the start of an executor imports: each of these takes a tenth of a second or more."""

from tests.imported_modules import list_imported

NEEDLESS = {"jwt", "cryptography.x509", "httpx2", "aiohttp", "kubernetes_asyncio", "aiokafka"}


def test_imports_of_an_executor_without_kubernetes_are_limited() -> None:
    imported = list_imported("fairlead_executor.__main__")
    assert "fairlead_common.web.auth.authenticator" in imported
    assert NEEDLESS.isdisjoint(imported)
