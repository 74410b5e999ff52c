"""What the routes of API and pages read from, and how many of them may wait at once."""

from typing import Literal

import msgspec

from fairlead_common.problems import Problem
from fairlead_lookout.lists import Lists
from fairlead_lookout.logs import Logs
from fairlead_lookout.mirror import Clusters, Configured, Reports
from fairlead_lookout.progress import Progress
from fairlead_lookout.quarantined import QuarantineMirror
from fairlead_lookout.reads import View
from fairlead_lookout.settings import Settings
from fairlead_lookout.sight import Sight
from fairlead_lookout.streams import Tail


class Budget(msgspec.Struct):
    """How many streams and long polls are open now."""

    streams: int = 0
    waits: int = 0


class Parts(msgspec.Struct, frozen=True):
    """What the routes read from."""

    view: View
    lists: Lists
    progress: Progress
    tail: Tail
    reports: Reports
    clusters: Clusters
    configured: Configured
    quarantine: QuarantineMirror
    logs: Logs
    sight: Sight
    settings: Settings
    budget: Budget


class Place:
    """A place among the open waits or streams, as a context. Raises a 503 `Problem`.

    A stream's place is checked by its route and taken by its generator: one whose reader is gone
    before the first byte never begins.
    """

    def __init__(self, parts: Parts, kind: Literal["waits", "streams"]) -> None:
        self._budget = parts.budget
        self._kind = kind
        settings = parts.settings
        self._most = settings.waits_max if kind == "waits" else settings.streams_max

    def check(self) -> int:
        """How many are taken. Raises `Problem` when that is all there are."""
        taken: int = getattr(self._budget, self._kind)
        if taken >= self._most:
            raise Problem("unavailable", f"{taken} {self._kind} are open already.", retry_after_s=5)
        return taken

    def __enter__(self) -> None:
        setattr(self._budget, self._kind, self.check() + 1)

    def __exit__(self, *_: object) -> None:
        setattr(self._budget, self._kind, getattr(self._budget, self._kind) - 1)
