"""How long the fold waits for more events before it reads again."""

import pytest

from fairlead_common.log import Entry
from fairlead_lookout.service.fold_loop import (
    PAUSE_S_MAX,
    READ_BYTES_MAX,
    READ_RECORDS_MAX,
    choose_pause_s,
    is_full_read,
)
from fairlead_lookout.service.settings import Settings

SETTINGS = Settings(fold_interval_s=0.2, fold_events_max=30_000)


@pytest.mark.parametrize(
    ("events", "worked_s", "pause_s"),
    [
        (1, 0.001, 0.0),  # a single job is visible at once
        (2_000, 0.05, pytest.approx(0.15)),  # reads are 0.2 s apart
        (5_000, 0.12, 0.24),
        (29_000, 0.35, 0.7),  # much to do: larger batches
        (29_000, 60.0, PAUSE_S_MAX),  # Postgres did not answer for a while
        (30_000, 0.4, 0.0),  # a full batch: there is more
    ],
)
def test_the_pause_is_in_proportion_to_the_work_unless_there_is_a_backlog(
    events: int, worked_s: float, pause_s: float
) -> None:
    assert choose_pause_s(events, worked_s, SETTINGS) == pause_s


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
