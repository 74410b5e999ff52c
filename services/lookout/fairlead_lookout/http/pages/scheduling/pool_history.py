"""The shares of all queues of a pool over time, one above the other: the upper edge is how much of
the pool is in use."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead_common.domain import timestamps

WIDTH: Final = 1_000
HEIGHT: Final = 220
SPAN_MS_MIN: Final = 600_000
"""The shortest time that is drawn, where there are no older shares."""

Shares = Mapping[int, float]
"""A share by the first ms of its step."""


class ShareLayer(msgspec.Struct, frozen=True):
    """The area of one queue, or of all others together (no `queue`). `share`: the newest."""

    queue: str | None
    points: str
    share: float


class PoolHistory(msgspec.Struct, frozen=True):
    """The layers from the bottom to the top, in a box of `WIDTH` x `HEIGHT`.

    `in_use`: the newest sum of all shares. Ticks are the texts beside the axes.
    """

    layers: list[ShareLayer]
    in_use: float
    share_ticks: list[str]
    times: list[str]


def draw_history(
    shares: Sequence[tuple[str | None, Shares]], from_ms: int, to_ms: int, step_ms: int
) -> PoolHistory | None:
    """The shares of these queues between two times; None without any."""
    known = [start_ms for _, each in shares for start_ms in each]
    if not known:
        return None
    begin_ms = max(from_ms, min(min(known), to_ms - SPAN_MS_MIN))
    steps = range(begin_ms - begin_ms % step_ms, to_ms, step_ms)
    totals = [sum(each.get(step, 0.0) for _, each in shares) for step in steps]
    top = max(1.0, *totals)
    scale = WIDTH / (to_ms - begin_ms)
    edges = [
        (
            max(0.0, (step - begin_ms) * scale),
            min(float(WIDTH), (step + step_ms - begin_ms) * scale),
        )
        for step in steps
    ]
    layers = []
    below = [0.0] * len(steps)
    for queue, each in shares:
        above = [low + each.get(step, 0.0) for low, step in zip(below, steps, strict=True)]
        forth = _draw_edge(edges, above, top)
        back = _draw_edge(edges, below, top)[::-1]
        layers.append(ShareLayer(queue, " ".join(forth + back), each.get(steps[-1], 0.0)))
        below = above
    middle_ms = (begin_ms + to_ms) // 2
    return PoolHistory(
        layers=layers,
        in_use=totals[-1],
        share_ticks=[f"{100 * top * part:.0f} %" for part in (1, 0.5, 0)],
        times=[timestamps.rfc3339(time_ms) for time_ms in (begin_ms, middle_ms, to_ms)],
    )


def _draw_edge(
    edges: Sequence[tuple[float, float]], values: Sequence[float], top: float
) -> list[str]:
    """A line in steps: each value is valid for its whole step."""
    return [
        f"{x:.1f},{HEIGHT * (1 - value / top):.1f}"
        for step, value in zip(edges, values, strict=True)
        for x in step
    ]
