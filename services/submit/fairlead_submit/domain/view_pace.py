"""How many jobs may be accepted that lookout's view does not show yet. Pure.

As many as the view shows within `lag_s_max`, by its rate of the last seconds: the window of a
congestion control that estimates the rate of the bottleneck (BBR, Cardwell et al., ACM Queue 14(5),
2016), here without its probes, since the rate of a view that has much to do is always visible.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

JOBS_PER_S: Final = 5_000.0
"""How many jobs a view is assumed to show per second until that is known."""
JOBS_MIN: Final = 1_000
"""A limit is never below this number of jobs."""
MEASURED_S: Final = 5.0
"""The rate is measured over this time: a view that has much to do moves once a second."""
MEASURED_S_MIN: Final = 2.0
STALLED_S: Final = 5.0
"""A view that has not moved for this long, although there is something to show, has stopped."""


class Admission(msgspec.Struct):
    """Jobs that are being appended, or that the view does not show yet. `positions`: after them in
    the log, None until they are there."""

    jobs: int
    positions: Mapping[int, int] | None = None


class ViewPace:
    """What was accepted and is not shown yet, and how fast the view moves."""

    def __init__(self, lag_s_max: float) -> None:
        self._lag_s_max = lag_s_max
        self._unseen: list[Admission] = []
        self._jobs_per_s = JOBS_PER_S
        self._looks: deque[tuple[float, int]] = deque()
        """Times at which the view was looked at (s), and the jobs that were new there."""
        self._position: Mapping[int, int] | None = None
        self._moved_s = float("-inf")
        self._stopped_at: Mapping[int, int] | None = None
        self.jobs = 0
        """How many accepted jobs the view is not known to show."""

    def admit(self, jobs: int) -> Admission:
        """Count these jobs, which are appended now."""
        admission = Admission(jobs)
        self._unseen.append(admission)
        self.jobs += jobs
        return admission

    def allows(self, jobs: int) -> bool:
        """Whether this number of further jobs may be accepted now."""
        jobs_max = max(self._jobs_per_s * self._lag_s_max, JOBS_MIN)
        return not self.jobs or self.jobs + jobs <= jobs_max

    def look(self, positions: Mapping[int, int] | None, now_s: float) -> None:
        """Take note of what the view has folded now: the position of each partition that it reads
        next, None if there is no view. Without a view that moves everything may be accepted."""
        if self._looks and now_s - self._looks[-1][0] > STALLED_S:
            self._looks.clear()  # nobody looked in between
        if positions != self._position or not self._looks:
            self._position, self._moved_s = positions, now_s
        if now_s - self._moved_s >= STALLED_S:
            self._stopped_at = positions
        if positions is None or positions == self._stopped_at:
            self._unseen, self.jobs = [], 0
            return
        self._stopped_at = None
        before = self.jobs
        self._unseen = [item for item in self._unseen if not _is_visible(item, positions)]
        self.jobs = sum(item.jobs for item in self._unseen)
        self._measure(before - self.jobs, now_s)

    def _measure(self, jobs: int, now_s: float) -> None:
        self._looks.append((now_s, jobs))
        while now_s - self._looks[0][0] > MEASURED_S:
            self._looks.popleft()
        passed_s = now_s - self._looks[0][0]
        if passed_s >= MEASURED_S_MIN:
            self._jobs_per_s = (sum(jobs for _, jobs in self._looks) - self._looks[0][1]) / passed_s


def _is_visible(admission: Admission, positions: Mapping[int, int]) -> bool:
    after = admission.positions
    return after is not None and all(positions.get(each, 0) >= at for each, at in after.items())
