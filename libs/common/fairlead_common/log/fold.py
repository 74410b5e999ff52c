"""Folding a compacted topic: the newest value of every key."""

from fairlead_common.log.protocol import EventLog, caught_up


async def newest(log: EventLog, topic: str) -> tuple[dict[str, bytes], dict[int, int]]:
    """The newest value per key, without deleted keys, and the positions to read next.

    Covers at least everything committed before the call. Raises what `Reader.read` raises.
    """
    end = await log.end_positions(topic)
    positions = await log.start_positions(topic)
    values: dict[str, bytes] = {}
    reader = await log.reader(topic, positions)
    try:
        while not caught_up(positions, end):
            batch = await reader.read()
            for entry in batch.entries:
                if entry.value is None:
                    values.pop(entry.key, None)
                else:
                    values[entry.key] = entry.value
            positions = batch.positions
    finally:
        await reader.close()
    return values, positions
