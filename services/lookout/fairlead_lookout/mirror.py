"""What the compacted topics say now, in memory: why jobs wait and shares; clusters and heartbeats.

Every process reads them from the beginning at its start and follows them. Values stay encoded
until somebody asks. Beyond `ROWS_MAX` keys new ones are not taken up, which is logged.
"""

import asyncio
import logging
from typing import Final

from fairlead_common import clock, clusters, reports, resources
from fairlead_common.errors import LogUnavailable, PositionGone
from fairlead_common.log import EventLog, caught_up
from fairlead_common.log.topics import CLUSTERS, REPORTS
from fairlead_lookout import shown

ROWS_MAX: Final = 200_000
RETRY_S: Final = 1.0
_logger: Final = logging.getLogger("fairlead.lookout.mirror")


class Mirror:
    """The newest value of every key of one compacted topic, and when the log took it."""

    def __init__(self, log: EventLog, topic: str, *, away_s: float, rows_max: int = ROWS_MAX):
        self.values: dict[str, bytes] = {}
        self.times_ms: dict[str, int] = {}
        self.ready = False
        self._log = log
        self._topic = topic
        self._away_s = away_s
        self._rows_max = rows_max
        self._full = False
        self._well_s = clock.monotonic_s()

    async def run(self) -> None:
        """Follow the topic for ever. Raises `LogUnavailable` when it is away for too long."""
        while True:
            try:
                await self._follow()
            except PositionGone as error:
                _logger.info("reading %s again from its start: %s", self._topic, error)
            except LogUnavailable:
                if clock.monotonic_s() - self._well_s > self._away_s:
                    raise
            self.ready = False
            await asyncio.sleep(RETRY_S)

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
                self._well_s = clock.monotonic_s()
                for entry in batch.entries:
                    unseen.discard(entry.key)
                    self._put(entry.key, entry.value, entry.time_ms)
        finally:
            await reader.close()

    def _put(self, key: str, value: bytes | None, time_ms: int) -> None:
        if value is None:
            self._drop(key)
        elif key in self.values or len(self.values) < self._rows_max:
            self.values[key] = value
            self.times_ms[key] = time_ms
        elif not self._full:
            self._full = True
            _logger.error("%s has more than %d keys; some are not shown", self._topic, ROWS_MAX)

    def _drop(self, key: str) -> None:
        self.values.pop(key, None)
        self.times_ms.pop(key, None)


class Reports(Mirror):
    """Why things wait, shares and rounds."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, REPORTS, away_s=away_s)

    def waiting(
        self, pool: str, queue: str, shape: str, job_set: str, gang: str
    ) -> reports.Waiting | None:
        """Why jobs like this one wait, if the scheduler has said so."""
        wanted = reports.Waiting(
            pool=pool,
            queue=queue,
            code="",
            sentence="",
            shape=shape,
            job_set=job_set if gang else "",
            gang=gang,
        )
        value = self.values.get(reports.key(wanted))
        found = None if value is None else reports.decode(value)
        return found if isinstance(found, reports.Waiting) else None

    def of_queue(self, queue: str) -> shown.QueueReportShown:
        """A queue's standing in all pools and why its jobs wait."""
        shares: list[reports.QueueShare] = []
        waiting: list[reports.Waiting] = []
        for key, value in self.values.items():
            if key.split("/", 2)[1:2] == [queue]:
                match reports.decode(value):
                    case reports.QueueShare() as share:
                        shares.append(share)
                    case reports.Waiting() as why:
                        waiting.append(why)
                    case reports.Round():
                        pass
        waiting.sort(key=lambda why: -why.jobs)
        return shown.QueueReportShown(
            queue=queue, shares=shares, waiting=waiting[:100], reasons=_reasons(waiting)
        )

    def of_pool(self, pool: str) -> shown.PoolReportShown:
        """A pool's last round, its queues' shares and its reasons."""
        shares: list[reports.QueueShare] = []
        waiting: list[reports.Waiting] = []
        last: reports.Round | None = None
        for key, value in self.values.items():
            if key.split("/", 1)[0] == pool:
                match reports.decode(value):
                    case reports.QueueShare() as share:
                        shares.append(share)
                    case reports.Waiting() as why:
                        waiting.append(why)
                    case reports.Round() as done:
                        last = done
        shares.sort(key=lambda share: share.queue)
        return shown.PoolReportShown(
            pool=pool, round=last, shares=shares, reasons=_reasons(waiting)
        )


def _reasons(waiting: list[reports.Waiting]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for why in waiting:
        totals[why.code] = totals.get(why.code, 0) + why.jobs
    return totals


class Clusters(Mirror):
    """Heartbeats (by executor) and nodes (by executor/node)."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, CLUSTERS, away_s=away_s)

    def heartbeat(self, executor: str) -> clusters.Heartbeat | None:
        """The newest heartbeat of an executor."""
        value = self.values.get(executor)
        found = None if value is None else clusters.decode(value)
        return found if isinstance(found, clusters.Heartbeat) else None

    def all(self) -> shown.ClustersShown:
        """A row per executor, with what its nodes have in all."""
        nodes: dict[str, list[clusters.Node]] = {}
        beats: dict[str, clusters.Heartbeat] = {}
        for value in self.values.values():
            match clusters.decode(value):
                case clusters.Node() as node:
                    nodes.setdefault(node.executor, []).append(node)
                case clusters.Heartbeat() as beat:
                    beats[beat.executor] = beat
        made = []
        for executor in sorted(nodes.keys() | beats.keys()):
            known = beats.get(executor)
            made.append(
                shown.ClusterShown(
                    executor=executor,
                    backend=known.backend if known else "",
                    version=known.version if known else "",
                    last_heartbeat=shown.time(self.times_ms.get(executor)),
                    nodes=len(nodes.get(executor, ())),
                    pools=_pools(nodes.get(executor, [])),
                    allocatable=_total(nodes.get(executor, [])),
                )
            )
        return shown.ClustersShown(clusters=made)


def _pools(nodes: list[clusters.Node]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for node in nodes:
        totals[node.pool] = totals.get(node.pool, 0) + 1
    return totals


def _total(nodes: list[clusters.Node]) -> dict[str, float | int]:
    totals: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.allocatable.items():
            totals[name] = totals.get(name, 0) + amount
    return {name: resources.plain(name, amount) for name, amount in totals.items()}
