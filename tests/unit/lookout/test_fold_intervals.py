"""How long the fold collects events before it reads again."""

import pytest

from fairlead_common.log import Entry
from fairlead_lookout.service.fold_loop import (
    READ_BYTES_MAX,
    READ_RECORDS_MAX,
    choose_interval_s,
    is_full_read,
)
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


@pytest.mark.parametrize(
    ("records", "record_bytes", "is_full"),
    [
        (0, 0, False),
        (10, 1_000, False),
        (READ_BYTES_MAX // 100_000, 100_000, True),  # another record would be too much
        (READ_BYTES_MAX // 200_000, 100_000, False),
        (READ_RECORDS_MAX, 100, True),
    ],
)
def test_a_read_is_full_that_ended_because_of_its_limits(
    records: int, record_bytes: int, is_full: bool
) -> None:
    entries = [Entry(0, place, "", bytes(record_bytes), 0) for place in range(records)]
    assert is_full_read(entries) is is_full
