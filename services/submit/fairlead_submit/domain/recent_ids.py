"""The ids that this process has accepted lately, and that lookout's view perhaps does not show yet.

A client can send the same id twice within the time that the view needs. Without this, a second
request with another job would be accepted, and its job would not exist: the first event of an id
counts. Requests that went to other processes are not known here.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

RECENT_S: Final = 60.0
"""An id is known for at least this long, unless there are too many, and at most three times as
long."""
IDS_MAX: Final = 50_000
"""Of each half of the time."""


class Accepted(NamedTuple):
    """The digest of what the client sent under an id, and where it is in the log."""

    digest: str
    positions: Mapping[int, int]


class IdConflict(Exception):
    """Ids of a request belong to something else. `digests`: of what has them."""

    def __init__(self, digests: Mapping[str, str]) -> None:
        super().__init__("an id is used by a different job")
        self.digests: Final = digests


class RecentIds:
    """Ids of jobs, groups and arrays that have a client id, with what was sent under each."""

    def __init__(self) -> None:
        self._pending: dict[str, str] = {}
        self._newer: dict[str, Accepted] = {}
        self._older: dict[str, Accepted] = {}
        self._began_s = float("-inf")

    def find(self, ids: Iterable[str], now_s: float) -> dict[str, Accepted]:
        """What is known of these ids. Requests that are not in the log yet do not count."""
        self._rotate(now_s)
        newer, older = self._newer, self._older
        if not newer and not older:
            return {}
        return {
            each: found for each in ids if (found := newer.get(each) or older.get(each)) is not None
        }

    @contextmanager
    def claim(self, digests: Mapping[str, str], now_s: float) -> Iterator[None]:
        """Reserve these ids while the block appends them. Raises `IdConflict` if one of them was
        accepted, or is being appended, with another digest."""
        taken = {each: self._pending[each] for each in self._pending.keys() & digests.keys()}
        taken |= {each: found.digest for each, found in self.find(digests, now_s).items()}
        conflicts = {each: other for each, other in taken.items() if other != digests[each]}
        if conflicts:
            raise IdConflict(conflicts)
        own = {each: digest for each, digest in digests.items() if each not in self._pending}
        self._pending |= own
        try:
            yield
        finally:
            for each in own:
                del self._pending[each]

    def add(self, digests: Mapping[str, str], positions: Mapping[int, int], now_s: float) -> None:
        """These are in the log, before these positions."""
        self._rotate(now_s)
        self._newer |= {each: Accepted(digest, positions) for each, digest in digests.items()}

    def _rotate(self, now_s: float) -> None:
        passed_s = now_s - self._began_s
        if passed_s < RECENT_S and len(self._newer) < IDS_MAX:
            return
        self._older = self._newer if passed_s < 2 * RECENT_S else {}
        self._newer, self._began_s = {}, now_s
