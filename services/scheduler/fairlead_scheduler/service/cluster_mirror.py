"""Mirrors the clusters into Redis for other programs. Losing Redis loses nothing.

`fairlead:clusters:heartbeats` and `fairlead:clusters:nodes` are hashes by the keys of
`fairlead.clusters`; `fairlead:clusters:position` is the position up to which the topic was copied.
Each step is one MULTI. After Redis was unavailable the whole topic is copied again.
"""

import asyncio
import logging
from collections.abc import Awaitable

import redis.asyncio as redis
from redis.exceptions import RedisError

from fairlead_common.domain.records.clusters import LEADER_KEY
from fairlead_common.log import EventLog
from fairlead_common.log.compacted_view import CompactedReader
from fairlead_common.log.protocol import Batch
from fairlead_common.log.topics import CLUSTERS

HEARTBEATS = "fairlead:clusters:heartbeats"
NODES = "fairlead:clusters:nodes"
POSITION = "fairlead:clusters:position"
RETRY_S = 2.0
ANSWER_S_MAX = 10.0
_logger = logging.getLogger("fairlead.scheduler.mirror")


async def mirror_clusters(log: EventLog, url: str) -> None:
    """Mirror for ever; while Redis is unavailable, try again every `RETRY_S`."""
    was_unavailable = False
    while True:
        client = redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
        try:
            reader = await CompactedReader.open(log, CLUSTERS)
            await _await_bounded(client.delete(HEARTBEATS, NODES))
            while True:
                await _await_bounded(_write(client, await reader.read(wait_s=5.0)))
                was_unavailable = False
        except (RedisError, OSError) as error:
            if not was_unavailable:
                _logger.warning(
                    "Redis is unavailable; the mirror of the clusters waits for it: %s", error
                )
            was_unavailable = True
        finally:
            await client.aclose()
        await asyncio.sleep(RETRY_S)


async def _await_bounded(work: Awaitable[object]) -> None:
    """Wait for a call of Redis, at most `ANSWER_S_MAX`, in a task of its own because the client
    swallows cancellations."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=ANSWER_S_MAX)
    finally:
        task.cancel()
    if not task.done():
        raise TimeoutError(f"Redis did not answer within {ANSWER_S_MAX:.0f} s")
    task.result()


async def _write(client: "redis.Redis", batch: Batch) -> None:
    if not batch.entries:
        return
    async with client.pipeline(transaction=True) as pipe:
        for entry in batch.entries:
            if entry.key == LEADER_KEY:
                continue
            name = NODES if "/" in entry.key else HEARTBEATS
            if entry.value is None:
                pipe.hdel(name, entry.key)
            else:
                pipe.hset(name, entry.key, entry.value)
        pipe.set(POSITION, batch.positions[0])
        await pipe.execute()
