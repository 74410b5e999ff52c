"""What the compacted topics say now, in memory: why jobs wait and shares; clusters; configuration.

Every process reads them from the beginning at its start and follows them. Values stay encoded
until somebody asks. Beyond `ROWS_MAX` keys new ones are not taken up, which is logged.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.records import clusters as facts
from fairlead_common.domain.records import configuration, scheduling_reports
from fairlead_common.log import EventLog, caught_up
from fairlead_common.log.topics import CLUSTERS, CONFIG, REPORTS
from fairlead_common.service import clock
from fairlead_lookout.http.responses import PoolReportShown, QueueReportShown, round_of
from fairlead_lookout.store.outages import Outages

ROWS_MAX: Final = 200_000
WAITING_SHOWN: Final = 100
"""Reasons with their sentences in a report; the counts by reason are of all."""
_logger: Final = logging.getLogger("fairlead.lookout.mirror")


class Mirror:
    """The newest value of every key of one compacted topic, and when the log took it."""

    def __init__(self, log: EventLog, topic: str, *, away_s: float, rows_max: int = ROWS_MAX):
        self.values: dict[str, bytes] = {}
        self.times_ms: dict[str, int] = {}
        self.ready = False
        self._log = log
        self._topic = topic
        self._rows_max = rows_max
        self._full = False
        self._moved = asyncio.Event()
        self._outages = Outages(f"the mirror of {topic}", away_s)

    async def run(self) -> None:
        """Follow the topic for ever. Raises `LogUnavailable` when it is away for too long."""
        await self._outages.outlast(self._follow)

    async def _follow(self) -> None:
        end = await self._log.end_positions(self._topic)
        positions = await self._log.start_positions(self._topic)
        unseen = set(self.values)
        reader = await self._log.reader(self._topic, positions)
        try:
            while True:
                if not self.ready and caught_up(positions, end):
                    for key in unseen:
                        self._drop(key)
                    self.ready = True
                batch = await reader.read()
                positions = batch.positions
                self._outages.well()
                for entry in batch.entries:
                    unseen.discard(entry.key)
                    self._put(entry.key, entry.value, entry.time_ms)
                self._moved.set()
                self._moved = asyncio.Event()
        finally:
            self.ready = False
            await reader.close()

    def _put(self, key: str, value: bytes | None, time_ms: int) -> None:
        if value is None:
            self._drop(key)
        elif key in self.values or len(self.values) < self._rows_max:
            if key not in self.values:
                self._took(key)
            self.values[key] = value
            self.times_ms[key] = time_ms
        elif not self._full:
            self._full = True
            most = self._rows_max
            _logger.error("%s has more than %d keys; some are not shown", self._topic, most)

    def _drop(self, key: str) -> None:
        if self.values.pop(key, None) is not None:
            self._lost(key)
        self.times_ms.pop(key, None)

    def _took(self, key: str) -> None:
        """There is a value for this key now."""

    def _lost(self, key: str) -> None:
        """There is none any more."""


class Reports(Mirror):
    """Why things wait, shares and rounds."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, REPORTS, away_s=away_s)
        self._of_queue: dict[str, set[str]] = {}
        self._of_pool: dict[str, set[str]] = {}

    def waiting(
        self, pool: str, queue: str, shape: str, job_set: str, gang: str
    ) -> scheduling_reports.Waiting | None:
        """Why jobs like this one wait, if the scheduler has said so."""
        wanted = scheduling_reports.Waiting(
            pool=pool,
            queue=queue,
            code="",
            sentence="",
            shape=shape,
            job_set=job_set if gang else "",
            gang=gang,
        )
        value = self.values.get(scheduling_reports.key(wanted))
        if value is None and gang:  # its gang has ended: it waits as any other job of its shape
            return self.waiting(pool, queue, shape, "", "")
        found = None if value is None else scheduling_reports.decode(value)
        return found if isinstance(found, scheduling_reports.Waiting) else None

    def of_queue(self, queue: str, configured: configuration.Queue | None) -> QueueReportShown:
        """A queue's standing in all pools, its limits and why its jobs wait."""
        shares, waiting, _ = self._said(self._of_queue.get(queue, ()))
        return QueueReportShown(
            queue=queue,
            weight=configured.weight if configured else None,
            cordoned=configured.cordoned if configured else False,
            reason=(configured.reason or None) if configured else None,
            limits=configured.limits if configured else {},
            shares=shares,
            waiting=waiting[:WAITING_SHOWN],
            reasons=_reasons(waiting),
        )

    def of_pool(self, pool: str, reach: QueueScope) -> PoolReportShown:
        """A pool's last round, and the shares and reasons of the queues that may be seen."""
        names = [name for name in self._of_pool.get(pool, ()) if _queue(name) in reach]
        shares, waiting, _ = self._said(names)
        shares.sort(key=lambda share: share.queue)
        _, _, done = self._said([pool])
        return PoolReportShown(
            pool=pool,
            round=None if done is None else round_of(done),
            shares=shares,
            waiting=waiting[:WAITING_SHOWN],
            reasons=_reasons(waiting),
        )

    def knows_pool(self, pool: str) -> bool:
        """Whether the scheduler has said anything of this pool."""
        return pool in self.values or bool(self._of_pool.get(pool))

    def _said(
        self, names: Iterable[str]
    ) -> tuple[
        list[scheduling_reports.QueueShare],
        list[scheduling_reports.Waiting],
        scheduling_reports.Round | None,
    ]:
        """What these keys say, the reason that concerns most jobs first."""
        shares: list[scheduling_reports.QueueShare] = []
        waiting: list[scheduling_reports.Waiting] = []
        last: scheduling_reports.Round | None = None
        for name in names:
            value = self.values.get(name)
            match None if value is None else scheduling_reports.decode(value):
                case scheduling_reports.QueueShare() as share:
                    shares.append(share)
                case scheduling_reports.Waiting() as why:
                    waiting.append(why)
                case scheduling_reports.Round() as done:
                    last = done
                case None:
                    pass
        waiting.sort(key=lambda why: -why.jobs)
        return shares, waiting, last

    def _took(self, key: str) -> None:
        pool, _, rest = key.partition("/")
        if rest:
            self._of_pool.setdefault(pool, set()).add(key)
            self._of_queue.setdefault(_queue(key), set()).add(key)

    def _lost(self, key: str) -> None:
        _discard(self._of_pool, key.partition("/")[0], key)
        _discard(self._of_queue, _queue(key), key)


