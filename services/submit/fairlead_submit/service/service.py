"""The service as a whole, opened from settings: what routes call, checks and tasks."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from fairlead_common import db
from fairlead_common.db.connection_pool import CONNECT_S_MAX, CONNECTION_ERRORS
from fairlead_common.domain.errors import LogError
from fairlead_common.domain.secret_values import Keyring
from fairlead_common.log import topics
from fairlead_common.log.coverage import WHAT_TO_DO
from fairlead_common.log.opening import open_log
from fairlead_common.log.protocol import EventLog
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk
from fairlead_common.service.health import Check, Degraded
from fairlead_common.web.auth import Authenticator
from fairlead_common.web.auth.queue_permissions import QueuePermissions
from fairlead_submit.service import configuration_repair, outbox_relay
from fairlead_submit.service.action_service import ActionService
from fairlead_submit.service.arrays.array_service import ArrayService
from fairlead_submit.service.cluster_view import ClusterView
from fairlead_submit.service.fair_validation import FairValidation
from fairlead_submit.service.group_action_service import GroupActionService
from fairlead_submit.service.group_service import GroupService
from fairlead_submit.service.manifest_service import ManifestService
from fairlead_submit.service.outbox_relay import Relay
from fairlead_submit.service.resubmission_service import ResubmissionService
from fairlead_submit.service.settings import SubmitSettings
from fairlead_submit.service.submission_service import SubmissionService
from fairlead_submit.service.writers.job_writer import JobWriter
from fairlead_submit.service.writers.log_writer import LogWriter
from fairlead_submit.service.writers.quotas import QuotaTracker
from fairlead_submit.service.writers.view_window import ViewWindow
from fairlead_submit.store import schema
from fairlead_submit.store.configuration_store import CordonStore, QueueStore
from fairlead_submit.store.job_views import JobViews
from fairlead_submit.store.secret_store import SecretStore

POOL_SIZE: int = 8


class Service:
    """Created by `open`; its tasks must run in the task group of the process."""

    def __init__(
        self,
        settings: SubmitSettings,
        pool: db.Pool,
        log: EventLog,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self.settings: Final = settings
        self.pool: Final = pool
        self.log: Final = log
        """As it was opened, for other services in this process."""
        self._log = log = ValidatingLog(log, Quarantine("submit", settings.skip_records))
        self._writer = LogWriter(
            log,
            f"submit-{settings.instance}",
            append_bytes_max=settings.append_bytes_max,
            pending_bytes_max=settings.pending_bytes_max,
        )
        self._relay = Relay(settings.database_url, log)
        self._configuration_agrees = False
        self._validation = FairValidation()
        self._quotas = QuotaTracker(settings.quotas, JobViews(pool, log))
        self.identify: Final = Authenticator(pool, settings, now_s)
        self.queues: Final = QueueStore(pool)
        self.cordons: Final = CordonStore(pool)
        self.wait_until_relayed: Final = partial(outbox_relay.wait_until_relayed, pool)
        self.secrets: Final = SecretStore(pool, Keyring(settings.secrets_key))
        self.job_views: Final = JobViews(pool, log)
        self.permissions: Final = QueuePermissions(pool)
        self.cluster_view: Final = ClusterView(log)
        disk = Disk(settings.disk)
        window = ViewWindow(self.job_views.read_positions, settings.view_lag_s_max)
        job_writer = JobWriter(self._writer, self._quotas, window, self.job_views.recent, disk)
        shared = (
            self.queues,
            self.job_views,
            self.cluster_view,
            self._validation,
            self.secrets,
        )
        self.submissions: Final = SubmissionService(settings, log, job_writer, *shared)
        self.groups: Final = GroupService(settings, job_writer, *shared)
        self.group_actions: Final = GroupActionService(settings, self._writer, job_writer, *shared)
        self.arrays: Final = ArrayService(
            self._writer,
            job_writer,
            self.queues,
            self.job_views,
            self.secrets,
            settings.job_policy,
        )
        self.actions: Final = ActionService(
            settings.limits,
            self._writer,
            self.queues,
            self.job_views,
            self.permissions,
            self._validation,
        )
        self.manifests: Final = ManifestService(self.submissions, self.groups, self._validation)
        self.resubmissions: Final = ResubmissionService(
            settings,
            pool,
            self._writer,
            self.queues,
            self.job_views,
            self.permissions,
            disk,
            self._validation,
            self._quotas,
            window,
            self.secrets,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: SubmitSettings, now_s: Callable[[], float] = clock.monotonic_s
    ) -> AsyncIterator["Service"]:
        """Connect, migrate tables, create topics, and close everything at the end.

        `now_s`: the clock for the validity of credentials. Raises `SettingsError` for settings
        that contradict each other.
        """
        settings.check()
        pool = await db.open_pool(settings.database_url, size_max=POOL_SIZE, name="fairlead-submit")
        try:
            await schema.migrate(pool)
            log = await open_log(settings.log_url, Disk(settings.disk), wait_s=CONNECT_S_MAX)
            try:
                await log.create(topics.jobs())
                await log.create(topics.config())
                await log.create(topics.clusters())
                service = cls(settings, pool, log, now_s)
                try:
                    yield service
                finally:
                    service._validation.close()
            finally:
                await log.close()
        finally:
            await pool.close()

    def checks(self) -> Mapping[str, Check]:
        """The readiness checks."""
        return {
            "submit-database": partial(db.check_database, self.pool),
            "submit-log": self._check_log,
            "submit-quarantine": self._log.quarantine.check(),
            "submit-configuration": self._check_configuration,
        }

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """The loops that must run: the log writer, the outbox relay, resubmissions, quotas."""
        return [
            self._writer.run(),
            self._relay.run(),
            self.resubmissions.run(),
            self._quotas.run(),
            self._log.quarantine.run(self._log.inner),
        ]

    async def _check_configuration(self) -> str | None:
        """Whether tables and log have the same queues; not checked again once they do."""
        if self._configuration_agrees:
            return None
        try:
            found = await configuration_repair.find_disagreement(self.pool, self._log)
        except (*CONNECTION_ERRORS, LogError):
            return None  # other checks report this
        self._configuration_agrees = not found
        return Degraded(f"{found.describe()} {WHAT_TO_DO}") if found else None

    async def _check_log(self) -> str | None:
        """After a failed append, whether the log is available again: perhaps no request follows."""
        if self._writer.failure is None:
            return None
        try:
            await self._log.end_positions(topics.JOBS)
        except LogError as error:
            return str(error)
        return None
