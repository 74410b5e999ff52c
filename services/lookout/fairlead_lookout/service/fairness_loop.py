"""The fold of `fairlead.reports` into shares over time and the last rounds: one process's work.

An advisory lock says whose. Positions move with what is written, by compare-and-set, so nothing is
added twice; a batch every few seconds is enough for tables by the minute.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

import asyncpg
import msgspec

from fairlead_common.db import Connection, load, lock_session
from fairlead_common.db.connection_pool import AWAY, STATEMENT_S_MAX
from fairlead_common.db.locks import LOOKOUT_REPORTS
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.records import scheduling_reports
from fairlead_common.log import EventLog, Reader
from fairlead_common.log.compacted_reader import CompactedReader
from fairlead_common.log.topics import REPORTS
from fairlead_common.service.disk import Disk
from fairlead_lookout.domain import fairness_fold
from fairlead_lookout.domain.fairness_fold import Added, Standing, StandingKey
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store.outages import Outages

SQL: Final = load("fairlead_lookout.store", "sql/fairness.sql")
EVERY_S: Final = 2.0
_encode: Final = msgspec.json.Encoder().encode


class FairnessFolder:
    """Follows the reports while this process holds the lock."""

    def __init__(self, log: EventLog, settings: Settings) -> None:
        self._log = log
        self._settings = settings
        self._disk = Disk(settings.disk)
        self._outages = Outages("the fold of the reports", settings.away_s)

    async def run(self) -> None:
        """For ever. Raises what lasts: an outage beyond the bound, `ViewConflict`."""
        await self._outages.outlast(self._session)

    async def _session(self) -> None:
        """Fold while the connection holds, and with it the lock."""
        connection = await lock_session.connect(
            self._settings.database_url,
            name="fairlead-lookout-fairness",
            command_s_max=STATEMENT_S_MAX,
        )
        reader: Reader | None = None
        try:
            while not await lock_session.try_lock(connection, LOOKOUT_REPORTS):
                self._outages.well()
                await asyncio.sleep(EVERY_S)
            positions = await self._positions(connection)
            known = {
                (row["pool"], row["queue"]): Standing(_share(row["report"]), row["summed_ms"])
                for row in await connection.fetch(SQL["standing_now"])
            }
            live = {f"{pool}/{queue}" for pool, queue in known}
            reader = await CompactedReader.open(self._log, REPORTS, positions, live)
            while True:
                await self._outages.until_space(self._disk)
                positions = await self._turn(connection, reader, positions, known)
                self._outages.well()
        finally:
            if reader is not None:
                await reader.close()
            with contextlib.suppress(*AWAY, asyncpg.PostgresError):
                await connection.close(timeout=2.0)

    async def _positions(self, connection: Connection) -> dict[int, int]:
        """Where to read on; where the log begins, if it no longer has that."""
        start = await self._log.start_positions(REPORTS)
        rows = await connection.fetch(SQL["progress"])
        kept = {row["partition"]: row["position"] for row in rows}
        return {number: max(first, kept.get(number, 0)) for number, first in start.items()}

    async def _turn(
        self,
        connection: Connection,
        reader: Reader,
        positions: dict[int, int],
        known: dict[StandingKey, Standing],
    ) -> dict[int, int]:
        """Read once, write what it adds; `known` is what it will be the next time."""
        batch = await reader.read()
        if batch.positions == positions:
            return positions
        said = [fairness_fold.read(each.key, each.value, each.time_ms) for each in batch.entries]
        added = fairness_fold.apply(known, said)
        async with connection.transaction():
            await self._advance(connection, positions, batch.positions)
            await _write(connection, added)
        for key, standing in added.now.items():
            if standing is None:
                known.pop(key, None)
            else:
                known[key] = standing
        await asyncio.sleep(EVERY_S)
        return batch.positions

    async def _advance(
        self, connection: Connection, before: Mapping[int, int], after: Mapping[int, int]
    ) -> None:
        for number, position in after.items():
            moved = await connection.fetchval(
                SQL["advance"], number, before.get(number, 0), position
            )
            if moved is None:
                raise ViewConflict("another process folds the reports: their position has moved")


async def _write(connection: Connection, added: Added) -> None:
    if added.sums:
        rows = [
            (*key, each.ms, each.actual_share, each.fair_share, each.demand_share, each.queued,
             each.running)
            for key, each in sorted(added.sums.items())
        ]  # fmt: skip
        await connection.execute(SQL["add_standing"], *map(list, zip(*rows, strict=True)))
    now: list[tuple[Any, ...]] = [
        (*key, _encode(standing.share), standing.summed_ms)
        for key, standing in added.now.items()
        if standing is not None
    ]
    if now:
        await connection.execute(SQL["set_standing"], *map(list, zip(*now, strict=True)))
    gone = [key for key, standing in added.now.items() if standing is None]
    if gone:
        await connection.execute(SQL["end_standing"], *map(list, zip(*gone, strict=True)))
    if added.rounds:
        rounds = {(each.pool, each.at_ms): _encode(each) for each in added.rounds}
        pools, times = map(list, zip(*rounds, strict=True))
        await connection.execute(SQL["add_rounds"], pools, times, list(rounds.values()))


_decode_share: Final = msgspec.json.Decoder(scheduling_reports.QueueShare)


def _share(report: bytes) -> scheduling_reports.QueueShare:
    return _decode_share.decode(report)
