"""The service as a whole, opened from settings: routes, checks and tasks."""

import importlib.metadata
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager

from fastapi import APIRouter

from fairlead_common.db.connection_pool import CONNECT_S_MAX
from fairlead_common.log import EventLog
from fairlead_common.log.opening import open_log
from fairlead_common.log.protocol import Producer
from fairlead_common.log.quarantine import Quarantine
from fairlead_common.log.validating_log import ValidatingLog
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk
from fairlead_common.service.health import Check
from fairlead_executor.backends.connect import open_cluster
from fairlead_executor.domain.cluster_protocol import Cluster
from fairlead_executor.domain.executor_state import ExecutorState
from fairlead_executor.domain.start_failures import StartFailures
from fairlead_executor.http import api
from fairlead_executor.service.executor import Executor, fence
from fairlead_executor.service.settings import ExecutorSettings


class Service:
    """One executor. Its owner runs `tasks()` and serves `routers()`."""

    def __init__(
        self, settings: ExecutorSettings, log: ValidatingLog, cluster: Cluster, executor: Executor
    ) -> None:
        self.cluster = cluster
        self.executor = executor
        self._log = log
        self._settings = settings

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: ExecutorSettings, log: EventLog | None = None
    ) -> AsyncIterator["Service"]:
        """Connect to log and cluster. The caller closes `log`."""
        settings.check()
        own = None
        if log is None:
            disk = Disk(settings.disk)
            own = await open_log(settings.log_url, disk, wait_s=CONNECT_S_MAX)
        try:
            given = log or own
            assert given is not None
            quarantine = Quarantine(f"executor {settings.executor}", settings.skip_records)
            the_log = ValidatingLog(given, quarantine)
            # First of all: an executor of this name that still lives lets go of its cluster.
            producer = await fence(the_log, settings.executor)
            cluster = await open_cluster(settings, await the_log.identity())
            try:
                executor = _executor(settings, the_log, producer, cluster)
                yield cls(settings, the_log, cluster, executor)
            finally:
                await cluster.close()
        finally:
            if own is not None:
                await own.close()

    def routers(self) -> list[APIRouter]:
        """The logs of runs."""
        return [api.routes(self.cluster, self._settings.signing_key)]

    def checks(self) -> Mapping[str, Check]:
        """The readiness checks."""

        async def reporting() -> str | None:
            return self.executor.problem

        async def cluster() -> str | None:
            return self.cluster.problem()

        return {
            "reporting": reporting,
            "cluster": cluster,
            "quarantine": self._log.quarantine.check(),
        }

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """The loops that must run beside the server; none of them returns."""
        return [self.executor.run(), self._log.quarantine.run(self._log.inner)]

    async def shut_down(self) -> None:
        """After the tasks were cancelled by a signal: end the runs in order."""
        await self.executor.shut_down(self._settings.shutdown_s)


def _executor(
    settings: ExecutorSettings, log: EventLog, producer: Producer, cluster: Cluster
) -> Executor:
    instance = secrets.token_hex(8)
    state = ExecutorState(
        settings.executor,
        cluster,
        instance=instance,
        address=settings.address or f"http://{settings.http_host}:{settings.http_port}",
        version=importlib.metadata.version("fairlead-executor"),
        heartbeat_ms=round(settings.heartbeat_s * 1000),
        armada_names=settings.armada_names,
        start_failures=StartFailures(
            settings.node_avoidance.failures, settings.node_avoidance.seconds
        ),
    )
    return Executor(state, log, producer, instance, clock.now_ms, clock.monotonic_s)
