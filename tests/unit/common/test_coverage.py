"""Whether a log can continue a view: every way in which they disagree, in words."""

import pytest

from fairlead_common.log.coverage import LogState, Mismatch, ViewUnusable, compare

STATE = LogState("log", {0: 10, 1: 0}, {0: 20, 1: 5})


@pytest.mark.parametrize(
    ("saved", "mismatches", "words"),
    [
        (("log", {0: 9, 1: 0}), (Mismatch.EXPIRED,), "is older than the log: in 1 partition"),
        (("log", {0: 21, 1: 0}), (Mismatch.AHEAD,), "the view reads 21 next, the log has 10 to 20"),
        (
            ("log", {0: 9, 1: 6}),
            (Mismatch.EXPIRED, Mismatch.AHEAD),
            "has folded more than the log has",
        ),
        (("old", {0: 10, 1: 0}), (Mismatch.OTHER_LOG,), "belongs to the log old"),
        (None, (Mismatch.MISSING,), "submitted before the start of the log"),
    ],
)
def test_a_view_that_the_log_cannot_continue(
    saved: tuple[str, dict[int, int]] | None, mismatches: tuple[Mismatch, ...], words: str
) -> None:
    gap = compare("view", saved, STATE)
    assert gap is not None
    assert gap.mismatches == mismatches
    assert words in gap.describe()
    assert "fairlead repair" in str(ViewUnusable(gap))


@pytest.mark.parametrize("positions", [{0: 10, 1: 0}, {0: 20, 1: 5}, {0: 15, 1: 3}])
def test_a_view_between_start_and_end_is_covered(positions: dict[int, int]) -> None:
    assert compare("view", ("log", positions), STATE) is None


def test_a_new_view_of_a_complete_log_is_covered() -> None:
    assert compare("view", None, LogState("log", {0: 0}, {0: 9})) is None


def test_only_what_the_log_removed_is_missing() -> None:
    gap = compare("view", ("log", {0: 9, 1: 6}), STATE)
    assert gap is not None
    assert list(gap.missing) == [0]
