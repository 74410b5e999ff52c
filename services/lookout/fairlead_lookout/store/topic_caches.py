"""The compacted topics in memory: reports of the scheduler, clusters, configuration, quarantine.

Every process reads them from their beginning when it starts, and follows them. Values stay encoded
until they are used. A cache that is full takes no new keys, which is logged.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from fairlead_common.domain.errors import LogError
from fairlead_common.domain.permissions import QueueScope
from fairlead_common.domain.records import clusters as facts
from fairlead_common.domain.records import configuration, scheduling_reports
from fairlead_common.log import EventLog, caught_up, quarantine
from fairlead_common.log.compacted_view import CompactedReader, CompactedView
from fairlead_common.log.protocol import Entry, Positions
from fairlead_common.log.quarantine import RENEW_S, QuarantinedRecord
from fairlead_common.log.topics import CLUSTERS, CONFIG, JOBS, QUARANTINE, REPORTS
from fairlead_common.service import clock
from fairlead_lookout.store.outages import Outages

KEYS_MAX: Final = 200_000
QUARANTINE_KEYS_MAX: Final = 10_000
STOP_VALID_MS: Final = round(2_000 * RENEW_S)
"""A stop that its reader has not renewed for this long has ended."""
_logger: Final = logging.getLogger("fairlead.lookout.caches")


class TopicCache:
    """The newest entry of every key of one compacted topic."""

    def __init__(self, log: EventLog, topic: str, *, away_s: float, keys_max: int = KEYS_MAX):
        self._view = CompactedView(lambda entry: entry, keys_max)
        self.ready = False
        self._log = log
        self._topic = topic
        self._positions: Positions = {}
        self._was_full = False
        self._changed = asyncio.Event()
        self._outages = Outages(f"the cache of {topic}", away_s)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The newest entry of every key that was not deleted."""
        return self._view.values

    def find_value(self, key: str) -> bytes | None:
        """The newest value of a key."""
        entry = self._view.values.get(key)
        return None if entry is None else entry.value

    def iterate_values(self) -> Iterator[bytes]:
        """The newest values of all keys."""
        return (entry.value for entry in self._view.values.values() if entry.value is not None)

    async def run(self) -> None:
        """Follow the topic for ever. Raises `LogUnavailable` after a long outage of the log."""
        await self._outages.run_sessions(self._follow)

    async def wait_until_current(self, wait_s: float) -> bool:
        """Wait until everything is folded that the topic has now; False if that takes longer than
        `wait_s`, or the log is unavailable."""
        try:
            async with asyncio.timeout(wait_s):
                end = await self._log.end_positions(self._topic)
                while not caught_up(self._positions, end):
                    await self._changed.wait()
        except (TimeoutError, LogError):
            return False
        return True

    async def _follow(self) -> None:
        self._positions = {}
        end = await self._log.end_positions(self._topic)
        reader = await CompactedReader.open(self._log, self._topic, live=self._view.values)
        try:
            start = await self._log.start_positions(self._topic)
            self.ready = not self.entries and caught_up(start, end)
            while True:
                batch = await reader.read()
                self._outages.report_progress()
                self._positions = batch.positions
                self._fold(batch.entries)
                self.ready = self.ready or caught_up(batch.positions, end)
        finally:
            self.ready = False
            await reader.close()

    def _fold(self, entries: list[Entry]) -> None:
        for key in self._view.fold(entries):
            self._update_index(key)
        if self._view.is_full and not self._was_full:
            self._was_full = True
            _logger.error(
                "%s has more than %d keys; some are not shown", self._topic, len(self.entries)
            )
        self._changed.set()
        self._changed = asyncio.Event()

    def _update_index(self, key: str) -> None:
        """Called when the value of a key has changed."""

    def _note_key(self, index: dict[str, set[str]], name: str, key: str) -> None:
        """Add a changed key to the keys of a name, or remove it if it was deleted."""
        if key in self.entries:
            index.setdefault(name, set()).add(key)
        else:
            _discard(index, name, key)


class Reports(msgspec.Struct, frozen=True):
    """Decoded reports. `waiting`: reasons, the one of most jobs first."""

    shares: list[scheduling_reports.QueueShare]
    waiting: list[scheduling_reports.WaitingReport]
    round: scheduling_reports.RoundReport | None


