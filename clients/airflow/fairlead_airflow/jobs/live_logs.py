"""The logs of running jobs, written into the log of their task while they run.

Bounded: a process follows `FOLLOWED_MAX` jobs at a time, and of each stream it writes at most as
many lines as the task wants. What was not followed to its end appears when the jobs have ended.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from fairlead import errors
from fairlead.models.job_models import JobFields
from fairlead_airflow.jobs import function_jobs
from fairlead_airflow.jobs.job_results import LINE_CHARACTERS_MAX, LogKey
from fairlead_airflow.jobs.shared_events import JobSetEvents

FOLLOWED_MAX: Final = 20
"""Jobs that one triggerer follows at a time; each has two streams."""
FINISH_S: Final = 10.0
"""How long after the end of the jobs their streams are read."""
STREAMS: Final = ("stdout", "stderr")

_followed: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, set[str]]] = WeakKeyDictionary()


class LiveLogs:
    """Follows the logs of jobs of one task. `complete`: the runs whose whole logs were written."""

    def __init__(self, events: JobSetEvents, lines_max: int, log: logging.Logger) -> None:
        self.complete: set[LogKey] = set()
        self._events = events
        self._lines_max = lines_max
        self._log = log
        self._following = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def follow(self, job_id: str) -> None:
        """Write the logs of the runs of a job, one after the other, while lines are wanted."""
        seen = 0
        left = dict.fromkeys(STREAMS, self._lines_max)
        while all(left.values()):
            seen = await self._events.wait_for_start(job_id, seen)
            followed = _followed.setdefault(asyncio.get_running_loop(), set())
            if len(followed) >= FOLLOWED_MAX or job_id in followed:
                continue
            followed.add(job_id)
            self._following += 1
            self._idle.clear()
            try:
                await self._follow_run(job_id, left)
            except errors.FairleadError as error:
                self._log.debug("The log of job %s cannot be followed: %s", job_id, error)
            finally:
                followed.discard(job_id)
                self._following -= 1
                if self._following == 0:
                    self._idle.set()

    async def finish(self) -> None:
        """Wait until the streams of ended jobs are read, for at most `FINISH_S`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_S):
                await self._idle.wait()

    async def _follow_run(self, job_id: str, left: dict[str, int]) -> None:
        """Write the log of the newest run. `left`: lines that are still wanted, by stream."""
        job = await self._events.client.job(job_id, after=self._events.position)
        written = await asyncio.gather(
            *(self._follow_stream(job, stream, left) for stream in STREAMS)
        )
        if all(written):
            self.complete.add((job.id, job.run))

    async def _follow_stream(self, job: JobFields, stream: str, left: dict[str, int]) -> bool:
        """Whether the whole stream was written."""
        try:
            async for line in _read_lines(self._events, job, stream):
                if not line or line.startswith(function_jobs.RESULT_MARK):
                    continue
                if left[stream] == 0:
                    self._log.info(
                        "[%s %s] The last lines follow when the job has ended; the dashboard has"
                        " them now.",
                        *(job.client_id, stream),
                    )
                    return False
                self._log.info("[%s %s] %s", job.client_id, stream, line)
                left[stream] -= 1
        except errors.FairleadError as error:
            # The end of the log is read after the end of the job, which says what is wrong.
            self._log.debug("The %s of job %s cannot be followed: %s", stream, job.id, error)
            return False
        return True


@asynccontextmanager
async def follow_logs(
    events: JobSetEvents, job_ids: Sequence[str], lines_max: int, log: logging.Logger
) -> AsyncIterator[LiveLogs]:
    """Follow the logs of the first of these jobs until the end of the block."""
    live = LiveLogs(events, lines_max, log)
    chosen = job_ids[:FOLLOWED_MAX] if lines_max > 0 else ()
    tasks = [asyncio.create_task(live.follow(job_id)) for job_id in chosen]
    try:
        yield live
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read_lines(events: JobSetEvents, job: JobFields, stream: str) -> AsyncIterator[str]:
    """The lines of a run as they are written; long ones are cut."""
    rest = b""
    chunks = events.client.logs(job.id, follow=True, stream=stream, run=job.run)
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[: LINE_CHARACTERS_MAX * 4]
        for line in lines:
            yield line.decode(errors="replace")[:LINE_CHARACTERS_MAX]
    if rest:
        yield rest.decode(errors="replace")[:LINE_CHARACTERS_MAX]
