"""The executor with its waits: follows its leases, and takes turns for as long as it runs.

A turn is planned, told and done one after the other; while the log is away a turn waits, and runs
go on. Of two executors of one name the newer fences the older, which ends with `Superseded`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Final

from fairlead_common.domain.errors import (
    AppendRefused,
    AppendUnknown,
    LogUnavailable,
    PositionExpired,
    ProducerFenced,
    RecordTooLarge,
    WorldError,
)
from fairlead_common.domain.records import clusters
from fairlead_common.domain.records.clusters import Heartbeat, LeaderHeartbeat, Node
from fairlead_common.log import EventLog, topics
from fairlead_common.log.compacted_reader import read_newest, read_newest_entries
from fairlead_common.log.protocol import Entry, Positions, Producer, Record, caught_up
from fairlead_executor import metrics
from fairlead_executor.core import Core, Turn
from fairlead_executor.reconcile import Tell

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 0.25
PAUSE_FACTOR: Final = 3.0
"""Between turns this many times what the last one took: under load turns become fewer and larger.
"""
MANY: Final = 1_000
"""A turn that did so much is large enough: what comes next need not wait to become more."""

RETRY_S_MIN: Final = 0.1
RETRY_S_MAX: Final = 5.0
READ_RECORDS_MAX: Final = 5_000
READ_S: Final = 10.0

_logger = logging.getLogger("fairlead.executor")


def rest_s(did: int, took_s: float) -> float:
    """How long to rest after a turn that did so many things and took so long."""
    return 0.0 if did >= MANY else min(PAUSE_S_MAX, max(PAUSE_S_MIN, PAUSE_FACTOR * took_s))


class Superseded(WorldError):
    """Another executor of the same name has taken over."""


class Executor:
    """Drives a `Core`. `producer` comes from `fence`; `clock` gives ms, `monotonic` seconds."""

    def __init__(
        self,
        core: Core,
        log: EventLog,
        producer: Producer,
        instance: str,
        clock: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self.core = core
        self.trouble: str | None = "has not told the log of itself yet"
        """What keeps the executor from its work, if anything does."""
        self._log = log
        self._instance = instance
        self._clock = clock
        self._monotonic = monotonic
        self._producer = producer
        self._bell = asyncio.Event()
        self._room = asyncio.Event()
        self._clusters_at: Positions = {}

    @property
    def _name(self) -> str:
        return self.core.name

    async def run(self) -> None:
        """Take over, then follow leases and take turns until cancelled."""
        await self._take_over()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.core.cluster.run(), name="cluster")
            tasks.create_task(self._follow(), name="leases")
            tasks.create_task(self._turns(), name="turns")

    async def shut_down(self, grace_s: int) -> None:
        """After `run` was cancelled: stop the runs and tell so, if they end with the executor."""
        if not self.core.cluster.stops_with_executor:
            return
        self.core.close(grace_s)
        try:
            async with asyncio.timeout(grace_s + 2.0):
                self._producer = await self._log.producer(producer_name(self._name))
                work = asyncio.create_task(self.core.cluster.run())
                try:
                    await self._until_all_ended()
                finally:
                    work.cancel()
        except (TimeoutError, LogUnavailable) as error:
            left = self.core.living
            _logger.warning("%d runs could not be ended and told in time: %s", left, error)

    async def _until_all_ended(self) -> None:
        while True:
            turn = await self._turn()
            if turn.empty and not self.core.living:
                return
            if turn.empty:
                await self._woken(PAUSE_S_MAX)

    # Taking over.

    async def _take_over(self) -> None:
        """Whoever had the name is fenced; read what is to be known. Nothing is done yet."""
        there, self._clusters_at = await read_newest(self._log, topics.CLUSTERS)
        before: Heartbeat | None = None
        nodes: list[Node] = []
        for key, value in there.items():
            if key != self._name and not key.startswith(f"{self._name}/"):
                continue
            match clusters.decode(value):
                case Heartbeat() as before:
                    pass
                case Node() as node:
                    nodes.append(node)
                case LeaderHeartbeat():
                    raise AssertionError(f"{key} cannot be the key of a leader")
        entries, position = await self._newest_leases()
        self.core.take_over(entries, position, before, nodes)
        _logger.info(
            "executor %s takes over %d leases and %d pods",
            self._name,
            len(self.core.desired),
            len(self.core.cluster.pods),
        )

    async def _newest_leases(self) -> tuple[list[Entry], int]:
        """The live entries of the lease topic, in their order, and where to read on."""
        topic = topics.leases(self._name).name
        entries, positions = await read_newest_entries(self._log, topic)
        return list(entries.values()), positions[0]

    # Leases.

    async def _follow(self) -> None:
        """Fold the lease topic as it grows; a little ahead of the turns at most."""
        topic = topics.leases(self._name).name
        reader = await self._log.reader(topic, {0: self.core.position})
        pause_s = RETRY_S_MIN
        while True:
            while self.core.busy:
                self._room.clear()
                await self._room.wait()
            try:
                batch = await reader.read(records_max=READ_RECORDS_MAX, wait_s=READ_S)
            except LogUnavailable as error:
                self.trouble = f"cannot read its leases: {error}"
                await asyncio.sleep(pause_s)
                pause_s = min(RETRY_S_MAX, 2 * pause_s)
                continue
            except PositionExpired:
                await reader.close()
                self.core.read_again(*await self._newest_leases())
                reader = await self._log.reader(topic, {0: self.core.position})
                self._bell.set()
                continue
            pause_s = RETRY_S_MIN
            self.core.fold(batch.entries, batch.positions[0])
            if batch.entries:
                self._bell.set()

    # Turns.

    async def _turns(self) -> None:
        while True:
            started_s = self._monotonic()
            turn = await self._turn()
            self._room.set()
            took_s = self._monotonic() - started_s
            if not self.core.busy:
                await asyncio.sleep(rest_s(len(turn.actions), took_s))
                await self._woken(self.core.idle_s(self._clock()))

    async def _turn(self) -> Turn:
        """One turn: plan, tell, do."""
        with _timed("plan", self._monotonic):
            turn = self.core.plan(self._clock())
        if turn.records:
            with _timed("append", self._monotonic):
                await self._append(turn.records)
            self.trouble = None
        with _timed("do", self._monotonic):
            self.core.done(turn, self._clock())
        metrics.LEASES.set(len(self.core.desired))
        metrics.PODS.set(len(self.core.cluster.pods))
        for action in turn.actions:
            if isinstance(action, Tell):
                metrics.REPORTS.labels(type(action.event).__name__).inc()
        return turn

    async def _woken(self, wait_s: float) -> None:
        """Return when leases came in, the cluster changed, or that much time has passed."""
        bell = asyncio.ensure_future(self._bell.wait())
        change = asyncio.ensure_future(self.core.cluster.changed())
        try:
            await asyncio.wait((bell, change), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            bell.cancel()
            change.cancel()
        self._bell.clear()

    async def _append(self, records: list[Record]) -> None:
        """Append until it is done. Raises `Superseded`."""
        pause_s = RETRY_S_MIN
        while True:
            try:
                appended = await self._producer.append(records)
            except RecordTooLarge:
                raise
            except AppendRefused as error:
                self._failed("refused", error)
            except AppendUnknown as error:
                self._failed("unknown", error)
                await self._producer_anew()
            except ProducerFenced as error:
                raise Superseded(self._superseded()) from error
            else:
                at = appended.get((topics.CLUSTERS, 0))
                if at is not None:
                    self._clusters_at = {0: at}
                return
            await asyncio.sleep(pause_s)
            pause_s = min(RETRY_S_MAX, 2 * pause_s)

    def _failed(self, outcome: str, error: Exception) -> None:
        self.trouble = f"cannot report: {error}"
        metrics.APPENDS_FAILED.labels(outcome).inc()
        _logger.warning("an append is tried again (%s): %s", outcome, error)

    async def _producer_anew(self) -> None:
        """Become the producer again after an unknown outcome, unless another executor came first.

        A newer executor that has appended shows in its heartbeat; one that has not is fenced by
        this, has done nothing yet, and ends.
        """
        pause_s = RETRY_S_MIN
        while True:
            try:
                self._producer = await self._log.producer(producer_name(self._name))
                instance = await self._newest_instance()
            except LogUnavailable as error:
                self._failed("unknown", error)
                await asyncio.sleep(pause_s)
                pause_s = min(RETRY_S_MAX, 2 * pause_s)
                continue
            if instance not in (None, self._instance):
                raise Superseded(self._superseded())
            return

    async def _newest_instance(self) -> str | None:
        """Whose heartbeat came last since our own last one."""
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

    def _superseded(self) -> str:
        return (
            f"another executor named {self._name!r} has taken over this cluster; give each executor"
            " a name of its own (FAIRLEAD_EXECUTOR), or run only one of this name"
        )


async def fence(log: EventLog, executor: str) -> Producer:
    """Make the topics that an executor needs, and end whoever had this name before."""
    for topic in (topics.jobs(), topics.clusters(), topics.leases(executor)):
        await log.create(topic)
    return await log.producer(producer_name(executor))


def producer_name(executor: str) -> str:
    """Under which name an executor appends."""
    return f"fairlead-executor-{executor}"


@contextlib.contextmanager
def _timed(step: str, monotonic: Callable[[], float]) -> Iterator[None]:
    started_s = monotonic()
    yield
    metrics.TURN_SECONDS.labels(step).observe(monotonic() - started_s)
