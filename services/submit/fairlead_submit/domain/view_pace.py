"""How many jobs may be accepted that lookout's view does not show yet. Pure.

As many as the view shows within `lag_s_max`, by its rate of the last seconds: the window of a
congestion control that estimates the rate of the bottleneck (BBR, Cardwell et al., ACM Queue 14(5),
2016), here without its probes, since the rate of a view that has much to do is always visible.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_common.log.protocol import caught_up

JOBS_PER_S: Final = 5_000.0
"""How many jobs a view is assumed to show per second until that is known."""
JOBS_MIN: Final = 1_000
"""A limit is never below this number of jobs."""
MEASURED_S: Final = 5.0
"""The rate is measured over this time: a view that has much to do moves once a second."""
MEASURED_S_MIN: Final = 2.0
LAG_S_MAX: Final = 15.0
"""A view with a larger lag has stopped, or has much else to fold: slower submissions would not
help, so submissions are not limited until it has caught up."""


class Admission(msgspec.Struct):
    """Jobs that are appended now, or that the view does not show yet. `positions`: after them in
    the log, None until they are there."""

    jobs: int
    time_s: float
    positions: Mapping[int, int] | None = None


class ViewPace:
    """What was accepted and is not shown yet, and how fast the view moves."""

    def __init__(self, lag_s_max: float) -> None:
        self._lag_s_max = lag_s_max
        self._unseen: list[Admission] = []
        self._jobs_per_s = JOBS_PER_S
        self._looks: deque[tuple[float, int]] = deque()
        """Times at which the view was looked at (s), and the jobs that were new there."""
        self._catches_up_to: dict[int, int] | None = None
        self.jobs = 0
        """How many accepted jobs the view is not known to show."""

    def admit(self, jobs: int, now_s: float) -> Admission:
        """Count these jobs, which are appended now."""
        admission = Admission(jobs, now_s)
        self._unseen.append(admission)
        self.jobs += jobs
        return admission

    def allows(self, jobs: int) -> bool:
        """Whether this number of further jobs may be accepted now."""
        jobs_max = max(self._jobs_per_s * self._lag_s_max, JOBS_MIN)
        return not self.jobs or self.jobs + jobs <= jobs_max

    def look(self, positions: Mapping[int, int] | None, now_s: float) -> None:
        """Take note of what the view has folded now: the position of each partition that it reads
        next, None without a view."""
        if positions is None:
            self._catches_up_to = None
            self._forget_all()
            return
        if self._catches_up_to is not None:
            if not caught_up(positions, self._catches_up_to):
                self._forget_all()
                return
            self._catches_up_to = None
        before = self.jobs
        self._unseen = [
            each
            for each in self._unseen
            if each.positions is None or not caught_up(positions, each.positions)
        ]
        self.jobs = sum(each.jobs for each in self._unseen)
        self._measure(before - self.jobs, now_s)
        if self._unseen and now_s - self._unseen[0].time_s > LAG_S_MAX:
            self._catches_up_to = {}
            for each in self._unseen:
                self._catches_up_to |= each.positions or {}
            self._forget_all()

    def _forget_all(self) -> None:
        self._unseen, self.jobs = [], 0
        self._looks.clear()

    def _measure(self, jobs: int, now_s: float) -> None:
        if self._looks and now_s - self._looks[-1][0] > MEASURED_S:
            self._looks.clear()  # nobody looked in between
        self._looks.append((now_s, jobs))
        while now_s - self._looks[0][0] > MEASURED_S:
            self._looks.popleft()
        passed_s = now_s - self._looks[0][0]
        if passed_s >= MEASURED_S_MIN:
            self._jobs_per_s = (sum(jobs for _, jobs in self._looks) - self._looks[0][1]) / passed_s
