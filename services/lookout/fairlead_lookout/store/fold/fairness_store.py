"""Reads and writes shares over time: positions of the reports, totals, current shares, rounds."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairlead_common.db import Connection, to_columns
from fairlead_common.domain.errors import ViewConflict
from fairlead_common.domain.records import scheduling_reports
from fairlead_lookout.domain.fairness_fold import FairnessChanges, ReportedShare, ShareKey
from fairlead_lookout.store.view_schema import FAIRNESS

_encode: Final = msgspec.json.Encoder().encode
_decode_share: Final = msgspec.json.Decoder(scheduling_reports.QueueShare).decode


class FairnessStore:
    """Uses the one connection that holds the lock of the reports."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_positions(self) -> dict[int, int]:
        """The positions to read next."""
        rows = await self._connection.fetch(FAIRNESS["progress"])
        return {row["partition"]: row["position"] for row in rows}

    async def read_current_shares(self) -> dict[ShareKey, ReportedShare]:
        """The newest report about each queue in each pool."""
        return {
            (row["pool"], row["queue"]): ReportedShare(
                _decode_share(row["report"]), row["summed_ms"]
            )
            for row in await self._connection.fetch(FAIRNESS["current_shares"])
        }

    async def write(
        self, changes: FairnessChanges, before: Mapping[int, int], after: Mapping[int, int]
    ) -> None:
        """Write changes and positions in one transaction. Raises `ViewConflict`."""
        async with self._connection.transaction():
            await self._advance(before, after)
            await self._write_changes(changes)

    async def _advance(self, before: Mapping[int, int], after: Mapping[int, int]) -> None:
        for number, position in after.items():
            moved = await self._connection.fetchval(
                FAIRNESS["advance"], number, before.get(number, 0), position
            )
            if moved is None:
                raise ViewConflict("another process folds the reports: their position has moved")

    async def _write_changes(self, changes: FairnessChanges) -> None:
        execute = self._connection.execute
        if changes.totals:
            rows = [
                (*key, each.ms, each.actual_share, each.fair_share, each.demand_share, each.queued,
                 each.running)
                for key, each in sorted(changes.totals.items())
            ]  # fmt: skip
            await execute(FAIRNESS["add_shares"], *to_columns(rows))
        current: list[tuple[Any, ...]] = [
            (*key, _encode(reported.share), reported.summed_ms)
            for key, reported in changes.current.items()
            if reported is not None
        ]
        if current:
            await execute(FAIRNESS["set_current_shares"], *to_columns(current))
        ended = [key for key, reported in changes.current.items() if reported is None]
        if ended:
            await execute(FAIRNESS["delete_current_shares"], *to_columns(ended))
        if changes.rounds:
            rounds = {(each.pool, each.at_ms): _encode(each) for each in changes.rounds}
            pools, times = to_columns(rounds)
            await execute(FAIRNESS["add_rounds"], pools, times, list(rounds.values()))
