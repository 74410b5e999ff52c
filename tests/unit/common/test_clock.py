"""Times as text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_common.domain import timestamps
from fairlead_common.service import clock


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_written_time_is_read_back_the_same(time_ms: int) -> None:
    assert timestamps.parse_rfc3339(timestamps.rfc3339(time_ms)) == time_ms


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:00.250Z", 1_767_225_600_250),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
        ("2026-01-01T00:00:00.123456Z", 1_767_225_600_123),
    ],
)
def test_any_offset_is_read(text: str, want: int) -> None:
    assert timestamps.parse_rfc3339(text) == want


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        timestamps.parse_rfc3339(text)


def test_a_time_without_a_zone_is_refused_with_an_example() -> None:
    with pytest.raises(ValueError, match="write it like 2026-01-31T12:00:00Z"):
        timestamps.parse_rfc3339("2026-01-31T12:00:00")


def test_time_as_text_is_utc_with_milliseconds() -> None:
    assert timestamps.rfc3339(1_767_225_600_007) == "2026-01-01T00:00:00.007Z"


def test_the_clock_for_differences_does_not_go_back() -> None:
    first = clock.monotonic_s()
    assert clock.monotonic_s() >= first
