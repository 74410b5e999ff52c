"""Records of the log that could not be decoded, as all services have noted them."""

from typing import Final

from fairlead_common.log import EventLog, quarantine
from fairlead_common.log.quarantine import RENEW_S, QuarantinedRecord
from fairlead_common.log.topics import JOBS, QUARANTINE
from fairlead_common.service import clock
from fairlead_lookout.store.topic_caches import Mirror

ROWS_MAX: Final = 10_000
RENEWED_MS: Final = round(2_000 * RENEW_S)
"""A stop that its reader has not renewed for so long is over."""


class QuarantineMirror(Mirror):
    """What `fairlead.quarantine` holds: a value for each record and reader."""

    def __init__(self, log: EventLog, *, away_s: float) -> None:
        super().__init__(log, QUARANTINE, away_s=away_s, rows_max=ROWS_MAX)

    def records(self) -> list[list[QuarantinedRecord]]:
        """All records, the newest first; each as its readers noted it, in the order of names."""
        found: dict[str, list[QuarantinedRecord]] = {}
        for value in self.values.values():
            record = quarantine.decode(value)
            found.setdefault(record.place, []).append(record)
        for noted in found.values():
            noted.sort(key=lambda each: each.reader)
        return sorted(found.values(), key=lambda noted: (-noted[0].time_ms, noted[0].place))

    def stopped_partitions(self) -> dict[int, QuarantinedRecord]:
        """The partitions of `fairlead.jobs` at which a reader is stopped, and at which record."""
        found: dict[int, QuarantinedRecord] = {}
        for noted in self.records():
            for each in noted:
                if each.topic == JOBS and is_stopped(each):
                    found[each.partition] = each
        return found


def is_stopped(noted: QuarantinedRecord) -> bool:
    """Whether the reader still waits there."""
    return noted.outcome == "stopped" and clock.now_ms() - noted.seen_ms < RENEWED_MS
