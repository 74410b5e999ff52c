"""Many jobs are accepted as fast as the view of lookout shows them."""

import pytest

from fairlead_submit.domain import view_pace
from fairlead_submit.domain.view_pace import ViewPace

STEP_S = 0.1


class View:
    """A view of one partition that shows a number of jobs per second, in steps of `pause_s`, and
    a client that always has 1,000 more jobs."""

    def __init__(self, pace: ViewPace, jobs_per_s: float, pause_s: float = 1.0) -> None:
        self.pace = pace
        self.jobs_per_s = jobs_per_s
        self.pause_s = pause_s
        self.now_s = 0.0
        self.appended = 0
        self.visible = 0
        self.appended_s: list[float] = []
        """By thousands of jobs, when they were appended."""
        self._moved_s = 0.0

    def run(self, duration_s: float) -> None:
        end_s = self.now_s + duration_s
        while self.now_s < end_s:
            while self.pace.allows(1_000):
                admission = self.pace.admit(1_000, self.now_s)
                self.appended += 1_000
                self.appended_s.append(self.now_s)
                admission.positions = {7: self.appended}
            self.now_s += STEP_S
            if self.now_s - self._moved_s >= self.pause_s:
                fitting = int((self.now_s - self._moved_s) * self.jobs_per_s)
                self.visible = min(self.appended, self.visible + fitting)
                self._moved_s = self.now_s
            self.pace.look({7: self.visible}, self.now_s)

    @property
    def lag_s(self) -> float:
        """How old the oldest job is that is not shown."""
        oldest = self.visible // 1_000
        return self.now_s - self.appended_s[oldest] if oldest < len(self.appended_s) else 0.0


@pytest.mark.parametrize("jobs_per_s", [1_500, 5_000, 40_000])
def test_the_view_stays_within_the_lag_at_its_own_rate(jobs_per_s: int) -> None:
    view = View(ViewPace(2.0), jobs_per_s)
    view.run(20.0)
    before = view.visible
    lags = []
    for _ in range(100):
        view.run(STEP_S)
        lags.append(view.lag_s)
    assert max(lags) < 2.0 + view.pause_s + STEP_S
    assert (view.visible - before) / 10.0 > 0.9 * jobs_per_s


def test_the_limit_follows_a_view_that_becomes_slower() -> None:
    view = View(ViewPace(2.0), 20_000)
    view.run(10.0)
    view.jobs_per_s = 5_000
    view.run(60.0)
    assert view.lag_s < 2.0 + view.pause_s + STEP_S


def test_one_request_is_allowed_however_large_it_is() -> None:
    pace = ViewPace(2.0)
    assert pace.allows(10**6)
    pace.admit(10**6, 0.0)
    assert not pace.allows(1)


def test_a_view_with_a_large_lag_delays_nobody_until_it_has_caught_up() -> None:
    pace = ViewPace(2.0)
    pace.admit(10**6, 0.0).positions = {0: 6}
    pace.admit(10**6, 1.0).positions = {1: 9}
    pace.look({0: 5, 1: 5}, view_pace.LAG_S_MAX)
    assert not pace.allows(1)
    pace.look({0: 5, 1: 5}, view_pace.LAG_S_MAX + 0.1)
    assert pace.allows(10**6)
    pace.admit(10**6, 20.0).positions = {0: 7}
    pace.look({0: 6, 1: 8}, 3_600.0)  # nobody looked for an hour
    assert pace.allows(10**6)
    pace.admit(10**6, 3_600.1).positions = {0: 8}
    pace.look({0: 6, 1: 9}, 3_600.2)
    assert not pace.allows(1)
    pace.look({0: 8, 1: 9}, 3_600.3)
    assert pace.allows(10**6)


def test_without_a_view_everything_is_allowed() -> None:
    pace = ViewPace(2.0)
    pace.admit(10**6, 0.0).positions = {0: 1}
    pace.look(None, 0.0)
    assert pace.allows(10**6)


def test_jobs_that_were_not_appended_do_not_count() -> None:
    pace = ViewPace(2.0)
    pace.admit(10**6, 0.0).positions = {}
    pace.look({0: 0}, 0.0)
    assert pace.jobs == 0
