"""The picture of the shares of a pool: areas one above the other that stay in their box."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead_lookout.http.pages.scheduling.pool_history import (
    HEIGHT,
    SPAN_MS_MIN,
    WIDTH,
    ShareLayer,
    draw_history,
)

MINUTE_MS = 60_000
END_MS = 1_800_000_000_000 + 90 * MINUTE_MS
BEGIN_MS = END_MS - 60 * MINUTE_MS
STEPS = [END_MS - number * MINUTE_MS for number in range(60, 0, -1)]


def places(layer: ShareLayer) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (each.split(",") for each in layer.points.split())]


@given(st.lists(st.dictionaries(st.sampled_from(STEPS), st.floats(0, 1), min_size=1), min_size=1))
def test_each_area_lies_on_the_one_below(found: list[dict[int, float]]) -> None:
    history = draw_history(
        [(f"q{number}", each) for number, each in enumerate(found)], BEGIN_MS, END_MS, MINUTE_MS
    )
    assert history is not None
    below = None
    for layer in history.layers:
        points = places(layer)
        assert all(0 <= x <= WIDTH and -0.1 <= y <= HEIGHT for x, y in points)
        half = len(points) // 2
        edge, base = points[:half], points[half:][::-1]
        assert base == below or below is None
        assert all(high <= low for (_, high), (_, low) in zip(edge, base, strict=True))
        below = edge
    assert abs(history.in_use - sum(layer.share for layer in history.layers)) < 1e-9


def test_the_upper_edge_is_all_of_the_pool() -> None:
    history = draw_history([("a", dict.fromkeys(STEPS, 0.5))], BEGIN_MS, END_MS, MINUTE_MS)
    assert history is not None
    assert history.share_ticks == ["100 %", "50 %", "0 %"]
    assert history.in_use == 0.5
    assert places(history.layers[0])[0] == (0, HEIGHT / 2)


def test_it_begins_with_the_first_share() -> None:
    for first_ms, begin_ms in (
        (STEPS[0], BEGIN_MS),
        (END_MS - 20 * MINUTE_MS, END_MS - 20 * MINUTE_MS),
        (STEPS[-1], END_MS - SPAN_MS_MIN),
    ):
        history = draw_history([("a", {first_ms: 0.5})], BEGIN_MS, END_MS, MINUTE_MS)
        assert history is not None
        minutes = (END_MS - begin_ms) // MINUTE_MS
        assert len(places(history.layers[0])) == 4 * minutes
    assert draw_history([("a", {}), (None, {})], BEGIN_MS, END_MS, MINUTE_MS) is None
