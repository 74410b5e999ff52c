"""The leader's own heartbeats in the log, and the time of the log as they show it."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Final

from fairlead_common.domain.errors import AppendRefused
from fairlead_common.domain.records import clusters
from fairlead_common.log import Producer
from fairlead_common.service import clock
from fairlead_common.service.health import VERSION
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.cluster_state import Clusters

HEARTBEAT_S: Final = 2.0
HEARTBEATS_PER_BOUND: Final = 4
"""At least this many heartbeats come within the time after which an executor is stale or lost."""
SET_BACK_S_MIN: Final = 60
"""Clocks are set back by less while they are kept in step."""
STEPS_MAX: Final = 2
"""Silence grows by this many heartbeat intervals at most between two heartbeats."""
_logger = logging.getLogger("fairlead.scheduler")


class LeaderHeartbeats:
    """Appends a heartbeat of this leader every `interval_s`."""

    def __init__(
        self, producer: Producer, heartbeat: clusters.LeaderHeartbeat, *, interval_s: float
    ) -> None:
        self.instance = heartbeat.instance
        self.step_s_max = STEPS_MAX * interval_s
        self._producer = producer
        self._interval_s = interval_s
        self._record = clusters.leader_heartbeat_record(heartbeat)

    @classmethod
    def of(
        cls, settings: SchedulerSettings, producer: Producer, *, since_ms: int
    ) -> "LeaderHeartbeats":
        """The heartbeats of a leader that has just begun."""
        shortest_s = min(settings.executor_stale_s, settings.executor_timeout_s)
        interval_s = min(HEARTBEAT_S, shortest_s / HEARTBEATS_PER_BOUND)
        heartbeat = clusters.LeaderHeartbeat(
            instance=secrets.token_hex(8),
            version=VERSION,
            since_ms=since_ms,
            executor_stale_ms=round(1000 * settings.executor_stale_s),
            executor_timeout_ms=round(1000 * settings.executor_timeout_s),
        )
        return cls(producer, heartbeat, interval_s=interval_s)

    async def append(self) -> None:
        """Append one heartbeat. Raises what `Producer.append` raises."""
        await self._producer.append([self._record])

    async def run(self) -> None:
        """Append heartbeats; it only ends with an error other than `AppendRefused`."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.append()
            except AppendRefused as error:
                _logger.warning("the leader's heartbeat was not appended: %s", error)


class LogClock:
    """The time of the log (ms), by which the leader judges what others did.

    It is the append time of the leader's newest heartbeat that was read, plus what has passed since
    on the monotonic clock, at most `step_s_max`: a leader that was frozen does not take the time in
    which it read nothing for time in which nothing happened. It is never ahead of this machine's
    clock, so what is due is due by both clocks. It only goes back if the clock of the log was set
    back by `SET_BACK_S_MIN` or more: all later records have times of that clock, and a run that has
    just started would else exceed its maximum run time.
    """

    def __init__(
        self,
        clusters_: Clusters,
        step_s_max: float,
        *,
        wall_ms: Callable[[], int] = clock.now_ms,
        monotonic_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._clusters = clusters_
        self._step_s_max = step_s_max
        self._wall_ms = wall_ms
        self._monotonic_s = monotonic_s
        self._read_ms: int | None = None
        self._read_s = 0.0
        self._newest_ms = 0

    def now_ms(self) -> int:
        """The time of the log, as far as this leader knows it."""
        assert self._clusters.leader_ms is not None, "a leader has read its first heartbeat"
        if self._clusters.leader_ms != self._read_ms:
            self._read_ms, self._read_s = self._clusters.leader_ms, self._monotonic_s()
            if self._read_ms <= self._newest_ms - 1000 * SET_BACK_S_MIN:
                _logger.warning(
                    "the clock of the log was set back by %d s",
                    (self._newest_ms - self._read_ms) // 1000,
                )
                self._newest_ms = self._read_ms
        since_s = min(self._monotonic_s() - self._read_s, self._step_s_max)
        found_ms = min(self._read_ms + int(1000 * since_s), self._wall_ms())
        self._newest_ms = max(self._newest_ms, found_ms)
        return self._newest_ms
