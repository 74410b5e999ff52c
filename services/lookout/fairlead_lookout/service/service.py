"""The service: everything that lookout opens, its routes, its readiness checks and its tasks."""

from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Final

from fastapi import APIRouter

from fairlead_common.db import Pool, open_pool
from fairlead_common.db.connection_pool import CONNECTION_ERRORS
from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.secret_values import Keyring
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
from fairlead_lookout.domain.webhooks.target_addresses import parse_networks
from fairlead_lookout.domain.webhooks.webhook_requests import Permitted
from fairlead_lookout.http.api.routes import make_routers
from fairlead_lookout.http.deps import Deps, ExportDeps
from fairlead_lookout.http.executor_logs import ExecutorLogs
from fairlead_lookout.http.pages.about_pages import HealthDeps
from fairlead_lookout.http.pages.error_pages import build_error_page
from fairlead_lookout.http.pages.live_fragments import LiveFragments
from fairlead_lookout.http.pages.page_routes import make_router
from fairlead_lookout.http.pages.rendering import load_templates
from fairlead_lookout.http.visibility import Visibility
from fairlead_lookout.http.webhook_access import WebhookDeps
from fairlead_lookout.service import metrics
from fairlead_lookout.service.fairness_loop import FairnessLoop
from fairlead_lookout.service.fold_loop import FoldLoop
from fairlead_lookout.service.retention import run_retention
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.service.webhooks.worker import WebhookWorker
from fairlead_lookout.store import view_coverage
from fairlead_lookout.store.event_streams import StreamReader, StreamWriter
from fairlead_lookout.store.queries.job_lists import JobLists
from fairlead_lookout.store.queries.view_reader import ViewReader
from fairlead_lookout.store.saved_view_store import SavedViewStore, migrate_saved_views
from fairlead_lookout.store.topic_caches import (
    ClusterCache,
    ConfigurationCache,
    QuarantineCache,
    ReportCache,
)
from fairlead_lookout.store.view_progress import ViewProgress
from fairlead_lookout.store.view_schema import migrate_schema
from fairlead_lookout.store.webhooks.delivery_store import DeliveryStore
from fairlead_lookout.store.webhooks.webhook_schema import migrate_webhooks
from fairlead_lookout.store.webhooks.webhook_store import WebhookStore

LAG_S_MAX: Final = 30.0
NO_CHECKS: Final[Mapping[str, Check]] = {}
OWN_CONNECTIONS: Final = 4
"""For credentials, positions and retention: statements of callers do not delay them."""
LIVE_RENDERINGS: Final = 4
"""Live fragments that are rendered at the same time; of one caller, if no other waits."""
WAITING_MAX: Final = 64
"""Costly statements and exports of one caller that can wait; more are refused."""


