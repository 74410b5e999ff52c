"""What the start of a lookout imports: what only webhooks need takes a tenth of a second."""

from tests.imported_modules import list_imported

NEEDLESS = {"aiohttp", "aiokafka", "jwt"}


def test_imports_of_a_lookout_are_limited() -> None:
    imported = list_imported("fairlead_lookout.__main__")
    assert "fairlead_lookout.service.webhooks.http_client" in imported
    assert NEEDLESS.isdisjoint(imported)
