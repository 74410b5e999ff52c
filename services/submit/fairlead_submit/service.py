"""Submit as a whole: opened from settings; it offers routes, checks and tasks."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager

from fastapi import APIRouter

from fairlead_common import clock, db
from fairlead_common.auth import Authenticator
from fairlead_common.db.pool import AWAY, CONNECT_S_MAX, REFUSES
from fairlead_common.disk import Disk
from fairlead_common.errors import LogError
from fairlead_common.log import topics
from fairlead_common.log.connect import open_log
from fairlead_common.log.coverage import WHAT_TO_DO
from fairlead_common.log.protocol import EventLog
from fairlead_common.quarantine import Quarantine
from fairlead_common.queue_rights import QueueRights
from fairlead_common.readiness import Check, Degraded
from fairlead_common.screening import ScreenedLog
from fairlead_common.secret_values import Keyring
from fairlead_submit import recovery, store
from fairlead_submit.acting import Acting
from fairlead_submit.api import Parts, routes
from fairlead_submit.cordons import Cordons
from fairlead_submit.fleet import Fleet
from fairlead_submit.intake import Intake
from fairlead_submit.known import Known
from fairlead_submit.queue_secrets import Secrets
from fairlead_submit.queues import Queues
from fairlead_submit.quotas import QuotaKeeper
from fairlead_submit.relay import Relay
from fairlead_submit.resubmitting import Resubmitting
from fairlead_submit.settings import SubmitSettings
from fairlead_submit.validation import Validator
from fairlead_submit.writer import Writer

POOL_SIZE: int = 8


class Service:
    """Made by `open`; its tasks must run in the process's task group."""

    def __init__(
        self,
        settings: SubmitSettings,
        pool: db.Pool,
        log: EventLog,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._log = log = ScreenedLog(log, Quarantine("submit", settings.skip_records))
        self._writer = Writer(
            log,
            f"submit-{settings.instance}",
            append_bytes_max=settings.append_bytes_max,
            pending_bytes_max=settings.pending_bytes_max,
        )
        self._relay = Relay(settings.database_url, log)
        self._configuration_agrees = False
        self.identify = Authenticator(pool, settings, now_s)
        self._queues = Queues(pool, self._relay.wake)
        self._known = Known(pool, log)
        self._rights = QueueRights(pool)
        self._fleet = Fleet(log)
        self._validator = Validator()
        self._quotas = QuotaKeeper(settings.quotas, Known(pool, log))
        disk = Disk(settings.disk)
        self._secrets = Secrets(pool, Keyring(settings.secrets_key))
        self._intake = Intake(
            settings,
            log,
            self._writer,
            self._queues,
            self._known,
            self._fleet,
            disk,
            self._validator,
            self._quotas,
            self._secrets,
        )
        self._acting = Acting(
            settings.limits,
            self._writer,
            self._queues,
            self._known,
            self._rights,
            self._validator,
        )
        self._resubmitting = Resubmitting(
            settings,
            pool,
            self._writer,
            self._queues,
            self._known,
            self._rights,
            disk,
            self._validator,
            self._quotas,
            self._secrets,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: SubmitSettings, now_s: Callable[[], float] = clock.monotonic_s
    ) -> AsyncIterator["Service"]:
        """Connect, bring tables and topics up to date, and close everything at the end.

        `now_s`: the clock by which credentials are believed. Raises `SettingsError` for settings
        that contradict each other.
        """
        settings.check()
        pool = await db.open_pool(settings.database_url, size_max=POOL_SIZE, name="fairlead-submit")
        try:
            await store.migrate(pool)
            log = await open_log(settings.log_url, Disk(settings.disk), wait_s=CONNECT_S_MAX)
            try:
                await log.create(topics.jobs())
                await log.create(topics.config())
                await log.create(topics.clusters())
                service = cls(settings, pool, log, now_s)
                try:
                    yield service
                finally:
                    service._validator.close()
            finally:
                await log.close()
        finally:
            await pool.close()

    def routers(self) -> list[APIRouter]:
        """The routes of submit."""
        parts = Parts(
            settings=self._settings,
            intake=self._intake,
            acting=self._acting,
            resubmitting=self._resubmitting,
            queues=self._queues,
            known=self._known,
            cordons=Cordons(self._pool, self._relay.wake),
            fleet=self._fleet,
            rights=self._rights,
            pool=self._pool,
            identify=self.identify,
            secrets=self._secrets,
        )
        return routes(parts)

    def checks(self) -> Mapping[str, Check]:
        """What must be well for submit to be of use."""
        return {
            "submit-database": self._check_database,
            "submit-log": self._check_log,
            "submit-quarantine": self._log.quarantine.check(),
            "submit-configuration": self._check_configuration,
        }

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """What must run: the writer, the relay of what was configured, what submits again."""
        return [
            self._writer.run(),
            self._relay.run(),
            self._resubmitting.run(),
            self._quotas.run(),
            self._log.quarantine.run(self._log.inner),
        ]

    async def _check_database(self) -> str | None:
        try:
            await self._pool.fetchval("SELECT 1")
        except (*AWAY, *REFUSES) as error:
            return f"Postgres is away: {error}"
        return None

    async def _check_configuration(self) -> str | None:
        """Whether tables and log have the same queues: looked at once, then while they have not."""
        if self._configuration_agrees:
            return None
        try:
            found = await recovery.find_disagreement(self._pool, self._log)
        except (*AWAY, LogError):
            return None  # other checks say so
        self._configuration_agrees = not found
        return Degraded(f"{found.describe()} {WHAT_TO_DO}") if found else None

    async def _check_log(self) -> str | None:
        """After a failed append the log is asked itself: without requests nobody else would."""
        if self._writer.trouble is None:
            return None
        try:
            await self._log.end_positions(topics.JOBS)
        except LogError as error:
            return str(error)
        return None