class Service:
    """An async context manager. Inside it, run `tasks()` and serve `routers()`."""

    def __init__(
        self,
        settings: Settings,
        log: ValidatingLog,
        pool: Pool,
        deps: Deps,
        fold_loop: FoldLoop,
        webhooks: WebhookWorker | None,
    ) -> None:
        self.deps = deps
        self.identify = deps.visibility.authenticate
        self.error_page = build_error_page(load_templates(), settings.oidc)
        self.fold_loop = fold_loop
        self.webhooks = webhooks
        self._settings = settings
        self._log = log
        self._pool = pool
        self._stack = AsyncExitStack()
        self._caught_up_s = clock.monotonic_s()

    @classmethod
    async def open(cls, settings: Settings, log: EventLog | None = None) -> "Service":
        """Open everything and migrate the schema. The caller closes a `log` that it passes."""
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
                _prefer_indexes(settings.database_url),
                size_max=OWN_CONNECTIONS,
                name="fairlead-lookout",
            )
            stack.push_async_callback(pool.close)
            await migrate_schema(pool)
            await migrate_webhooks(pool)
            await migrate_saved_views(pool)
            progress = ViewProgress(pool)
            writer, reader = StreamWriter(settings.redis_url), StreamReader(settings.redis_url)
            stack.push_async_callback(writer.close)
            stack.push_async_callback(reader.close)
            clusters = ClusterCache(log, away_s=settings.away_s)
            logs = ExecutorLogs(clusters, settings.signing_key)
            stack.push_async_callback(logs.close)
            view, lists = await _open_views(settings, stack)
            live = LiveFragments(progress, _share_renderings(settings.streams_max))
            stack.push_async_callback(live.close)
            authenticate = Authenticator(pool, settings)
            configuration = ConfigurationCache(
                log, away_s=settings.away_s, on_change=progress.notice_configuration
            )
            webhooks = _open_worker(settings, pool, configuration, stack)
            deps = Deps(
                view=view,
                lists=lists,
                exports=await _open_exports(settings, stack),
                live=live,
                progress=progress,
                streams=reader,
                reports=ReportCache(log, away_s=settings.away_s),
                clusters=clusters,
                configuration=configuration,
                quarantine=QuarantineCache(log, away_s=settings.away_s),
                logs=logs,
                visibility=Visibility(authenticate, QueuePermissions(pool)),
                webhooks=_make_webhook_deps(settings, pool),
                saved_views=SavedViewStore(pool),
                class_values={each.name: each.value for each in settings.priority_classes},
                issuers=settings.oidc,
                open_streams=OpenRequestLimit(
                    "streams",
                    "streamsPerCallerMax",
                    settings.streams_max,
                    settings.streams_per_caller_max,
                ),
                open_waits=OpenRequestLimit(
                    "long polls",
                    "waitsPerCallerMax",
                    settings.waits_max,
                    settings.waits_per_caller_max,
                ),
            )
            fold_loop = FoldLoop(log, writer, progress, settings)
            service = cls(settings, screened, pool, deps, fold_loop, webhooks)
            service._stack = stack.pop_all()
            return service
        raise AssertionError("unreachable")

    async def __aenter__(self) -> "Service":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def routers(self, others: Mapping[str, Check] = NO_CHECKS) -> list[APIRouter]:
        """The routes of the API and the pages. `others`: checks of services in this process, which
        the page About shows too."""
        health = HealthDeps(checks={**others, **self.checks()}, read_lags=self._read_lags)
        return [*make_routers(self.deps), make_router(self.deps, health)]

    def checks(self) -> Mapping[str, Check]:
        """The readiness checks."""
        return {
            "lookout view": self._check_view,
            "lookout quarantine": self._log.quarantine.check(),
            "scheduler view": self._check_scheduler,
        }

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """The tasks to run beside the server. None of them ends by itself."""
        return [
            self.fold_loop.run(),
            self.deps.progress.poll(),
            self.deps.streams.run(),
            self.deps.reports.run(),
            self.deps.clusters.run(),
            self.deps.configuration.run(),
            self.deps.quarantine.run(),
            self._log.quarantine.run(self._log.inner),
            FairnessLoop(self._log, self._settings).run(),
            run_retention(self._pool, self._settings),
            *(() if self.webhooks is None else self.webhooks.tasks()),
        ]

    async def _check_view(self) -> str | None:
        """The problem of the view, or its lag if that lasts."""
        if self.fold_loop.disk_full is not None:
            return Degraded(self.fold_loop.disk_full)
        if self.fold_loop.unusable is not None:
            # The view is still readable, and a restart or another process would not help.
            return Degraded(str(self.fold_loop.unusable))
        if self.fold_loop.problem is not None:
            return self.fold_loop.problem
        try:
            lags = await self._read_lags()
        except WorldError as error:
            return str(error)
        metrics.LAG_MESSAGES.set(sum(lags.values()))
        # A stopped partition never catches up: the check of the quarantine reports it.
        stopped = self.fold_loop.stopped.keys() | self.deps.quarantine.find_stopped_partitions()
        lag = sum(each for number, each in lags.items() if number not in stopped)
        now_s = clock.monotonic_s()
        if lag == 0:
            self._caught_up_s = now_s
        elif now_s - self._caught_up_s > LAG_S_MAX:
            return f"the view is {lag} messages behind the log"
        return await self._check_gaps()

    async def _read_lags(self) -> dict[int, int]:
        """Messages between the view and the end of the log, by partition. Raises `WorldError`."""
        end = await self._log.end_positions(topics.JOBS)
        await self.deps.progress.refresh()
        known = self.deps.progress.positions
        return {number: max(0, at - known.get(number, 0)) for number, at in end.items()}

    async def _check_gaps(self) -> str | None:
        """What the view lacks, until a repair."""
        if self.fold_loop.unrepaired is None:
            return None
        state = await log_coverage.read_log_state(self._log, topics.JOBS)
        self.fold_loop.unrepaired = gap = await view_coverage.find_unrepaired(self._pool, state)
        return None if gap is None else Degraded(f"{gap.describe()} {WHAT_TO_DO}")

    async def _check_scheduler(self) -> str | None:
        """Whether the log can continue the scheduler's checkpoint."""
        try:
            gap = await view_coverage.find_scheduler_gap(self._pool, self._log)
        except CONNECTION_ERRORS as error:
            return f"Postgres is unavailable: {error}"
        return None if gap is None else Degraded(f"{gap.describe()} {WHAT_TO_DO}")


