"""Charts as SVG: step lines and bars. Pure; the colours are those of Fairlead's pages.

A chart is part of a page or, with `alone`, a file that follows the reader's theme.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]

WIDTH: Final = 960
PLOT: Final = (56, WIDTH - 16)
"""Left and right edge of the plot."""
COLUMNS_MAX: Final = 240
"""More points than this are not distinguishable on a screen."""
PANEL_POINTS_MAX: Final = 120
"""Points of a line in a panel: a share that changes with every job would fill the whole panel."""
ROW_LEFT: Final = 128
ROW_LETTERS: Final = 17
"""Letters of a name in the left margin; the whole name is its tooltip."""
LETTER: Final = 6.7
"""The approximate width of a letter, for legends."""
TICKS_S: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600),
    *(2_592_000, 7_776_000, 31_536_000, 157_680_000, 630_720_000),
)

LIGHT: Final = {
    "ground": "#ffffff",
    "ink": "#16202b",
    "soft": "#566474",
    "line": "#e3e7ec",
    "c0": "#1b74d1",
    "c1": "#d9660a",
    "c2": "#1f8a4c",
    "c3": "#c2417c",
    "c4": "#7a5cc8",
    "c5": "#0e8a94",
    "c6": "#7d8894",
}
DARK: Final = {
    "ground": "#161c24",
    "ink": "#e6ecf2",
    "soft": "#93a1b1",
    "line": "#28323e",
    "c0": "#4aa0f2",
    "c1": "#f2914d",
    "c2": "#3fb56f",
    "c3": "#ec77a6",
    "c4": "#a48bf0",
    "c5": "#35b8c2",
    "c6": "#8794a2",
}
COLOURS: Final = 7
OTHER: Final = 6
"""The colour of the line for all other queues."""


class Line(NamedTuple):
    """One line: a value for each interval of time. Fair shares are dashed."""

    name: str
    values: Float
    colour: int
    dashed: bool = False


class Bar(NamedTuple):
    """One bar, with the label below it and the text above it."""

    label: str
    value: float
    text: str


def define_colours() -> str:
    """The colours as CSS, for light and dark."""
    light = "".join(f"--{name}:{value};" for name, value in LIGHT.items())
    dark = "".join(f"--{name}:{value};" for name, value in DARK.items())
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"


STYLE: Final = (
    "svg text{fill:var(--soft);font:12px system-ui,'Segoe UI','Noto Sans','DejaVu Sans',sans-serif}"
    "svg .grid{stroke:var(--line);stroke-width:1}"
    "svg .axis{stroke:var(--soft);stroke-width:1}"
    "svg .l{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    "svg .d{fill:none;stroke-width:1.4;stroke-dasharray:5 4;opacity:.85}"
    "svg .name{fill:var(--ink)}"
    "svg .area{opacity:.25}"
    "svg .run{stroke:var(--ground);stroke-width:.6}"
    + "".join(
        f"svg .s{n}{{stroke:var(--c{n})}}svg .f{n}{{fill:var(--c{n})}}" for n in range(COLOURS)
    )
)


def draw_lines(
    title: str,
    times_s: Float,
    lines: Sequence[Line],
    *,
    top: float | None = None,
    percent: bool = False,
    height: int = 260,
    alone: bool = False,
) -> str:
    """Lines over time. `top` is the end of the scale; by default it depends on the values."""
    most = max([float(line.values.max(initial=0.0)) for line in lines], default=0.0)
    step, top = _choose_scale(most if top is None else top, whole=not percent)
    rows = _legend_rows([line for line in lines if line.name])
    upper, lower = 18 + 20 * len(rows), height - 28
    parts = [*_draw_legend(rows), *_draw_grid(step, top, upper, lower, percent)]
    parts += _draw_time_axis(float(times_s[0]), float(times_s[-1]), lower)
    for line in sorted(lines, key=lambda line: not line.dashed):
        path = _draw_steps(times_s, line.values, top, upper, lower)
        kind = "d" if line.dashed else "l"
        parts.append(f'<path class="{kind} s{line.colour}" d="{path}"/>')
    return _svg(title, parts, height, alone)


class Panel(NamedTuple):
    """A small chart: an area, and a dashed line to compare it with."""

    name: str
    area: Float
    line: Float
    colour: int


def draw_panels(
    title: str,
    times_s: Float,
    panels: Sequence[Panel],
    names: tuple[str, str],
    *,
    alone: bool = False,
) -> str:
    """Fractions over time in panels below each other. `names`: of the area and of the line."""
    each, first_s, last_s = 92, float(times_s[0]), float(times_s[-1])
    height = 30 + each * len(panels) + 26
    legend = [Line(names[0], times_s, 0), Line(names[1], times_s, OTHER, dashed=True)]
    parts = list(_draw_legend(_legend_rows(legend)))
    for at, panel in enumerate(panels):
        upper, lower = 30 + each * at + 20, 30 + each * (at + 1) - 6
        most = max(float(panel.area.max(initial=0.0)), float(panel.line.max(initial=0.0)))
        step, top = _choose_scale(min(1.0, max(0.02, most)), whole=False, steps=2)
        parts += _draw_grid(step, top, upper, lower, True)
        area = _draw_steps(times_s, panel.area, top, upper, lower, PANEL_POINTS_MAX)
        line = _draw_steps(times_s, panel.line, top, upper, lower, PANEL_POINTS_MAX)
        parts.append(f'<path class="area f{panel.colour}" d="{area}V{lower}H{PLOT[0]}Z"/>')
        parts.append(f'<path class="l s{panel.colour}" d="{area}"/>')
        parts.append(f'<path class="d s{OTHER}" d="{line}"/>')
        parts.append(_text(PLOT[0], upper - 6, _shorten(panel.name), "start", "name"))
    parts += _draw_time_axis(first_s, last_s, height - 26)
    return _svg(title, parts, height, alone)


def draw_bars(
    title: str,
    bars: Sequence[Bar],
    *,
    height: int = 240,
    at_edges: bool = False,
    alone: bool = False,
) -> str:
    """Bars side by side, each with its text above it. `at_edges`: labels are below left edges."""
    step, top = _choose_scale(max([bar.value for bar in bars], default=0.0), whole=True)
    upper, lower = 24, height - 28
    parts = list(_draw_grid(step, top, upper, lower, False))
    space = (PLOT[1] - PLOT[0]) / max(1, len(bars))
    for at, bar in enumerate(bars):
        middle = PLOT[0] + (at + 0.5) * space
        y = lower - (lower - upper) * bar.value / top
        width = min(0.78 * space, 64)
        if bar.value:
            parts.append(
                f'<rect class="f0" x="{middle - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{lower - y:.1f}" rx="2"/>'
            )
            parts.append(_text(middle, y - 5, bar.text, "middle", "name"))
        x = PLOT[0] + at * space if at_edges else middle
        parts.append(_text(x, lower + 18, bar.label, "middle"))
    parts.append(f'<path class="axis" d="M{PLOT[0]} {lower}H{PLOT[1]}"/>')
    return _svg(title, parts, height, alone)


def draw_columns(
    title: str, times_s: Float, counts: Float, *, height: int = 160, alone: bool = False
) -> str:
    """The number of occurrences in each interval of time."""
    grouped, bounds = merge_intervals(times_s, counts, COLUMNS_MAX // 2, total=True)
    step, top = _choose_scale(float(grouped.max(initial=0.0)), whole=True)
    upper, lower = 14, height - 28
    parts = list(_draw_grid(step, top, upper, lower, False))
    parts += _draw_time_axis(float(times_s[0]), float(times_s[-1]), lower)
    xs = _scale_times(bounds, float(times_s[0]), float(times_s[-1]))
    for at, count in enumerate(grouped.tolist()):
        if count:
            y = lower - (lower - upper) * count / top
            width = max(1.0, xs[at + 1] - xs[at] - 1)
            parts.append(
                f'<rect class="f1" x="{xs[at]:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{lower - y:.1f}"/>'
            )
    return _svg(title, parts, height, alone)


class Frame:
    """The frame of a chart with a row for each of several names, over time."""

    def __init__(
        self, title: str, first_s: float, last_s: float, rows_height: int, legend: Sequence[Line]
    ) -> None:
        self._title, self._first_s, self._last_s = title, first_s, last_s
        self._legend = _legend_rows(legend) if legend else []
        self._rows_height = rows_height
        self.upper = 8 + 20 * len(self._legend)
        """The top of the first row."""

    def x(self, time_s: float) -> float:
        """The horizontal position of a time."""
        span = max(self._last_s - self._first_s, 1e-9)
        return ROW_LEFT + (PLOT[1] - ROW_LEFT) * (time_s - self._first_s) / span

    def row_label(self, name: str, y: float) -> str:
        """The name of a row at its left."""
        short = name if len(name) <= ROW_LETTERS else name[: ROW_LETTERS - 1] + "…"
        text = _text(ROW_LEFT - 8, y + 4, short, "end")
        return text.replace("</text>", f"<title>{escape(name)}</title></text>")

    def render(self, parts: Iterable[str]) -> str:
        """The chart with these parts in its rows."""
        lower = self.upper + self._rows_height
        axis = _draw_time_axis(self._first_s, self._last_s, lower, ROW_LEFT)
        return _svg(
            self._title, [*_draw_legend(self._legend), *parts, *axis], lower + 28, alone=False
        )


# Parts --------------------------------------------------------------------------------------


def _svg(title: str, parts: Iterable[str], height: int, alone: bool) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}"'
    )
    if not alone:
        return f"{head}>{''.join(parts)}</svg>"
    ground = f'<rect width="{WIDTH}" height="{height}" rx="8" fill="var(--ground)"/>'
    body = "\n".join(parts)
    return f"{head}>\n<style>{define_colours()}{STYLE}</style>\n{ground}\n{body}\n</svg>\n"


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'


def _legend_rows(lines: Sequence[Line]) -> list[list[tuple[float, Line]]]:
    """The rows of the legend: names with their horizontal position."""
    rows: list[list[tuple[float, Line]]] = [[]]
    x = float(PLOT[0])
    for line in lines:
        width = 30 + LETTER * min(len(line.name), 40) + 14
        if x + width > PLOT[1] and rows[-1]:
            rows.append([])
            x = float(PLOT[0])
        rows[-1].append((x, line))
        x += width
    return rows


def _draw_legend(rows: Sequence[Sequence[tuple[float, Line]]]) -> Iterable[str]:
    for row, names in enumerate(rows):
        y = 17 + 20 * row
        for x, line in names:
            kind = "d" if line.dashed else "l"
            yield f'<path class="{kind} s{line.colour}" d="M{x:.1f} {y - 4}h22"/>'
            yield _text(x + 28, y, _shorten(line.name), "start", "name")


def _shorten(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"


def _draw_grid(step: float, top: float, upper: int, lower: int, percent: bool) -> Iterable[str]:
    for at in range(round(top / step) + 1):
        value = at * step
        y = lower - (lower - upper) * value / top
        yield f'<path class="grid" d="M{PLOT[0]} {y:.1f}H{PLOT[1]}"/>'
        label = f"{100 * value:g} %" if percent else _format_value(value)
        yield _text(PLOT[0] - 8, y + 4, label, "end")


def _format_value(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):g}{unit}"
    return f"{value:g}"


def _choose_scale(most: float, *, whole: bool, steps: int = 5) -> tuple[float, float]:
    """A round step, and a top that is a multiple of it; at most `steps` and one more, whole for
    counts."""
    if most <= 0:
        return 1.0, 1.0
    power = 10.0 ** np.floor(np.log10(most / steps))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if most / (power * n) <= steps)
    step = max(1.0, step) if whole else step
    return float(step), float(step * max(1, np.ceil(most / step - 1e-9)))


def _draw_time_axis(first_s: float, last_s: float, y: int, left: int = PLOT[0]) -> Iterable[str]:
    span = max(last_s - first_s, 1e-9)
    step = next((step for step in TICKS_S if span / step <= 9), TICKS_S[-1])
    yield f'<path class="axis" d="M{left} {y}H{PLOT[1]}"/>'
    for at in range(int(span / step) + 1):
        x = left + (PLOT[1] - left) * at * step / span
        yield f'<path class="axis" d="M{x:.1f} {y}v4"/>'
        anchor = "start" if at == 0 else "middle" if x < PLOT[1] - 16 else "end"
        yield _text(x, y + 18, _format_time(at * step, step), anchor)


def _format_time(since_s: int, step_s: int) -> str:
    """Time since the start, in the unit of the steps."""
    if since_s == 0:
        return "0"
    if step_s < 60:
        return f"{since_s // 60}:{since_s % 60:02d} min" if since_s >= 60 else f"{since_s} s"
    if step_s < 3_600 and since_s < 3_600:
        return f"{since_s // 60} min"
    if step_s < 3_600 and since_s % 3_600:
        return f"{since_s // 3600}:{since_s % 3600 // 60:02d} h"
    return f"{since_s // 3600} h" if step_s < 86_400 else f"{since_s // 86_400} d"


def _scale_times(times_s: Float, first_s: float, last_s: float) -> list[float]:
    span = max(last_s - first_s, 1e-9)
    xs: list[float] = (PLOT[0] + (PLOT[1] - PLOT[0]) * (times_s - first_s) / span).tolist()
    return xs


def _draw_steps(
    times_s: Float,
    values: Float,
    top: float,
    upper: int,
    lower: int,
    points_max: int = COLUMNS_MAX,
) -> str:
    """The path of a line in steps."""
    merged, bounds = merge_intervals(times_s, values, points_max)
    xs = _scale_times(bounds, float(times_s[0]), float(times_s[-1]))
    ys = (lower - (lower - upper) * np.clip(merged / top, 0.0, 1.0)).round(1).tolist()
    path = [f"M{xs[0]:.1f} {ys[0]:g}"]
    for at in range(1, len(ys)):
        if ys[at] != ys[at - 1]:
            path.append(f"H{xs[at]:.1f}V{ys[at]:g}")
    return "".join([*path, f"H{xs[-1]:.1f}"])


def merge_intervals(
    times_s: Float, values: Float, most: int, total: bool = False
) -> tuple[Float, Float]:
    """Merge the values into at most `most` means (or sums), with the bounds of their intervals."""
    count = len(values)
    size = -(-count // most)
    starts = np.arange(0, count, size)
    lasted = np.diff(times_s)
    if total:
        merged = np.add.reduceat(values, starts)
    else:
        merged = np.add.reduceat(values * lasted, starts) / np.add.reduceat(lasted, starts)
    return merged, np.append(times_s[starts], times_s[-1])
