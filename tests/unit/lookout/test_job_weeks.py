"""Which week a time is in, and which weeks have expired."""

from fairlead_lookout.store import job_weeks
from fairlead_lookout.store.job_weeks import DAY_MS, WEEK_MS


def test_a_week_contains_the_times_from_its_start_to_the_start_of_the_next() -> None:
    for week in (0, 2_900):
        assert job_weeks.week_of(job_weeks.start_ms(week)) == week
        assert job_weeks.week_of(job_weeks.start_ms(week + 1) - 1) == week


def test_a_week_expires_when_all_of_it_is_older_than_the_retention() -> None:
    end_ms = job_weeks.start_ms(2_901)
    for days in (0, 1, 30):
        assert job_weeks.find_expired_week(end_ms + days * DAY_MS - 1, days) == 2_899
        assert job_weeks.find_expired_week(end_ms + days * DAY_MS, days) == 2_900
    assert job_weeks.find_expired_week(end_ms + WEEK_MS, 7) == 2_900
