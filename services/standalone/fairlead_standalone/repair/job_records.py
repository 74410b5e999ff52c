"""Reads the records of `fairlead.jobs` that the log has now."""

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping

from fairlead_common.domain.records import events
from fairlead_common.domain.records.decoders import Undecodable, decode_jobs
from fairlead_common.log import Entry, EventLog
from fairlead_common.log.topics import JOBS


async def read_sequences(
    log: EventLog, partitions: Collection[int], end: Mapping[int, int]
) -> AsyncIterator[tuple[Entry, events.EventSequence]]:
    """The records of these partitions before `end`, without those that cannot be decoded."""
    start = await log.start_positions(JOBS)
    positions = {number: start[number] for number in partitions}
    reader = await log.reader(JOBS, positions)
    try:
        while any(positions[number] < end[number] for number in partitions):
            batch = await reader.read()
            positions = batch.positions
            for entry in batch.entries:
                if entry.value is not None:
                    with contextlib.suppress(Undecodable):  # readers pass it over too
                        yield entry, decode_jobs(entry)
    finally:
        await reader.close()