def _open_worker(
    settings: Settings, pool: Pool, configuration: ConfigurationCache, stack: AsyncExitStack
) -> WebhookWorker | None:
    """The worker of webhooks, if this process delivers them."""
    if not settings.webhook_delivery:
        return None
    worker = WebhookWorker(settings, pool, configuration.was_deleted)
    stack.push_async_callback(worker.close)
    return worker


def _make_webhook_deps(settings: Settings, pool: Pool) -> WebhookDeps:
    return WebhookDeps(
        WebhookStore(pool, Keyring(settings.secrets_key)),
        DeliveryStore(pool),
        Permitted(
            parse_networks(settings.webhook_networks),
            bool(settings.smtp_host),
            settings.smtp_domains,
        ),
        settings.public_url.rstrip("/"),
    )


def _share_renderings(waiting_max: int) -> FairSemaphore:
    return FairSemaphore("live fragments", LIVE_RENDERINGS, LIVE_RENDERINGS, waiting_max)


async def _open_views(settings: Settings, stack: AsyncExitStack) -> tuple[ViewReader, JobLists]:
    """The readers of API and pages; callers share their statements."""
    pool = await _open_reading_pool(settings, stack, settings.pool_size, settings.query_s)
    concurrent = max(1, settings.pool_size - settings.costly_max)
    per_caller = max(1, concurrent * 3 // 4)
    view = ViewReader(
        pool, FairSemaphore("queries", concurrent, per_caller, settings.requests.concurrent_max)
    )
    costly = ViewReader(pool, FairSemaphore("costly queries", settings.costly_max, 1, WAITING_MAX))
    return view, JobLists(view, costly)


async def _open_exports(settings: Settings, stack: AsyncExitStack) -> ExportDeps:
    size = settings.export_pool_size
    view = ViewReader(await _open_reading_pool(settings, stack, size, settings.export_query_s))
    return ExportDeps(
        view=view, lists=JobLists(view), shares=FairSemaphore("exports", size, 1, WAITING_MAX)
    )


async def _open_reading_pool(
    settings: Settings, stack: AsyncExitStack, size_max: int, query_s: float
) -> Pool:
    """Connections for statements of callers. The database ends a statement after `query_s`."""
    pool = await open_pool(
        _prefer_indexes(settings.database_url),
        size_max=size_max,
        name="fairlead-lookout",
        query_s_max=query_s,
    )
    stack.push_async_callback(pool.close)
    return pool


def _prefer_indexes(url: str) -> str:
    """The URL with settings that make statements use indexes. The statistics of a growing table
    are out of date, and a plan that scans it would be very slow."""
    rules = "enable_seqscan=off&enable_hashjoin=off&enable_mergejoin=off"
    return f"{url}{'&' if '?' in url else '?'}{rules}"
