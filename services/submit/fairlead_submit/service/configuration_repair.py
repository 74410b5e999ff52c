"""Submit's part of `fairlead repair`: queues and cordons that differ between tables and log.

After the tables were restored from a backup, or the log was lost, one side has older versions.
Folds of the log would ignore changes to an older version, so each side takes the newer version.
"""

from typing import Final

import msgspec

from fairlead_common import db
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records.configuration import Cordon, Queue
from fairlead_common.log import EventLog, compacted_view
from fairlead_common.log.topics import CONFIG
from fairlead_submit.store import configuration_store
from fairlead_submit.store.configuration_store import decode_item


class Disagreement(msgspec.Struct, frozen=True):
    """The configuration that is older on one side. `version`: the highest in the log."""

    newer_in_log: list[Queue | Cordon]
    newer_in_tables: list[Queue | Cordon]
    version: int
    sequence: int

    def __bool__(self) -> bool:
        return bool(self.newer_in_log or self.newer_in_tables or self.version > self.sequence)

    def describe(self) -> str:
        """What differs, in one or two sentences."""
        sentences = []
        if self.newer_in_log:
            sentences.append(
                f"{len(self.newer_in_log)} queues or cordons are older in submit's tables than in"
                f" the log ({_names(self.newer_in_log)}): the tables were restored from a backup."
            )
        if self.newer_in_tables:
            sentences.append(
                f"The log lacks {len(self.newer_in_tables)} queues or cordons of submit's tables"
                f" ({_names(self.newer_in_tables)}): the log was restored or created again."
            )
        if self.version > self.sequence:
            sentences.append(
                "Changes of queues and cordons would get versions that the log has already, and"
                " have no effect."
            )
        return " ".join(sentences)


NAMES_MAX: Final = 5


def _names(items: list[Queue | Cordon]) -> str:
    listed = ", ".join(configuration.key(item) for item in items[:NAMES_MAX])
    return listed + (", ..." if len(items) > NAMES_MAX else "")


async def find_disagreement(pool: db.Pool, log: EventLog) -> Disagreement:
    """Compare the tables, with what is still in the outbox, and the log."""
    newest, _ = await compacted_view.read_newest(log, CONFIG)
    logged = {
        key: item for key, value in newest.items() if (item := decode_item(value)) is not None
    }
    stored = await configuration_store.read_configuration(pool)
    table = stored.items
    return Disagreement(
        newer_in_log=[
            item
            for key, item in sorted(logged.items())
            if key not in stored.outbox_keys
            and (table[key].version < item.version if key in table else not item.deleted)
        ],
        newer_in_tables=[
            item
            for key, item in sorted(table.items())
            if key not in stored.outbox_keys
            and (logged[key].version < item.version if key in logged else not item.deleted)
        ],
        version=max((item.version for item in logged.values()), default=0),
        sequence=stored.version,
    )


async def repair(pool: db.Pool, found: Disagreement) -> None:
    """Copy the newer versions to the other side; to the log through the outbox."""
    await configuration_store.restore_configuration(
        pool, found.version, found.newer_in_log, found.newer_in_tables
    )
