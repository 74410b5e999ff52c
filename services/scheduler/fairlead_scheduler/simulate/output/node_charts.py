"""The picture of nodes: runs as bars in a row for each node, or how full the nodes were. Pure."""

import heapq
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

import numpy as np

from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.model.node_runs import GROUPS_MAX, RUNS_MAX, NodeRun
from fairlead_scheduler.simulate.output import svg_charts, text_summary

HEIGHT: Final = 440
BAND_MIN: Final = 16
"""The least height of a row: names in lower rows would overlap."""
LEVELS: Final = 10
"""Shades of the picture of long simulations."""
POINTS_MAX: Final = 160


def has_bars(ledger: Ledger) -> bool:
    """Whether all runs can be drawn as bars."""
    return ledger.node_runs.count <= RUNS_MAX and len(ledger.node_runs.nodes) <= GROUPS_MAX


def draw_nodes(ledger: Ledger, queues: Sequence[str]) -> str:
    """Runs on nodes over time; `queues`: those with a colour of their own, in this order."""
    if has_bars(ledger):
        return _draw_runs(ledger, queues)
    return _draw_usage(ledger)


def _draw_runs(ledger: Ledger, queues: Sequence[str]) -> str:
    nodes = ledger.node_runs.nodes
    by_node: dict[str, list[NodeRun]] = {name: [] for name in nodes}
    for run in ledger.node_runs.runs:
        by_node[run.node].append(run)
    names = [*queues, *(["other queues"] if len(queues) < len(ledger.trace.queues.values) else [])]
    legend = [
        svg_charts.Line(name, np.zeros(0), min(at, svg_charts.OTHER))
        for at, name in enumerate(names)
    ]
    first_s, last_s = ledger.first_ms / 1000, max(ledger.now_ms, ledger.first_ms + 1) / 1000
    band = max(BAND_MIN, HEIGHT // max(1, len(nodes)))
    frame = svg_charts.Frame("Runs by node", first_s, last_s, band * len(nodes), legend)
    parts: list[str] = []
    for at, (name, runs) in enumerate(by_node.items()):
        top = frame.upper + band * at
        parts.append(frame.row_label(name, top + band / 2))
        lanes, count = _assign_lanes(runs)
        height = (band - 3) / max(1, count)
        for run, lane in zip(runs, lanes, strict=True):
            queue = ledger.trace.queues.values[ledger.trace.queue[run.job]]
            colour = queues.index(queue) if queue in queues else svg_charts.OTHER
            x, end = frame.x(run.start_ms / 1000), frame.x(run.end_ms / 1000)
            lasted = text_summary.format_duration((run.end_ms - run.start_ms) / 1000)
            text = escape(f"{ledger.trace.name_of(run.job)} of queue {queue}: {lasted}")
            parts.append(
                f'<rect class="run f{colour}" x="{x:.1f}" y="{top + lane * height:.1f}" '
                f'width="{max(0.8, end - x):.1f}" height="{height:.1f}">'
                f"<title>{text}</title></rect>"
            )
    return frame.render(parts)


def _assign_lanes(runs: list[NodeRun]) -> tuple[list[int], int]:
    """A lane for each run so that runs of a lane do not overlap, and the number of lanes."""
    runs.sort(key=lambda run: (run.start_ms, run.job))
    ends: list[tuple[int, int]] = []
    free: list[int] = []
    lanes: list[int] = []
    count = 0
    for run in runs:
        while ends and ends[0][0] <= run.start_ms:
            heapq.heappush(free, heapq.heappop(ends)[1])
        if not free:
            heapq.heappush(free, count)
            count += 1
        lane = heapq.heappop(free)
        heapq.heappush(ends, (run.end_ms, lane))
        lanes.append(lane)
    return lanes, count


def _draw_usage(ledger: Ledger) -> str:
    found = ledger.node_runs
    means, times_s = found.usage.means(), found.usage.times_s()
    band = max(BAND_MIN, HEIGHT // max(1, len(found.groups)))
    frame = svg_charts.Frame(
        "Nodes in use", float(times_s[0]), float(times_s[-1]), band * len(found.groups), []
    )
    parts: list[str] = []
    for at, name in enumerate(found.groups):
        top = frame.upper + band * at
        parts.append(frame.row_label(name, top + band / 2))
        merged, bounds = svg_charts.merge_intervals(times_s, means[:, at], POINTS_MAX)
        levels = np.ceil(np.clip(merged, 0.0, 1.0) * LEVELS).astype(np.int64).tolist()
        parts += _draw_levels(frame, levels, bounds.tolist(), top, band - 1)
    return frame.render(parts)


def _draw_levels(
    frame: "svg_charts.Frame", levels: Sequence[int], bounds: Sequence[float], top: int, height: int
) -> Iterable[str]:
    start = 0
    for at in range(1, len(levels) + 1):
        if at < len(levels) and levels[at] == levels[start]:
            continue
        if levels[start]:
            x, end = frame.x(bounds[start]), frame.x(bounds[at])
            yield (
                f'<rect class="f0" opacity="{levels[start] / LEVELS:g}" x="{x:.1f}" y="{top}" '
                f'width="{end - x:.1f}" height="{height}"/>'
            )
        start = at
