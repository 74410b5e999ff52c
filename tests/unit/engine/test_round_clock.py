"""Sorts of many rows ask whether time is up (L6), and give what `numpy.lexsort` gives."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead_scheduler.engine import EngineSettings
from fairlead_scheduler.engine.round_clock import RoundClock, TimeLimitReachedError

PORTION = 10


@pytest.mark.parametrize("rows", [0, 1, PORTION, PORTION + 1, 57, 400])
def test_rows_are_sorted_as_lexsort_does_and_equal_ones_stay_in_order(rows: int) -> None:
    rng = np.random.default_rng(rows)
    keys = [
        rng.integers(-3, 3, rows),
        rng.integers(0, 2, rows).astype(np.bool_),
        rng.integers(0, 4, rows) / 8,
        rng.integers(0, 3, rows).astype(np.int32),
    ]
    clock = RoundClock(lambda: False, EngineSettings(work_per_check=PORTION))
    assert clock.sort_rows(keys).tolist() == np.lexsort(keys).tolist()


def test_a_sort_asks_between_portions_and_ends_when_time_is_up() -> None:
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return asked > 7

    clock = RoundClock(expired, EngineSettings(work_per_check=PORTION))
    with pytest.raises(TimeLimitReachedError):
        clock.sort_rows([np.arange(50), np.arange(50)])
    assert asked == 8
