"""Folding a compacted topic: the newest value of every key."""

from typing import Final

from fairlead_common.log.protocol import EventLog, Positions, Reader, caught_up

PROBE_S: Final = 0.5


async def newest(log: EventLog, topic: str) -> tuple[dict[str, bytes], dict[int, int]]:
    """The newest value per key, without deleted keys, and the positions to read next.

    Covers at least everything committed before the call. Raises what `Reader.read` raises.
    """
    end = await log.end_positions(topic)
    reader = await log.reader(topic, await log.start_positions(topic))
    try:
        return await fold(reader, end)
    finally:
        await reader.close()


async def fold(reader: Reader, end: Positions) -> tuple[dict[str, bytes], dict[int, int]]:
    """Read until `end` is passed; `newest` of what the reader saw."""
    values: dict[str, bytes] = {}
    positions: dict[int, int] = {}
    while not caught_up(positions, end):
        batch = await reader.read(wait_s=PROBE_S)
        for entry in batch.entries:
            if entry.value is None:
                values.pop(entry.key, None)
            else:
                values[entry.key] = entry.value
        positions = batch.positions
    return values, positions
