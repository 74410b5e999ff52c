"""How the waiting time is divided among reasons."""

import numpy as np

from fairlead_scheduler.engine.snapshot import Code
from fairlead_scheduler.simulate.model.reason_times import WaitingReasons

BUSY, SHARE = Code.INSUFFICIENT_RESOURCES, Code.OVER_FAIR_SHARE


def explain(reasons: WaitingReasons, **jobs: dict[int, int]) -> None:
    """A round found these numbers of jobs by reason, by queue."""
    rows = np.array([("a", "b", "c").index(queue) for queue in jobs], np.intp)
    waiting = np.zeros((rows.size, len(Code)), np.int64)
    for row, found in enumerate(jobs.values()):
        for code, count in found.items():
            waiting[row, code] = count
    reasons.set_explained(rows, waiting)


def test_what_an_explained_round_found_counts_as_it_is() -> None:
    reasons = WaitingReasons(3)
    explain(reasons, a={BUSY: 2, SHARE: 1}, c={SHARE: 4})
    reasons.advance(10)
    assert reasons.waited_ms() == {"insufficient-resources": 20, "over-fair-share": 50}


def test_later_jobs_of_a_queue_are_divided_as_in_the_last_explained_round() -> None:
    reasons = WaitingReasons(3)
    explain(reasons, a={BUSY: 1, SHARE: 3}, c={SHARE: 1})
    reasons.divide(np.array([8, 5, 2]))
    reasons.advance(1)
    assert reasons.waited_ms() == {"insufficient-resources": 2 + 5, "over-fair-share": 6 + 2}


def test_a_queue_that_did_not_wait_then_waits_for_capacity() -> None:
    reasons = WaitingReasons(3)
    explain(reasons, a={SHARE: 1})
    explain(reasons, b={SHARE: 1})
    reasons.divide(np.array([1, 0, 0]))
    reasons.advance(7)
    assert reasons.waited_ms() == {"insufficient-resources": 7}


def test_jobs_that_are_not_able_to_start_have_no_reason() -> None:
    reasons = WaitingReasons(3)
    explain(reasons, a={BUSY: 2})
    reasons.set_none()
    reasons.advance(10)
    assert reasons.waited_ms() == {}
