"""Lookout as a whole: what it opens, the routes it offers, the tasks it needs."""

from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Final

from fastapi import APIRouter

from fairlead_common.db import Pool, migrate, open_pool
from fairlead_common.db.connection_pool import AWAY
from fairlead_common.domain.errors import WorldError
from fairlead_common.log import EventLog, topics
from fairlead_common.log import coverage as log_coverage
from fairlead_common.log.coverage import WHAT_TO_DO
from fairlead_common.log.opening import open_log
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk
from fairlead_common.service.health import Check, Degraded
from fairlead_common.web.auth import Authenticator
from fairlead_common.web.auth.queue_permissions import QueuePermissions
from fairlead_common.web.fair_semaphore import FairSemaphore, OpenRequestLimit
from fairlead_lookout.http.api import routes
from fairlead_lookout.http.deps import Exports, Parts
from fairlead_lookout.http.executor_logs import Logs
from fairlead_lookout.http.pages import page_routes, rendering
from fairlead_lookout.http.pages.live_fragments import LiveFragments
from fairlead_lookout.http.visibility import Sight
from fairlead_lookout.service import metrics, retention
from fairlead_lookout.service.fairness_loop import FairnessFolder
from fairlead_lookout.service.fold_loop import Folder
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store import view_coverage
from fairlead_lookout.store.event_streams import Streams, Tail
from fairlead_lookout.store.fold.fold_store import SCHEMA
from fairlead_lookout.store.quarantine_cache import QuarantineMirror
from fairlead_lookout.store.queries.job_lists import Lists
from fairlead_lookout.store.queries.view_reader import View
from fairlead_lookout.store.topic_caches import Clusters, Configured, Reports
from fairlead_lookout.store.view_progress import Progress

LAG_S_MAX: Final = 30.0
OWN_CONNECTIONS: Final = 4
"""For callers' credentials, positions and upkeep: no statement of a caller delays them."""
LIVE_PLACES: Final = 2
"""Live fragments that are rendered at the same time, one of each caller."""
WAITING_MAX: Final = 64
"""Costly statements and exports of one caller that wait; more are refused."""


