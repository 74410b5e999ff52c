"""What the fold keeps in memory of what it wrote, least recently touched dropped first.

Valid only while this process holds the locks of the partitions: written through, emptied when the
locks are lost.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from fairlead_lookout.domain.model import Amounts, Changes, Job, JobSet, SetKey

JOBS_MAX: Final = 100_000
SETS_MAX: Final = 20_000
SHAPES_MAX: Final = 50_000


class Cache:
    """Jobs with their newest runs, job sets with their counters, what shapes ask for and the day
    for which the table says that they are used."""

    def __init__(self, jobs_max: int = JOBS_MAX, sets_max: int = SETS_MAX) -> None:
        self.jobs: OrderedDict[str, Job] = OrderedDict()
        self.sets: OrderedDict[SetKey, JobSet] = OrderedDict()
        self.requests: dict[str, Amounts] = {}
        self.used: dict[str, date] = {}
        self._jobs_max = jobs_max
        self._sets_max = sets_max

    def settle(self, changes: Changes) -> None:
        """Take over what was just committed."""
        for job in changes.jobs.values():
            job.new = job.dirty = False
        for run in changes.runs.values():
            run.new = False
        self.jobs.update(changes.jobs)
        for job_id in changes.jobs:
            self.jobs.move_to_end(job_id)
        self.keep_requests(changes.shapes)
        self.sets.update(changes.sets)
        for key in changes.sets:
            self.sets.move_to_end(key)
        while len(self.jobs) > self._jobs_max:
            self.jobs.popitem(last=False)
        while len(self.sets) > self._sets_max:
            self.sets.popitem(last=False)

    def keep_set(self, job_set: JobSet) -> None:
        """Remember a job set that was read."""
        self.sets[job_set.key] = job_set

    def keep_requests(self, shapes: Mapping[str, Amounts]) -> None:
        """Remember what shapes ask for."""
        if len(self.requests) > SHAPES_MAX:
            self.requests.clear()
            self.used.clear()
        self.requests.update(shapes)

    def forget(self, key: SetKey, ids: Sequence[str]) -> None:
        """Forget a job set and some of its jobs: their rows were changed by another way."""
        self.sets.pop(key, None)
        for job_id in ids:
            self.jobs.pop(job_id, None)

    def clear(self) -> None:
        """Forget everything: somebody else may have written since."""
        self.jobs.clear()
        self.sets.clear()
        self.requests.clear()
        self.used.clear()
