"""The loop that folds the reports into shares over time. One process does it at a time.

An advisory lock decides which. Positions move in the transaction that writes the sums, by
compare-and-set, so nothing is added twice. A batch every few seconds is enough for tables by the
minute.
"""

import asyncio
import contextlib
from typing import Final

import asyncpg

from fairlead_common.db import lock_session
from fairlead_common.db.connection_pool import CONNECTION_ERRORS, STATEMENT_S_MAX
from fairlead_common.db.locks import LOOKOUT_REPORTS
from fairlead_common.log import EventLog, Reader
from fairlead_common.log.compacted_view import CompactedReader
from fairlead_common.log.topics import REPORTS
from fairlead_common.service.disk import Disk
from fairlead_lookout.domain.fairness_fold import (
    ReportedShare,
    ShareKey,
    decode_record,
    fold_reports,
)
from fairlead_lookout.service.settings import Settings
from fairlead_lookout.store.fold.fairness_store import FairnessStore
from fairlead_lookout.store.outages import Outages

INTERVAL_S: Final = 2.0


class FairnessLoop:
    """Follows the reports while this process holds the lock."""

    def __init__(self, log: EventLog, settings: Settings) -> None:
        self._log = log
        self._settings = settings
        self._disk = Disk(settings.disk)
        self._outages = Outages("the fold of the reports", settings.away_s)

    async def run(self) -> None:
        """For ever. Raises `ViewConflict`, and an outage that lasts longer than `away_s`."""
        await self._outages.run_sessions(self._session)

    async def _session(self) -> None:
        """Fold as long as the connection, and with it the lock, exists."""
        connection = await lock_session.connect(
            self._settings.database_url,
            name="fairlead-lookout-fairness",
            command_s_max=STATEMENT_S_MAX,
        )
        reader: Reader | None = None
        try:
            while not await lock_session.try_lock(connection, LOOKOUT_REPORTS):
                self._outages.report_progress()
                await asyncio.sleep(INTERVAL_S)
            store = FairnessStore(connection)
            positions = await self._find_positions(store)
            known = await store.read_current_shares()
            live = {f"{pool}/{queue}" for pool, queue in known}
            reader = await CompactedReader.open(self._log, REPORTS, positions, live)
            while True:
                await self._outages.wait_for_space(self._disk)
                before = positions
                positions = await self._fold_next(store, reader, before, known)
                if positions == before:
                    await lock_session.confirm(connection)
                self._outages.report_progress()
        finally:
            if reader is not None:
                await reader.close()
            with contextlib.suppress(*CONNECTION_ERRORS, asyncpg.PostgresError):
                await connection.close(timeout=2.0)

    async def _find_positions(self, store: FairnessStore) -> dict[int, int]:
        """Where to continue, or the start of the log if it no longer has that position."""
        start = await self._log.start_positions(REPORTS)
        saved = await store.read_positions()
        return {number: max(first, saved.get(number, 0)) for number, first in start.items()}

    async def _fold_next(
        self,
        store: FairnessStore,
        reader: Reader,
        positions: dict[int, int],
        known: dict[ShareKey, ReportedShare],
    ) -> dict[int, int]:
        """Read once, fold and write; updates `known` and returns the new positions."""
        batch = await reader.read()
        if batch.positions == positions:
            return positions
        records = [decode_record(each.key, each.value, each.time_ms) for each in batch.entries]
        changes = fold_reports(known, records)
        await store.write(changes, positions, batch.positions)
        for key, reported in changes.current.items():
            if reported is None:
                known.pop(key, None)
            else:
                known[key] = reported
        await asyncio.sleep(INTERVAL_S)
        return batch.positions
