"""What a start imports before it leads: each of these takes a tenth of a second or more."""

from tests.imported_modules import list_imported

LATER = {"numba", "fastapi", "uvicorn", "redis", "aiokafka", "jwt", "cryptography"}


def test_imports_before_the_first_lease_are_limited() -> None:
    modules = ("fairlead_scheduler.__main__", "fairlead_scheduler.service.service")
    assert LATER.isdisjoint(list_imported(*modules))
