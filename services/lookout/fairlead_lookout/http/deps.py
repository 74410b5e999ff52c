"""What the routes of API and pages read from, and how many of them may wait at once."""

from typing import Literal

import msgspec

from fairlead_common.web.fair_semaphore import FairSemaphore, OpenRequestLimit
from fairlead_lookout.http.executor_logs import Logs
from fairlead_lookout.http.pages.live_fragments import LiveFragments
from fairlead_lookout.http.visibility import Sight
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store.event_streams import Tail
from fairlead_lookout.store.quarantine_cache import QuarantineMirror
from fairlead_lookout.store.queries.job_lists import Lists
from fairlead_lookout.store.queries.view_reader import View
from fairlead_lookout.store.topic_caches import Clusters, Configured, Reports
from fairlead_lookout.store.view_progress import Progress


class Exports(msgspec.Struct, frozen=True):
    """What exports read from: connections of their own, and callers take turns page by page."""

    view: View
    lists: Lists
    shares: FairSemaphore


class Parts(msgspec.Struct, frozen=True):
    """What the routes read from."""

    view: View
    lists: Lists
    exports: Exports
    live: LiveFragments
    progress: Progress
    tail: Tail
    reports: Reports
    clusters: Clusters
    configured: Configured
    quarantine: QuarantineMirror
    logs: Logs
    sight: Sight
    settings: Settings
    streams: OpenRequestLimit
    waits: OpenRequestLimit


class Place:
    """A place among the open waits or streams, as a context. Raises a 429 `Problem` when the caller
    has its share of them, a 503 when all are taken.

    A stream's place is checked by its route and taken by its generator: one whose reader is gone
    before the first byte never begins.
    """

    def __init__(self, parts: Parts, kind: Literal["waits", "streams"]) -> None:
        self._shares = parts.waits if kind == "waits" else parts.streams
        self._caller: str | None = None

    def check(self) -> None:
        """Raises a `Problem` when there is no place."""
        self._shares.check()

    def __enter__(self) -> None:
        self._caller = self._shares.take()

    def __exit__(self, *_: object) -> None:
        assert self._caller is not None
        self._shares.give_back(self._caller)
