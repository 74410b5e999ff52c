"""A process that waits for the leader's lock and appends while it holds it.

`python -m tests.contract.leadership.holder NAME DATABASE_URL LOG_URL`. On its standard output it
says `holds` after its first append, and at its end `lost` or `failed`; its records have its name as
key.
"""

import asyncio
import sys
from typing import NoReturn

from fairlead_common.db.lock_session import LockLost, holding
from fairlead_common.db.locks import SCHEDULER_LEADER
from fairlead_common.domain.errors import WorldError
from fairlead_common.log.guarded_producer import GuardedProducer
from fairlead_common.log.postgres.event_log import PostgresLog
from fairlead_common.log.protocol import Record

TOPIC = "leadership"


def say(word: str) -> None:
    """A line for the test."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def hold(name: str, database_url: str, log_url: str) -> None:
    """Append until the lock is lost."""
    log = await PostgresLog.open(log_url)
    try:
        async with holding(database_url, SCHEDULER_LEADER, name=name) as session:
            producer = GuardedProducer(await log.producer("leader"), session.confirm)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(session.renew())
                await _append(name, producer)
    except* LockLost:
        say("lost")
    except* WorldError:
        say("failed")  # as any process whose log or database is away
    finally:
        await log.close()


async def _append(name: str, producer: GuardedProducer) -> NoReturn:
    await producer.append([Record(TOPIC, name, b"")])
    say("holds")
    while True:
        await producer.append([Record(TOPIC, name, b"")])
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(hold(*sys.argv[1:]))
