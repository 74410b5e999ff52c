"""How long the fold collects events before it reads again."""

import pytest

from fairlead_lookout.service.fold_loop import choose_interval_s
from fairlead_lookout.service.settings import Settings

SETTINGS = Settings(fold_interval_s=0.2, fold_busy_interval_s=1.0, fold_events_max=30_000)


@pytest.mark.parametrize(
    ("events", "passed_s", "interval_s"),
    [
        (1, 0.001, 0.0),  # a single job is visible at once
        (2_000, 0.2, 0.2),  # 10,000 events per second
        (5_000, 0.2, 1.0),  # 25,000 events per second
        (29_000, 1.0, 1.0),
        (15_000, 1.0, 0.2),
        (30_000, 0.2, 0.0),  # a full batch: there is more
    ],
)
def test_batches_are_far_apart_only_while_many_events_arrive_and_there_is_no_backlog(
    events: int, passed_s: float, interval_s: float
) -> None:
    assert choose_interval_s(events, passed_s, SETTINGS) == interval_s
