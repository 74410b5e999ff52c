"""Moves the end of `fairlead.jobs` beyond positions that views have read, for `fairlead repair`.

A log that was restored from an older backup, or created again, would use positions a second time
that views have read before. Positions can have holes, so they are skipped: in Postgres by its
counters, elsewhere by records without events.
"""

from collections.abc import Mapping
from typing import Final

from fairlead_common.domain.errors import WorldError
from fairlead_common.domain.ids import JobId
from fairlead_common.domain.records import events
from fairlead_common.log.postgres.event_log import PostgresLog
from fairlead_common.log.protocol import EventLog, Producer, Record
from fairlead_common.log.topics import JOBS

FILLERS_MAX: Final = 2_000_000
"""Most records without events that are appended, over all partitions."""
BATCH: Final = 10_000
BY: Final = "repair"


class GapTooLarge(WorldError):
    """The log ends too far below the views: too many positions would have to be skipped."""


async def advance_end(log: EventLog, producer: Producer, targets: Mapping[int, int]) -> None:
    """Move the end of every partition to its target or beyond it. Raises `GapTooLarge`."""
    end = await log.end_positions(JOBS)
    short = {number: at - end[number] for number, at in targets.items() if at > end[number]}
    if not short:
        return
    if isinstance(log, PostgresLog):
        await log.skip_positions(JOBS, {number: targets[number] for number in short})
        return
    if sum(short.values()) > FILLERS_MAX:
        raise GapTooLarge(
            f"the log ends {sum(short.values()):,} positions below what the views have read, and"
            f" at most {FILLERS_MAX:,} can be skipped in this kind of log: restore a newer backup"
            " of the log, or drop the views' schemas and start again"
        )
    (record,) = events.records("", "", BY, [events.JobReleased(job_id=_NOBODY)], partition=0)
    for number, count in short.items():
        filler = Record(JOBS, record.key, record.value, number)
        for first in range(0, count, BATCH):
            await producer.append([filler] * min(BATCH, count - first))


_NOBODY: Final = JobId("0" * 28)
"""The id of no job: an event about it changes nothing."""
