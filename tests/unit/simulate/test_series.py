"""Which rounds of a simulation are explained, by the intervals of its time series."""

from fairlead_scheduler.simulate.model.series import Series


def test_merged_intervals_begin_at_multiples_of_their_number() -> None:
    series = Series(1, from_ms=500, interval_ms=1_000)
    at_ms = [500, 4_499, 4_500, 8_500]
    assert [series.find_interval(at, 4) for at in at_ms] == [0, 0, 4_000, 8_000]
