"""What was submitted, for the leases of jobs that start and for filters by label.

Until a checkpoint holds it, a submission stays as it was read; then it is encoded, and kept only to
spare look-ups.
"""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

import msgspec

from fairlead_common.events import JobSubmitted
from fairlead_common.ids import JobId

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(JobSubmitted)


class Specs:
    """Submissions by job.

    Those that are not saved keep the messages in memory in which they came, so that this holds at
    most what the log carried since the last checkpoint, beside `saved`.
    """

    def __init__(self) -> None:
        self.fresh: dict[JobId, JobSubmitted] = {}
        """Not saved yet."""
        self.saved: dict[JobId, bytes] = {}
        """Some of those that are, oldest first, encoded."""

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self.fresh or job_id in self.saved

    def get(self, job_id: JobId) -> JobSubmitted:
        """The submission of a job that is here."""
        found = self.fresh.get(job_id)
        return _decoder.decode(self.saved[job_id]) if found is None else found

    def drop(self, job_id: JobId) -> None:
        """The job ended."""
        if self.fresh.pop(job_id, None) is None:
            self.saved.pop(job_id, None)

    def save(self, unless: Collection[JobId] = ()) -> list[tuple[JobId, bytes]]:
        """All that were not saved are now, but for these jobs; returns them, encoded."""
        made = [
            (job_id, _encoder.encode(submitted))
            for job_id, submitted in self.fresh.items()
            if job_id not in unless
        ]
        self.fresh = {job_id: self.fresh[job_id] for job_id in unless if job_id in self.fresh}
        self.saved.update(made)
        return made

    def looked_up(self, found: Mapping[JobId, bytes]) -> None:
        """Take up what the checkpoint holds."""
        self.saved.update(found)

    def keep(self, bound: int) -> None:
        """Forget the oldest that are saved, beyond `bound`."""
        for job_id in list(islice(self.saved, max(0, len(self.saved) - bound))):
            del self.saved[job_id]
