"""Appends new jobs to the log, within the quotas and at the pace at which they can be shown."""

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead_common.log.append_limits import count_value_bytes
from fairlead_common.log.protocol import Record
from fairlead_common.service import clock
from fairlead_common.service.disk import Disk, Space
from fairlead_submit.domain.recent_ids import RecentIds
from fairlead_submit.service.writers.log_writer import LogWriter
from fairlead_submit.service.writers.quotas import QuotaTracker
from fairlead_submit.service.writers.view_window import ViewWindow


class JobWriter:
    """What every request goes through that makes jobs."""

    def __init__(
        self,
        writer: LogWriter,
        quotas: QuotaTracker,
        window: ViewWindow,
        recent: RecentIds,
        disk: Disk,
    ) -> None:
        self._writer = writer
        self.quotas: Final = quotas
        self._window = window
        self._recent = recent
        self._disk = disk

    async def append(
        self,
        queue: str,
        records: Sequence[Record],
        *,
        events: int,
        jobs: int,
        digests: Mapping[str, str],
    ) -> dict[int, int]:
        """Append the records of new jobs of a queue, and return the positions after them.

        `events`: how many submissions of a job or an array they contain. `jobs`: how many jobs
        count towards the quotas. `digests`: of what has a client id, by id. Raises `IdConflict`, a
        `Problem` or `WorldError`.
        """
        self._disk.check(Space.LOW)
        size = count_value_bytes(records)
        with self._recent.claim(digests, clock.monotonic_s()):
            appended = await self._append(queue, records, events, jobs, size)
        self._recent.add(digests, appended, clock.monotonic_s())
        return appended

    async def _append(
        self, queue: str, records: Sequence[Record], events: int, jobs: int, size: int
    ) -> dict[int, int]:
        async with (
            self.quotas.reserve(queue, jobs, size) as reserved,
            self._window.admit(queue, events, size) as admission,
        ):
            appended = await self._writer.append(records)
            reserved.appended(appended)
            admission.positions = appended
        return appended
