"""The executor's loops: it follows its leases, and reconciles them with its cluster.

One plan after the other is made, appended and applied. While the log is unavailable the append
waits, and runs continue. Of two executors of one name the newer fences the older, which ends with
`Superseded`.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from tenacity import TryAgain, retry, retry_if_exception_type, wait_exponential

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogUnavailable,
    ProducerFenced,
    RecordTooLarge,
    WorldError,
)
from fairlead_common.domain.records import clusters
from fairlead_common.domain.records.clusters import Heartbeat
from fairlead_common.log import EventLog, topics
from fairlead_common.log.compacted_view import CompactedReader, read_newest, read_newest_entries
from fairlead_common.log.protocol import (
    Batch,
    Entry,
    Positions,
    Producer,
    Record,
    caught_up,
)
from fairlead_executor.domain.executor_state import ExecutorState, ReconcilePlan, find_own_records
from fairlead_executor.service import metrics

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 0.25
PAUSE_FACTOR: Final = 3.0
"""The pause after a plan, in multiples of its duration: under load plans become larger."""
ACTIONS_WITHOUT_PAUSE: Final = 1_000
"""After a plan with this many actions the next one follows without a pause."""

RETRY_S_MIN: Final = 0.1
RETRY_S_MAX: Final = 5.0
_BACKOFF: Final = wait_exponential(multiplier=RETRY_S_MIN, max=RETRY_S_MAX)
READ_RECORDS_MAX: Final = 5_000
READ_S: Final = 10.0

_logger = logging.getLogger("fairlead.executor")


def pause_after_s(actions: int, took_s: float) -> float:
    """The pause after a plan with this many actions and this duration."""
    return (
        0.0
        if actions >= ACTIONS_WITHOUT_PAUSE
        else min(PAUSE_S_MAX, max(PAUSE_S_MIN, PAUSE_FACTOR * took_s))
    )


class Superseded(WorldError):
    """Another executor of the same name has taken over."""


class Executor:
    """Drives an `ExecutorState`. `producer` is from `fence`; the last two arguments are clocks."""

    def __init__(
        self,
        state: ExecutorState,
        log: EventLog,
        producer: Producer,
        instance: str,
        clock_ms: Callable[[], int],
        monotonic_s: Callable[[], float],
    ) -> None:
        self.state = state
        self.problem: str | None = "it has not written its first heartbeat yet"
        """Why the executor cannot read or report now; None: it can."""
        self._log = log
        self._instance = instance
        self._clock_ms = clock_ms
        self._monotonic_s = monotonic_s
        self._producer = producer
        self._changed = asyncio.Event()
        self._plan_made = asyncio.Event()
        self._clusters_at: Positions = {}

    @property
    def _name(self) -> str:
        return self.state.name

    async def run(self) -> None:
        """Take over, then follow leases and reconcile until cancelled."""
        await self._take_over()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.state.cluster.run(), name="cluster")
            tasks.create_task(self._follow(), name="leases")
            tasks.create_task(self._reconcile_forever(), name="reconcile")

    async def shut_down(self, grace_s: int) -> None:
        """After `run` was cancelled: stop the runs and report it, if they end with the executor."""
        if not self.state.cluster.stops_with_executor:
            return
        self.state.begin_shutdown(grace_s)
        try:
            async with asyncio.timeout(grace_s + 2.0):
                self._producer = await self._log.producer(producer_name(self._name))
                work = asyncio.create_task(self.state.cluster.run())
                try:
                    await self._until_all_ended()
                finally:
                    work.cancel()
        except (TimeoutError, LogUnavailable) as error:
            left = self.state.live_pods
            _logger.warning("%d runs could not be stopped and reported in time: %s", left, error)

    async def _until_all_ended(self) -> None:
        while True:
            plan = await self._reconcile()
            if plan.empty and not self.state.live_pods:
                return
            if plan.empty:
                await self._wait_for_change(PAUSE_S_MAX)

    # Taking over.

    async def _take_over(self) -> None:
        """Read leases, nodes and the last heartbeat of this name, whose old producer is fenced."""
        there, self._clusters_at = await read_newest(self._log, topics.CLUSTERS)
        before, nodes = find_own_records(self._name, there)
        entries, position = await self._newest_leases()
        self.state.take_over(entries, position, before, nodes)
        _logger.info(
            "executor %s takes over %d leases and %d pods",
            self._name,
            len(self.state.desired),
            len(self.state.cluster.pods),
        )

    async def _newest_leases(self) -> tuple[list[Entry], int]:
        """The live entries of the lease topic, in order, and the position to read next."""
        topic = topics.leases(self._name).name
        entries, positions = await read_newest_entries(self._log, topic)
        return list(entries.values()), positions[0]

    # Leases.

    async def _follow(self) -> None:
        """Fold the lease topic as it grows, at most a little ahead of the plans."""
        topic = topics.leases(self._name).name
        at = {0: self.state.position}
        reader = await CompactedReader.open(self._log, topic, at, self.state.desired)
        while True:
            while self.state.has_more_due:
                self._plan_made.clear()
                await self._plan_made.wait()
            batch = await self._read_leases(reader)
            self.state.fold_leases(batch.entries, batch.positions[0])
            if batch.entries:
                self._changed.set()

    @retry(retry=retry_if_exception_type(LogUnavailable), wait=_BACKOFF)
    async def _read_leases(self, reader: CompactedReader) -> Batch:
        """The next leases; waits while the log is unavailable."""
        try:
            return await reader.read(records_max=READ_RECORDS_MAX, wait_s=READ_S)
        except LogUnavailable as error:
            self.problem = f"it cannot read its leases: {error}"
            raise

    # Reconciliation.

    async def _reconcile_forever(self) -> None:
        while True:
            started_s = self._monotonic_s()
            plan = await self._reconcile()
            self._plan_made.set()
            took_s = self._monotonic_s() - started_s
            if not self.state.has_more_due:
                await asyncio.sleep(pause_after_s(plan.actions.count, took_s))
                await self._wait_for_change(self.state.idle_s(self._clock_ms()))

    async def _reconcile(self) -> ReconcilePlan:
        """Make one plan, append it, apply it."""
        with _timed("plan", self._monotonic_s):
            plan = self.state.plan(self._clock_ms())
        if plan.records:
            with _timed("append", self._monotonic_s):
                await self._append(plan.records)
            self.problem = None
        with _timed("do", self._monotonic_s):
            self.state.apply(plan, self._clock_ms())
        metrics.LEASES.set(len(self.state.desired))
        metrics.PODS.set(len(self.state.cluster.pods))
        for kind, count in Counter([type(report.event) for report in plan.actions.reports]).items():
            metrics.REPORTS.labels(kind.__name__).inc(count)
        return plan

    async def _wait_for_change(self, wait_s: float) -> None:
        """Return when leases arrived, the cluster changed, or this time has passed."""
        leases = asyncio.ensure_future(self._changed.wait())
        change = asyncio.ensure_future(self.state.cluster.changed())
        try:
            await asyncio.wait(
                (leases, change), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            leases.cancel()
            change.cancel()
        self._changed.clear()

    @retry(retry=retry_if_exception_type(TryAgain), wait=_BACKOFF)
    async def _append(self, records: list[Record]) -> None:
        """Append until it is done. Raises `Superseded`."""
        try:
            appended = await self._producer.append(records)
        except RecordTooLarge:
            raise
        except AppendRefused as error:
            self._note_failed_append("refused", error)
            raise TryAgain from error
        except AppendUnknown as error:
            self._note_failed_append("unknown", error)
            await self._renew_producer()
            raise TryAgain from error
        except ProducerFenced as error:
            raise Superseded(self._superseded_message()) from error
        at = appended.get((topics.CLUSTERS, 0))
        if at is not None:
            self._clusters_at = {0: at}

    def _note_failed_append(self, outcome: str, error: Exception) -> None:
        self.problem = f"it cannot report: {error}"
        metrics.APPENDS_FAILED.labels(outcome).inc()
        _logger.warning("retrying an append (%s): %s", outcome, error)

    @retry(retry=retry_if_exception_type(LogUnavailable), wait=_BACKOFF)
    async def _renew_producer(self) -> None:
        """Become the producer again after an unknown outcome, unless another executor came first.

        A newer executor that has appended shows in its heartbeat; one that has not is fenced by
        this, has done nothing yet, and ends.
        """
        try:
            self._producer = await self._log.producer(producer_name(self._name))
            instance = await self._newest_instance()
        except LogUnavailable as error:
            self._note_failed_append("unknown", error)
            raise
        if instance not in (None, self._instance):
            raise Superseded(self._superseded_message())

    async def _newest_instance(self) -> str | None:
        """The instance whose heartbeat came last, after the last heartbeat of this instance."""
        end = await self._log.end_positions(topics.CLUSTERS)
        positions = self._clusters_at
        instance: str | None = None
        reader = await self._log.reader(topics.CLUSTERS, positions)
        try:
            while not caught_up(positions, end):
                batch = await reader.read(wait_s=1.0)
                for entry in batch.entries:
                    if entry.key == self._name and entry.value is not None:
                        heartbeat = clusters.decode(entry.value)
                        assert isinstance(heartbeat, Heartbeat), entry.key
                        instance = heartbeat.instance
                positions = batch.positions
        finally:
            await reader.close()
        return instance

    def _superseded_message(self) -> str:
        return (
            f"another executor named {self._name!r} has taken over this cluster; give each executor"
            " a name of its own (FAIRLEAD_EXECUTOR), or run only one of this name"
        )


async def fence(log: EventLog, executor: str) -> Producer:
    """Create the topics of an executor, and fence earlier executors of this name."""
    for topic in (topics.jobs(), topics.clusters(), topics.leases(executor)):
        await log.create(topic)
    return await log.producer(producer_name(executor))


def producer_name(executor: str) -> str:
    """The name of the producer of an executor."""
    return f"fairlead-executor-{executor}"


@contextlib.contextmanager
def _timed(step: str, monotonic_s: Callable[[], float]) -> Iterator[None]:
    started_s = monotonic_s()
    yield
    metrics.TURN_SECONDS.labels(step).observe(monotonic_s() - started_s)
