"""Appends new jobs to the log, within the quotas and at the pace at which they can be shown."""

from collections.abc import Sequence
from typing import Final

from fairlead_common.log.protocol import Record
from fairlead_common.service.disk import Disk, Space
from fairlead_submit.service.writers.log_writer import LogWriter
from fairlead_submit.service.writers.quotas import QuotaTracker
from fairlead_submit.service.writers.view_window import ViewWindow


class JobWriter:
    """What every request goes through that makes jobs."""

    def __init__(
        self, writer: LogWriter, quotas: QuotaTracker, window: ViewWindow, disk: Disk
    ) -> None:
        self._writer = writer
        self.quotas: Final = quotas
        self._window = window
        self._disk = disk

    async def append(
        self, queue: str, records: Sequence[Record], *, events: int, jobs: int
    ) -> dict[int, int]:
        """Append the records of new jobs of a queue, and return the positions after them.

        `events`: how many submissions of a job or an array they contain. `jobs`: how many jobs
        count towards the quotas. Raises a `Problem` or `WorldError`.
        """
        self._disk.check(Space.LOW)
        size = sum(len(record.value or b"") for record in records)
        async with (
            self.quotas.reserve(queue, jobs, size) as reserved,
            self._window.admit(queue, events, size) as admission,
        ):
            appended = await self._writer.append(records)
            reserved.appended(appended)
            admission.positions = appended
        return appended
