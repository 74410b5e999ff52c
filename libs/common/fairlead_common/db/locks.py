"""The registry of all advisory locks that Fairlead takes in Postgres.

Postgres has two separate spaces of advisory locks: those named by one bigint and those named by a
class and a key (two integers). Every lock of Fairlead is declared here, and every statement takes
its numbers as parameters, so that no two purposes share a lock by accident (decision 0024).
"""

import enum
import zlib
from typing import Final

import msgspec

PAIR: Final = 2
"""`pg_locks.objsubid` of a lock named by a class and a key."""
NUMBER: Final = 1
"""`pg_locks.objsubid` of a lock named by one bigint."""


class LockClass(enum.IntEnum):
    """First number of a lock named by a class and a key."""

    LOOKOUT_PARTITION = 0x0FA2
    """Key: a partition of `fairlead.jobs`. Its holder folds that partition for lookout."""
    LOOKOUT_FOLDER = 0x0FA3
    """Key: a random number per process. The locks held say how many processes fold."""
    LOOKOUT_REPORTS = 0x0FA4
    """Key: 0. Its holder folds `fairlead.reports` into shares over time."""
    LOG_CLEANUP = 0x0FA5
    """Key: 0. Its holder prunes and compacts the log in Postgres."""
    CORDON = 0x0FA6
    """Key: hash of a cordon's name. Taken for a transaction; cordons of one hash take turns."""
    LOOKOUT_TABLES = 0x0FA7
    """Key: 0. Taken for a transaction that creates or drops a day's table of events, or the tables
    of a week of jobs."""
    WEBHOOK_FAN_OUT = 0x0FA8
    """Key: 0. Its holder makes deliveries of webhooks from public events."""
    WEBHOOK_SHARD = 0x0FA9
    """Key: a share of the webhooks. Its holder sends their deliveries."""
    WEBHOOK_SENDER = 0x0FAA
    """Key: a random number per process. The locks held say how many processes send deliveries."""
    WEBHOOK_TABLES = 0x0FAB
    """Key: 0. Taken for a transaction that creates or drops a day's table of deliveries."""
    WEBHOOK_LIMITS = 0x0FAC
    """Key: 0. Taken for a transaction that counts webhooks before it adds one."""


class LockNumber(enum.IntEnum):
    """Locks named by one bigint. Below 2^32, which keeps them apart from migrations."""

    SCHEDULER_LEADER = 0x0FA1_5C4E
    """Its holder leads the schedulers."""
    SUBMIT_RELAY = 0x0FA1_5B17
    """Its holder appends submit's outbox to `fairlead.config`."""


MIGRATIONS: Final = 0x0FA1
"""Upper half of the bigint of `migration_lock`."""


class Lock(msgspec.Struct, frozen=True):
    """One advisory lock, in the terms of `pg_locks`."""

    classid: int
    objid: int
    objsubid: int

    @property
    def number(self) -> int:
        """The bigint that names it, if it is named by one."""
        assert self.objsubid == NUMBER
        return self.classid << 32 | self.objid


SCHEDULER_LEADER: Final = Lock(0, LockNumber.SCHEDULER_LEADER, NUMBER)
SUBMIT_RELAY: Final = Lock(0, LockNumber.SUBMIT_RELAY, NUMBER)
LOG_CLEANUP: Final = Lock(LockClass.LOG_CLEANUP, 0, PAIR)
LOOKOUT_REPORTS: Final = Lock(LockClass.LOOKOUT_REPORTS, 0, PAIR)
WEBHOOK_FAN_OUT: Final = Lock(LockClass.WEBHOOK_FAN_OUT, 0, PAIR)


def migration_lock(schema: str) -> Lock:
    """The lock under which one schema is migrated. Schemas of one checksum take turns."""
    return Lock(MIGRATIONS, zlib.crc32(schema.encode()), NUMBER)
