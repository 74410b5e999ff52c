"""What pages render."""

import random

import pytest

from fairlead_lookout.http.pages import rendering


def test_the_bar_of_states_fills_its_width() -> None:
    chance = random.Random(1)
    for _ in range(20):
        states = {state: chance.randrange(5) for state in ("QUEUED", "RUNNING", "FAILED")}
        total = sum(states.values())
        segments = rendering.divide_bar(states, total)
        assert sum(segment.width for segment in segments) == pytest.approx(
            100 if total else 0, abs=0.01
        )
        assert rendering.summarize_states(states).count(",") == max(0, len(segments) - 1)
