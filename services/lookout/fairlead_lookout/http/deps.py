"""The dependencies of the routes of API and pages, and the limit of open requests."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from fairlead_common.service.access_settings import Issuer
from fairlead_common.web.fair_semaphore import FairSemaphore, OpenRequestLimit
from fairlead_lookout.http.executor_logs import ExecutorLogs
from fairlead_lookout.http.pages.live_fragments import LiveFragments
from fairlead_lookout.http.visibility import Visibility
from fairlead_lookout.http.webhook_access import WebhookDeps
from fairlead_lookout.store.event_streams import StreamReader
from fairlead_lookout.store.queries.job_lists import JobLists
from fairlead_lookout.store.queries.view_reader import ViewReader
from fairlead_lookout.store.saved_view_store import SavedViewStore
from fairlead_lookout.store.topic_caches import (
    ClusterCache,
    ConfigurationCache,
    QuarantineCache,
    ReportCache,
)
from fairlead_lookout.store.view_progress import ViewProgress


class ExportDeps(msgspec.Struct, frozen=True):
    """What exports use: connections of their own, which callers share page by page."""

    view: ViewReader
    lists: JobLists
    shares: FairSemaphore


class Deps(msgspec.Struct, frozen=True):
    """The dependencies of the routes. `class_values`: the priority of each priority class."""

    view: ViewReader
    lists: JobLists
    exports: ExportDeps
    live: LiveFragments
    progress: ViewProgress
    streams: StreamReader
    reports: ReportCache
    clusters: ClusterCache
    configuration: ConfigurationCache
    quarantine: QuarantineCache
    logs: ExecutorLogs
    visibility: Visibility
    webhooks: WebhookDeps
    saved_views: SavedViewStore
    class_values: dict[str, int]
    issuers: Sequence[Issuer]
    open_streams: OpenRequestLimit
    open_waits: OpenRequestLimit


class Slot:
    """One of the open waits or streams, as a context.

    Raises a 429 `Problem` if the caller has as many as it is permitted, a 503 if all are taken.

    A stream's slot is checked by its route and taken by its generator: the generator of a client
    that disconnects before the first byte never starts, and could not give it back.
    """

    def __init__(self, deps: Deps, kind: Literal["waits", "streams"]) -> None:
        self._shares = deps.open_waits if kind == "waits" else deps.open_streams
        self._caller: str | None = None

    def check(self) -> None:
        """Raises a `Problem` when no slot is free."""
        self._shares.check()

    def __enter__(self) -> None:
        self._caller = self._shares.take()

    def __exit__(self, *_: object) -> None:
        assert self._caller is not None
        self._shares.give_back(self._caller)
