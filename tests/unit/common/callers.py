"""Callers of an app under test."""

from fairlead_common.domain.permissions import Caller
from fairlead_common.web.auth.authenticator import Headers

ADMIN = Caller("tester", ("admin",))


class Only:
    """An `Identify` that takes everybody for this one caller."""

    def __init__(self, caller: Caller = ADMIN) -> None:
        self.caller = caller

    def find_cached(self, headers: Headers) -> Caller | None:
        """The caller, without looking."""
        return self.caller

    async def find(self, headers: Headers) -> Caller:
        """The same."""
        return self.caller

    def is_costly(self, headers: Headers) -> bool:
        """Nothing is checked."""
        return False