class ReportCache(TopicCache):
    """Reports of the scheduler: why jobs wait, shares of queues, the last round of each pool."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, REPORTS, away_s=away_s)
        self._keys_of_queue: dict[str, set[str]] = {}
        self._keys_of_pool: dict[str, set[str]] = {}

    def find_waiting_reason(
        self, pool: str, queue: str, shape: str, job_set: str, gang: str
    ) -> scheduling_reports.WaitingReport | None:
        """Why jobs like this one wait, if the scheduler has reported it."""
        found = self.find_gang_reason(pool, queue, job_set, gang) if gang else None
        if found is not None:
            return found
        # Its gang has ended, so it waits like any other job of its shape.
        return self._find_waiting(
            scheduling_reports.WaitingReport(
                pool=pool, queue=queue, code="", sentence="", shape=shape
            )
        )

    def find_gang_reason(
        self, pool: str, queue: str, job_set: str, gang: str
    ) -> scheduling_reports.WaitingReport | None:
        """Why members of this gang (or group, by its id) wait, if the scheduler has reported it."""
        return self._find_waiting(
            scheduling_reports.WaitingReport(
                pool=pool, queue=queue, code="", sentence="", job_set=job_set, gang=gang
            )
        )

    def _find_waiting(
        self, wanted: scheduling_reports.WaitingReport
    ) -> scheduling_reports.WaitingReport | None:
        """The report with the key of this one."""
        value = self.find_value(scheduling_reports.key(wanted))
        found = None if value is None else scheduling_reports.decode(value)
        return found if isinstance(found, scheduling_reports.WaitingReport) else None

    def find_hops(self, queue: str, job_set: str, group: str) -> dict[str, int]:
        """By role, the distance of the farthest members of a group (T5); {} where it is unknown."""
        for pool in self._keys_of_pool:
            wanted = scheduling_reports.GroupNearness(
                pool=pool, queue=queue, job_set=job_set, group=group, hops={}
            )
            value = self.find_value(scheduling_reports.key(wanted))
            found = None if value is None else scheduling_reports.decode(value)
            if isinstance(found, scheduling_reports.GroupNearness):
                return found.hops
        return {}

    def read_queue(self, queue: str) -> Reports:
        """The reports about a queue, in all pools."""
        return self._decode(self._keys_of_queue.get(queue, ()))

    def read_pool(self, pool: str, visible_queues: QueueScope) -> Reports:
        """The last round of a pool, and the reports about the visible queues."""
        keys = self._keys_of_pool.get(pool, ())
        return self._decode(key for key in keys if key == pool or _queue_of(key) in visible_queues)

    def list_pools(self) -> set[str]:
        """The pools with any report."""
        return set(self._keys_of_pool)

    def has_pool(self, pool: str) -> bool:
        """Whether there is any report about this pool."""
        return pool in self._keys_of_pool

    def _decode(self, keys: Iterable[str]) -> Reports:
        found = Reports([], [], None)
        for key in keys:
            value = self.find_value(key)
            match None if value is None else scheduling_reports.decode(value):
                case scheduling_reports.QueueShare() as share:
                    found.shares.append(share)
                case scheduling_reports.WaitingReport() as reason:
                    found.waiting.append(reason)
                case scheduling_reports.RoundReport() as last:
                    found = msgspec.structs.replace(found, round=last)
                case scheduling_reports.GroupNearness() | None:
                    pass
        found.waiting.sort(key=lambda reason: -reason.jobs)
        return found

    def _update_index(self, key: str) -> None:
        indexes = [(self._keys_of_pool, key.partition("/")[0])]
        if queue := _queue_of(key):
            indexes.append((self._keys_of_queue, queue))
        for index, name in indexes:
            self._note_key(index, name, key)


def _discard(index: dict[str, set[str]], name: str, key: str) -> None:
    """Remove a key from the keys of a name, and the name with its last key."""
    keys = index.get(name, set())
    keys.discard(key)
    if not keys:
        index.pop(name, None)


def _queue_of(key: str) -> str:
    """The queue that the report of a key is about; "" for a round."""
    return key.partition("/")[2].partition("/")[0]


class ClusterCache(TopicCache):
    """Heartbeats (by executor) and nodes (by executor/node)."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, CLUSTERS, away_s=away_s)
        self._keys_of_executor: dict[str, set[str]] = {}
        self._nodes_of_pool: dict[str, set[str]] = {}
        self._pool_of_node: dict[str, str] = {}

    def has_nodes(self, pool: str) -> bool:
        """Whether any executor reports a node in this pool."""
        return pool in self._nodes_of_pool

    def list_pools(self) -> set[str]:
        """The pools with nodes."""
        return set(self._nodes_of_pool)

    def list_executors(self) -> list[str]:
        """The executors that have sent a heartbeat or a node, by name."""
        return sorted(self._keys_of_executor)

    def read_nodes(self, executor: str) -> list[facts.Node]:
        """The nodes of an executor, in no order."""
        values = map(self.find_value, self._keys_of_executor.get(executor, ()))
        found = (facts.decode(value) for value in values if value is not None)
        return [each for each in found if isinstance(each, facts.Node)]

    def _update_index(self, key: str) -> None:
        if executor := key.partition("/")[0]:  # not for the key of the scheduler
            self._note_key(self._keys_of_executor, executor, key)
        if (before := self._pool_of_node.pop(key, None)) is not None:
            _discard(self._nodes_of_pool, before, key)
        value = self.find_value(key)
        node = None if value is None else facts.decode(value)
        if isinstance(node, facts.Node):
            self._pool_of_node[key] = node.pool
            self._nodes_of_pool.setdefault(node.pool, set()).add(key)

    def find_heartbeat(self, executor: str) -> facts.Heartbeat | None:
        """The newest heartbeat of an executor."""
        value = self.find_value(executor)
        found = None if value is None else facts.decode(value)
        return found if isinstance(found, facts.Heartbeat) else None

    def find_heartbeat_ms(self, executor: str) -> int | None:
        """When the log took the newest heartbeat of an executor."""
        entry = self.entries.get(executor)
        return None if entry is None else entry.time_ms

    def find_leader(self) -> tuple[facts.LeaderHeartbeat, int] | None:
        """The newest heartbeat of the leading scheduler, and when the log took it (ms)."""
        entry = self.entries.get(facts.LEADER_KEY)
        if entry is None or entry.value is None:
            return None
        found = facts.decode(entry.value)
        return (found, entry.time_ms) if isinstance(found, facts.LeaderHeartbeat) else None

    def find_limits(self) -> facts.LeaderHeartbeat:
        """The heartbeat that says when an executor is stale and lost, else one of the defaults."""
        leader = self.find_leader()
        return facts.LeaderHeartbeat(instance="") if leader is None else leader[0]

    def read_all(self) -> list[tuple[str, facts.Heartbeat | None, list[facts.Node]]]:
        """All executors by name: the last heartbeat and the nodes of each."""
        names = self.list_executors()
        return [(name, self.find_heartbeat(name), self.read_nodes(name)) for name in names]


