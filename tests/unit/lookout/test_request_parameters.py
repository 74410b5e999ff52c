"""How a text of a request becomes a value."""

import pytest

from fairlead_lookout.http.request_parameters import parse_start_ms

NOW_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z"""


@pytest.mark.parametrize(
    ("text", "before_s"),
    [
        *(("30s", 30), ("10m", 600), ("2h", 7_200), ("1d", 86_400)),
        *(("1h30m", 5_400), ("1.5h", 5_400), ("0s", 0)),
        *(("2025-12-31T23:59:00Z", 60), ("2026-01-01T01:00:00+02:00", 3_600)),
    ],
)
def test_a_start_is_a_duration_before_now_or_a_time(text: str, before_s: int) -> None:
    assert parse_start_ms(text, NOW_MS) == NOW_MS - 1_000 * before_s


def test_a_start_before_1970_is_its_beginning() -> None:
    assert parse_start_ms("999999999d", NOW_MS) == 0
    assert parse_start_ms("1969-01-01T00:00:00Z", NOW_MS) == 0


@pytest.mark.parametrize("text", ["", "10", "m", "10 m", "-10m", "10x", "soon", "2026-01-01"])
def test_a_start_that_is_not_valid_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"30s, 10m, 2h or 1h30m, or a time like 2026-01-31T12"):
        parse_start_ms(text, NOW_MS)
