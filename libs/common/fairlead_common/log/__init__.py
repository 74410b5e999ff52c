"""The event log: one protocol (`protocol.py`), three implementations, one contract suite.

`kafka.py` is production, `postgres.py` the embedded default, `memory.py` serves simulation.
"""

from fairlead_common.log.protocol import (
    RECORD_BYTES_MAX,
    Batch,
    Entry,
    EventLog,
    Producer,
    Reader,
    Record,
    Topic,
    caught_up,
    partition_of,
)

__all__ = [
    "RECORD_BYTES_MAX",
    "Batch",
    "Entry",
    "EventLog",
    "Producer",
    "Reader",
    "Record",
    "Topic",
    "caught_up",
    "partition_of",
]