class ConfigurationCache(TopicCache):
    """Queues and cordons. `on_change` is called when some have changed."""

    def __init__(
        self, log: EventLog, *, away_s: float, on_change: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(log, CONFIG, away_s=away_s)
        self._on_change = on_change

    def _fold(self, entries: list[Entry]) -> None:
        super()._fold(entries)
        if entries:
            self._on_change()

    def find_queue(self, name: str) -> configuration.Queue | None:
        """A queue that was not deleted."""
        value = self.find_value(f"queue/{name}")
        found = None if value is None else configuration.decode(value)
        return found if isinstance(found, configuration.Queue) and not found.deleted else None

    def was_deleted(self, name: str) -> bool:
        """Whether there was a queue of this name that does not exist any more."""
        value = self.find_value(f"queue/{name}")
        return value is not None and configuration.decode(value).deleted

    def read_queues(self) -> list[configuration.Queue]:
        """All queues that were not deleted."""
        prefix = "queue/"
        names = (key.removeprefix(prefix) for key in self.entries if key.startswith(prefix))
        return [queue for name in names if (queue := self.find_queue(name)) is not None]

    async def wait_for(self, versions: Mapping[str, int], wait_s: float) -> bool:
        """Whether these records have these versions, or newer ones, after at most `wait_s`."""
        deadline = clock.monotonic_s() + wait_s
        while not all(self._version(key) >= version for key, version in versions.items()):
            left_s = deadline - clock.monotonic_s()
            if left_s <= 0:
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
        return True

    def _version(self, key: str) -> int:
        """0 for a record that does not exist."""
        value = self.find_value(key)
        return 0 if value is None else configuration.decode(value).version

    def find_cordon(self, executor: str, node: str | None = None) -> configuration.Cordon | None:
        """The cordon that an operator set on an executor, or on one of its nodes."""
        key = configuration.key(configuration.Cordon(executor=executor, node=node))
        value = self.find_value(key)
        found = None if value is None else configuration.decode(value)
        is_set = isinstance(found, configuration.Cordon) and found.cordoned and not found.deleted
        return found if isinstance(found, configuration.Cordon) and is_set else None


class QuarantineCache(TopicCache):
    """Records of the log that a service could not decode: a value for each record and reader."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, QUARANTINE, away_s=away_s, keys_max=QUARANTINE_KEYS_MAX)

    def read_all(self) -> list[list[QuarantinedRecord]]:
        """All records, the newest first; each as its readers reported it, sorted by reader."""
        found: dict[str, list[QuarantinedRecord]] = {}
        for value in self.iterate_values():
            record = quarantine.decode(value)
            found.setdefault(record.place, []).append(record)
        for reported in found.values():
            reported.sort(key=lambda each: each.reader)
        return sorted(
            found.values(), key=lambda reported: (-reported[0].time_ms, reported[0].place)
        )

    def find_stopped_partitions(self) -> dict[int, QuarantinedRecord]:
        """The partitions of `fairlead.jobs` in which a reader has stopped, and at which record."""
        return {
            record.partition: record
            for reported in self.read_all()
            for record in reported
            if record.topic == JOBS and is_stopped(record)
        }


def is_stopped(record: QuarantinedRecord) -> bool:
    """Whether the reader is still stopped at this record."""
    return record.outcome == "stopped" and clock.now_ms() - record.seen_ms < STOP_VALID_MS
