"""The jobs and job sets that the fold has in memory; the least recently used are evicted first.

Valid only while this process holds the locks of the partitions: written through, and emptied when
the locks are lost or a batch was not written.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Final

from fairlead_lookout.domain.model import Amounts, Changes, Job, JobSet, JobSetKey
from fairlead_lookout.domain.transitions import ENDED

JOBS_MAX: Final = 100_000
JOB_SETS_MAX: Final = 20_000
SHAPES_MAX: Final = 50_000
ARRAYS_MAX: Final = 50_000
PAUSE_JOBS: Final = 1_000
"""Jobs between two pauses: less than a ms."""


class FoldCache:
    """Jobs with their newest runs, job sets with their counters, the requests of shapes, the
    day for which the table records that a shape is used, and who submitted arrays.

    Jobs that have ended are left out, unless `with_ended`: hardly any event names them again.
    `expired_weeks`: partition -> the week up to which its jobs have expired. No job is added to
    such a week.
    """

    def __init__(
        self,
        jobs_max: int = JOBS_MAX,
        job_sets_max: int = JOB_SETS_MAX,
        *,
        with_ended: bool = False,
    ) -> None:
        self.jobs: OrderedDict[str, Job] = OrderedDict()
        self.job_sets: OrderedDict[JobSetKey, JobSet] = OrderedDict()
        self.requests: dict[str, Amounts] = {}
        self.shape_days: dict[str, date] = {}
        self.array_submitters: dict[str, str] = {}
        self.expired_weeks: dict[int, int] = {}
        self._jobs_max = jobs_max
        self._job_sets_max = job_sets_max
        self._with_ended = with_ended

    def apply(self, changes: Changes) -> Iterator[None]:
        """Take over the changes of a batch, with pauses so that other tasks can run. The iterator
        must be exhausted before the cache is used again."""
        jobs = self.jobs
        for index, (job_id, job) in enumerate(changes.jobs.items()):
            job.new = job.dirty = False
            if job.state in ENDED and not self._with_ended:
                jobs.pop(job_id, None)
            else:
                jobs[job_id] = job
                jobs.move_to_end(job_id)
                if len(jobs) > self._jobs_max:
                    jobs.popitem(last=False)
            if index % PAUSE_JOBS == 0:
                yield
        self.put_requests(changes.shapes)
        self.put_arrays({each.array_id: each.submitted_by for each in changes.arrays.new})
        for key, job_set in changes.job_sets.items():
            job_set.new = False
            self.job_sets[key] = job_set
            self.job_sets.move_to_end(key)
        while len(self.job_sets) > self._job_sets_max:
            self.job_sets.popitem(last=False)

    def put_job_set(self, job_set: JobSet) -> None:
        """Add a job set that was read."""
        self.job_sets[job_set.key] = job_set

    def put_requests(self, shapes: Mapping[str, Amounts]) -> None:
        """Add the requests of shapes."""
        if len(self.requests) > SHAPES_MAX:
            self.requests.clear()
            self.shape_days.clear()
        self.requests.update(shapes)

    def put_arrays(self, submitters: Mapping[str, str]) -> None:
        """Add who submitted these arrays."""
        known = self.array_submitters
        known.update(submitters)
        for array in list(islice(known, max(0, len(known) - ARRAYS_MAX))):
            del known[array]

    def remove(self, keys: Sequence[JobSetKey], ids: Sequence[str]) -> None:
        """Remove job sets and some of their jobs, whose rows were changed outside the fold."""
        for key in keys:
            self.job_sets.pop(key, None)
        for job_id in ids:
            self.jobs.pop(job_id, None)

    def remove_expired_jobs(self) -> None:
        """Remove jobs of weeks that have expired in all partitions: their tables are dropped."""
        week = min(self.expired_weeks.values(), default=0)
        for job_id in [job.id for job in self.jobs.values() if job.week <= week]:
            del self.jobs[job_id]

    def clear(self) -> None:
        """Remove everything: another process can have written since."""
        self.jobs.clear()
        self.job_sets.clear()
        self.expired_weeks.clear()
        self.array_submitters.clear()
        self.requests.clear()
        self.shape_days.clear()