class Service:
    """An async context manager; whoever enters it runs `tasks()` and serves `routers()`."""

    def __init__(
        self, settings: Settings, log: ValidatingLog, pool: Pool, parts: Parts, folder: Folder
    ) -> None:
        self.parts = parts
        self.identify = parts.sight.authenticate
        self.excuse = page_routes.excuses(rendering.Templates(rendering.assets()), settings.oidc)
        self.folder = folder
        self._settings = settings
        self._log = log
        self._pool = pool
        self._stack = AsyncExitStack()
        self._caught_up_s = clock.monotonic_s()

    @classmethod
    async def open(cls, settings: Settings, log: EventLog | None = None) -> "Service":
        """Everything opened and migrated. `log` is closed by whoever gave it."""
        async with AsyncExitStack() as stack:
            if log is None:
                log = await open_log(settings.log_url, Disk(settings.disk), wait_s=settings.away_s)
                stack.push_async_callback(log.close)
            log = screened = ValidatingLog(log, Quarantine("lookout", settings.skip_records))
            for topic in (
                topics.jobs(),
                topics.clusters(),
                topics.config(),
                topics.reports(),
                topics.quarantine(),
            ):
                await log.create(topic)
            pool = await open_pool(
                _by_index(settings.database_url),
                size_max=OWN_CONNECTIONS,
                name="fairlead-lookout",
                is_reset=False,
            )
            stack.push_async_callback(pool.close)
            await migrate(pool, SCHEMA, "fairlead_lookout.store", "sql/migrations")
            progress = Progress(pool)
            streams, tail = Streams(settings.redis_url), Tail(settings.redis_url)
            stack.push_async_callback(streams.close)
            stack.push_async_callback(tail.close)
            clusters = Clusters(log, away_s=settings.away_s)
            logs = Logs(clusters, settings.signing_key)
            stack.push_async_callback(logs.close)
            view, lists = await _open_views(settings, stack)
            live = LiveFragments(
                progress, FairSemaphore("live fragments", LIVE_PLACES, 1, settings.streams_max)
            )
            stack.push_async_callback(live.close)
            authenticate = Authenticator(pool, settings)
            parts = Parts(
                view=view,
                lists=lists,
                exports=await _open_exports(settings, stack),
                live=live,
                progress=progress,
                tail=tail,
                reports=Reports(log, away_s=settings.away_s),
                clusters=clusters,
                configured=Configured(log, away_s=settings.away_s),
                quarantine=QuarantineMirror(log, away_s=settings.away_s),
                logs=logs,
                sight=Sight(authenticate, QueuePermissions(pool)),
                settings=settings,
                streams=OpenRequestLimit(
                    "streams",
                    "streamsPerCallerMax",
                    settings.streams_max,
                    settings.streams_per_caller_max,
                ),
                waits=OpenRequestLimit(
                    "long polls",
                    "waitsPerCallerMax",
                    settings.waits_max,
                    settings.waits_per_caller_max,
                ),
            )
            folder = Folder(log, streams, progress, settings)
            service = cls(settings, screened, pool, parts, folder)
            service._stack = stack.pop_all()
            return service
        raise AssertionError("unreachable")

    async def __aenter__(self) -> "Service":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def routers(self) -> list[APIRouter]:
        """The routes of API and pages."""
        return [*routes.routes(self.parts), page_routes.routes(self.parts)]

    def checks(self) -> Mapping[str, Check]:
        """What `/readyz` asks."""
        return {
            "lookout view": self._check_view,
            "lookout quarantine": self._log.quarantine.check(),
            "scheduler view": self._check_scheduler,
        }

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """What must run beside the server; none of them ends by itself."""
        return [
            self.folder.run(),
            self.parts.progress.watch(),
            self.parts.tail.run(),
            self.parts.reports.run(),
            self.parts.clusters.run(),
            self.parts.configured.run(),
            self.parts.quarantine.run(),
            self._log.quarantine.run(self._log.inner),
            FairnessFolder(self._log, self._settings).run(),
            retention.keep_tidy(self._pool, self._settings),
        ]

    async def _check_view(self) -> str | None:
        """What is wrong with the view, or how far it is behind, once that lasts."""
        if self.folder.full is not None:
            return Degraded(self.folder.full)
        if self.folder.unusable is not None:
            # What the view holds is shown: a restart or another process would change nothing.
            return Degraded(str(self.folder.unusable))
        if self.folder.trouble is not None:
            return self.folder.trouble
        try:
            end = await self._log.end_positions(topics.JOBS)
            await self.parts.progress.refresh()
        except WorldError as error:
            return str(error)
        known = self.parts.progress.positions
        lags = {number: max(0, at - known.get(number, 0)) for number, at in end.items()}
        metrics.LAG_MESSAGES.set(sum(lags.values()))
        # A stopped partition never catches up: the check of the quarantine says so.
        stopped = self.folder.stopped.keys() | self.parts.quarantine.stopped_partitions()
        behind = sum(lag for number, lag in lags.items() if number not in stopped)
        now_s = clock.monotonic_s()
        if behind == 0:
            self._caught_up_s = now_s
        elif now_s - self._caught_up_s > LAG_S_MAX:
            return f"the view is {behind} messages behind the log"
        return await self._check_gaps()

    async def _check_gaps(self) -> str | None:
        """What the view lacks, until a repair has settled it."""
        if self.folder.unrepaired is None:
            return None
        state = await log_coverage.read_log_state(self._log, topics.JOBS)
        self.folder.unrepaired = gap = await view_coverage.find_unrepaired(self._pool, state)
        return None if gap is None else Degraded(f"{gap.describe()} {WHAT_TO_DO}")

    async def _check_scheduler(self) -> str | None:
        """Whether the log can continue the scheduler's checkpoint, for who only sees lookout."""
        try:
            gap = await view_coverage.find_scheduler_gap(self._pool, self._log)
        except AWAY as error:
            return f"Postgres is away: {error}"
        return None if gap is None else Degraded(f"{gap.describe()} {WHAT_TO_DO}")


async def _open_views(settings: Settings, stack: AsyncExitStack) -> tuple[View, Lists]:
    """What pages and the API read from: callers share its statements."""
    pool = await _open_reading_pool(settings, stack, settings.pool_size, settings.query_s)
    places = max(1, settings.pool_size - settings.costly_max)
    per_caller = max(1, places * 3 // 4)
    view = View(
        pool, FairSemaphore("queries", places, per_caller, settings.requests.concurrent_max)
    )
    costly = View(pool, FairSemaphore("costly queries", settings.costly_max, 1, WAITING_MAX))
    return view, Lists(view, costly)


async def _open_exports(settings: Settings, stack: AsyncExitStack) -> Exports:
    size = settings.export_pool_size
    view = View(await _open_reading_pool(settings, stack, size, settings.export_query_s))
    return Exports(
        view=view, lists=Lists(view), shares=FairSemaphore("exports", size, 1, WAITING_MAX)
    )


async def _open_reading_pool(
    settings: Settings, stack: AsyncExitStack, size_max: int, query_s: float
) -> Pool:
    """Connections for statements of callers, which the database ends after `query_s`."""
    pool = await open_pool(
        _by_index(settings.database_url),
        size_max=size_max,
        name="fairlead-lookout",
        is_reset=False,
        query_s_max=query_s,
    )
    stack.push_async_callback(pool.close)
    return pool


def _by_index(url: str) -> str:
    """The URL with statements that go by indexes: statistics lag behind a table that grows fast,
    and a plan that reads a whole one would be very dear."""
    rules = "enable_seqscan=off&enable_hashjoin=off&enable_mergejoin=off"
    return f"{url}{'&' if '?' in url else '?'}{rules}"