def _discard(index: dict[str, set[str]], name: str, key: str) -> None:
    """Take a key from the keys of a name, and the name with its last key."""
    keys = index.get(name, set())
    keys.discard(key)
    if not keys:
        index.pop(name, None)


def _queue(key: str) -> str:
    """The queue that a key is about; "" for a round's."""
    return key.partition("/")[2].partition("/")[0]


def _reasons(waiting: list[scheduling_reports.Waiting]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for why in waiting:
        totals[why.code] = totals.get(why.code, 0) + why.jobs
    return totals


class Clusters(Mirror):
    """Heartbeats (by executor) and nodes (by executor/node)."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, CLUSTERS, away_s=away_s)

    def heartbeat(self, executor: str) -> facts.Heartbeat | None:
        """The newest heartbeat of an executor."""
        value = self.values.get(executor)
        found = None if value is None else facts.decode(value)
        return found if isinstance(found, facts.Heartbeat) else None

    def all(self) -> list[tuple[str, facts.Heartbeat | None, list[facts.Node]]]:
        """All executors by name: the last heartbeat and the nodes of each."""
        nodes: dict[str, list[facts.Node]] = {}
        beats: dict[str, facts.Heartbeat] = {}
        for value in self.values.values():
            match facts.decode(value):
                case facts.Node() as node:
                    nodes.setdefault(node.executor, []).append(node)
                case facts.Heartbeat() as beat:
                    beats[beat.executor] = beat
                case facts.LeaderHeartbeat():
                    pass
        names = sorted(nodes.keys() | beats.keys())
        return [(name, beats.get(name), nodes.get(name, [])) for name in names]


class Configured(Mirror):
    """Queues and cordons, as people configured them."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, CONFIG, away_s=away_s)

    def queue(self, name: str) -> configuration.Queue | None:
        """A queue that was not deleted."""
        value = self.values.get(f"queue/{name}")
        found = None if value is None else configuration.decode(value)
        return found if isinstance(found, configuration.Queue) and not found.deleted else None

    async def reached(self, versions: Mapping[str, int], wait_s: float) -> bool:
        """Whether these records have these versions, or newer, after at most `wait_s`."""
        deadline = clock.monotonic_s() + wait_s
        while not all(self._version(key) >= version for key, version in versions.items()):
            left_s = deadline - clock.monotonic_s()
            if left_s <= 0:
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._moved.wait()
        return True

    def _version(self, key: str) -> int:
        """0 for what is not there."""
        value = self.values.get(key)
        return 0 if value is None else configuration.decode(value).version

    def cordon(self, executor: str, node: str | None = None) -> configuration.Cordon | None:
        """The mark of an operator on an executor, or on one of its nodes."""
        key = configuration.key(configuration.Cordon(executor=executor, node=node))
        value = self.values.get(key)
        found = None if value is None else configuration.decode(value)
        is_mark = isinstance(found, configuration.Cordon) and found.cordoned and not found.deleted
        return found if isinstance(found, configuration.Cordon) and is_mark else None
