"""The log positions of a client's submissions, so that its later reads include them."""

from typing import Final

JOB_SETS_MAX: Final = 1_000


class SubmissionPositions:
    """The position of the last submission to each job set; the oldest of more than `JOB_SETS_MAX`
    job sets are forgotten.
    """

    def __init__(self) -> None:
        self._positions: dict[tuple[str, str], str] = {}

    def record(self, queue: str, job_set: str, position: str) -> None:
        """Record the position of a submission."""
        key = queue, job_set
        self._positions.pop(key, None)
        self._positions[key] = position
        if len(self._positions) > JOB_SETS_MAX:
            del self._positions[next(iter(self._positions))]

    def position(self, queue: str | None = None, job_set: str | None = None) -> str | None:
        """The position that a read of this job set must include; without a job set, of any one."""
        if queue is None or job_set is None:
            return next(reversed(self._positions.values()), None)
        return self._positions.get((queue, job_set))
