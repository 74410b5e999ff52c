"""`report.html`: the charts and tables of a simulation, in one file without references. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import jinja2
import numpy as np

from fairlead_common.domain.scheduling import quantities
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.output import figures, node_charts, svg_charts, text_summary
from fairlead_scheduler.simulate.output.figures import Summary
from fairlead_scheduler.simulate.output.svg_charts import Bar, Float, Line, Panel

QUEUES_MAX: Final = 6
"""Queues with their own line; more are not distinguishable."""
ROWS_MAX: Final = 200
WAIT_BOUNDS_S: Final = (
    *(1, 2, 5, 10, 20, 60, 120, 300, 600, 1_200, 3_600, 7_200, 18_000, 43_200),
    *(86_400, 259_200, 604_800),
)


class History(NamedTuple):
    """Means over intervals of time, by quantity."""

    times_s: Float
    used: dict[str, Float]
    """Resource -> fraction in use."""
    actual: dict[str, Float]
    fair: dict[str, Float]
    queued: Float
    running: Float
    preempted: Float


def read_history(ledger: Ledger) -> History:
    """The time series of the ledger by name. Time starts with the first submission."""
    series = ledger.series
    means, names = series.means(), ledger.trace.queues.values
    width, count = len(ledger.resources), len(names)
    bounds = [width, *(2 * width + n * count for n in range(4))]
    used, there, actual, fair, queued, running = np.split(means[:, :-1], bounds, axis=1)
    return History(
        times_s=series.times_s() - series.from_ms / 1000,
        used={
            name: np.divide(used[:, at], there[:, at], where=there[:, at] > 0, out=0 * used[:, at])
            for at, name in enumerate(ledger.resources)
            if used[:, at].any()
        },
        actual={name: actual[:, at] for at, name in enumerate(names)},
        fair={name: fair[:, at] for at, name in enumerate(names)},
        queued=queued.sum(axis=1),
        running=running.sum(axis=1),
        preempted=series.totals()[:, -1],
    )


class Table(NamedTuple):
    """A table; with `words` the cells are texts rather than figures."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False


class Section(NamedTuple):
    """A section of the page: a text, in which backticks mark code, a chart and a table."""

    title: str
    text: str = ""
    chart: str = ""
    """SVG"""
    table: Table | None = None


class Tile(NamedTuple):
    """A figure at the top of the page."""

    name: str
    value: str
    more: str


def render_page(name: str, summary: Summary, ledger: Ledger) -> str:
    """The report of a simulation of the jobs in the file `name`."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fairlead_scheduler.simulate.output"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        title=f"Simulation of {name}",
        chart_style=svg_charts.define_colours() + svg_charts.STYLE,
        tiles=list(_list_tiles(summary)),
        sections=list(_list_sections(summary, ledger)),
        rows_max=ROWS_MAX,
        foot=(
            f"Seed {summary.seed}, a round at least every {summary.cycle_seconds:g} s while "
            f"something changes, {summary.rounds:,} rounds. Decided by the engine of Fairlead."
        ),
    )


def _list_sections(summary: Summary, ledger: Ledger) -> Iterator[Section]:
    history = read_history(ledger)
    yield Section("Shares of the queues", _SHARES, draw_shares(history))
    utilisation = draw_utilisation(history)
    yield Section("Utilisation", "Fraction of the capacity of all nodes.", utilisation)
    yield Section("Jobs waiting and running", "", draw_jobs(history))
    chart = node_charts.draw_nodes(ledger, _largest_queues(history))
    text = _RUNS if node_charts.has_bars(ledger) else _describe_usage(ledger)
    yield Section("Nodes", text, chart)
    yield Section("How long jobs waited", _WAITS, draw_waits(ledger))
    yield Section("Waits by job size", _SIZES, table=_list_sizes(summary))
    if summary.preemptions:
        text = "Preempted runs: " + text_summary.format_preemptions(summary) + "."
        drawn = svg_charts.draw_columns("Preemptions over time", history.times_s, history.preempted)
        yield Section("Preemptions", text, drawn)
    yield Section("By queue", table=Table(*text_summary.list_queues(summary)))
    if summary.waited_job_seconds:
        yield Section("What jobs waited for", _REASONS, table=_list_reasons(summary))
    if summary.stuck or summary.refused:
        yield Section("Jobs refused or left waiting", table=_list_stuck(summary))


def _describe_usage(ledger: Ledger) -> str:
    """The text of the picture of how full the nodes were."""
    more = max(ledger.node_runs.sizes) - 1
    rows = f" A row whose name ends with +{more} is the mean of {more + 1} nodes." if more else ""
    return _USAGE + rows


def _largest_queues(history: History) -> list[str]:
    """The queues with a colour of their own, the one with the greatest use first."""
    order = sorted(history.actual, key=lambda name: (-float(history.actual[name].sum()), name))
    return order[:QUEUES_MAX]


def draw_shares(history: History, *, alone: bool = False) -> str:
    """Actual and fair shares of the largest queues, a panel for each, and of all others."""
    largest = _largest_queues(history)
    panels = [
        Panel(name, history.actual[name], history.fair[name], at) for at, name in enumerate(largest)
    ]
    if rest := [name for name in history.actual if name not in largest]:
        actual, fair = (
            np.sum([shares[name] for name in rest], axis=0)
            for shares in (history.actual, history.fair)
        )
        panels.append(Panel(f"{len(rest)} other queues", actual, fair, svg_charts.OTHER))
    return svg_charts.draw_panels(
        "Shares of the queues over time",
        history.times_s,
        panels,
        ("share", "fair share"),
        alone=alone,
    )


def draw_utilisation(history: History, *, alone: bool = False) -> str:
    """The fraction of each resource in use."""
    lines = [
        Line(text_summary.shorten_resource(name), history.used[name], at)
        for at, name in enumerate(history.used)
    ][:QUEUES_MAX]
    return svg_charts.draw_lines(
        "Utilisation over time", history.times_s, lines, top=1.0, percent=True, alone=alone
    )


def draw_jobs(history: History, *, alone: bool = False) -> str:
    """The number of waiting and running jobs."""
    lines = [Line("waiting", history.queued, 1), Line("running", history.running, 0)]
    return svg_charts.draw_lines("Jobs over time", history.times_s, lines, height=220, alone=alone)


def draw_waits(ledger: Ledger, *, alone: bool = False) -> str:
    """Histogram of waiting times, with bounds that grow with the time."""
    waited = figures.waits_s(ledger)
    most = float(waited.max(initial=0.0))
    bounds = [0.0, *(bound for bound in WAIT_BOUNDS_S if bound <= most)]
    counts = np.histogram(waited, np.array([*bounds, np.inf]))[0].tolist()
    bars = [
        Bar(text_summary.format_duration(bound), count, f"{count:,}")
        for bound, count in zip(bounds, counts, strict=True)
    ]
    return svg_charts.draw_bars("How long jobs waited", bars, at_edges=True, alone=alone)


# The page -----------------------------------------------------------------------------------


def _list_tiles(summary: Summary) -> Iterator[Tile]:
    waits = summary.wait_seconds
    longest = summary.longest_wait
    for name, value, more in (
        ("jobs", f"{summary.jobs:,}", _format_states(summary)),
        (
            "makespan",
            text_summary.format_duration(summary.makespan_seconds),
            "first submission to last end",
        ),
        *(
            (
                f"{text_summary.shorten_resource(name)} in use",
                text_summary.format_percent(fraction),
                "over the whole time",
            )
            for name, fraction in summary.utilisation.items()
            if name in (quantities.CPU, quantities.MEMORY, quantities.GPU)
        ),
        (
            "mean wait",
            text_summary.format_duration(waits.mean),
            f"p50 {text_summary.format_duration(waits.p50)}",
        ),
        (
            "p95 wait",
            text_summary.format_duration(waits.p95),
            f"longest {text_summary.format_duration(longest.seconds)} ({longest.id})"
            if longest
            else "",
        ),
        ("bounded slowdown", f"{summary.mean_bounded_slowdown:.2f}", "(wait + run) / run, mean"),
        ("preemptions", f"{summary.preemptions:,}", _format_causes(summary)),
    ):
        yield Tile(name, value, more)


def _format_states(summary: Summary) -> str:
    return ", ".join(f"{count:,} {state.lower()}" for state, count in summary.states.items())


def _format_causes(summary: Summary) -> str:
    causes = summary.preemptions_by_cause.items()
    return ", ".join(f"{cause} {count:,}" for cause, count in causes)


def _list_sizes(summary: Summary) -> Table:
    rows = [
        [
            item.size,
            f"{item.jobs:,}",
            text_summary.format_duration(item.wait_seconds.mean),
            text_summary.format_duration(item.wait_seconds.p50),
            text_summary.format_duration(item.wait_seconds.p95),
            text_summary.format_duration(item.wait_seconds.max),
        ]
        for item in summary.sizes
    ]
    return Table(["size", "jobs", "mean wait", "p50 wait", "p95 wait", "max wait"], rows)


def _list_reasons(summary: Summary) -> Table:
    waited = sorted(summary.waited_job_seconds.items(), key=lambda item: (-item[1], item[0]))
    total = sum(seconds for _, seconds in waited)
    rows = [
        [code, f"{seconds / 3600:,.1f}", text_summary.format_percent(seconds / total)]
        for code, seconds in waited
    ]
    return Table(["reason", "job-hours", "of all waiting"], rows)


def _list_stuck(summary: Summary) -> Table:
    rows = [
        [item.queue, f"{item.jobs:,}", item.job, item.code, item.reason]
        for item in [*summary.refused, *summary.stuck]
    ]
    return Table(["queue", "jobs", "for example", "code", "reason"], rows, words=True)


_SHARES: Final = "The dominant share of each queue, and its fair share as a dashed line."
_RUNS: Final = "A row for each node and a bar for each run, in the colour of its queue."
_USAGE: Final = (
    "How full the nodes were: the stronger the colour, the more of a node's fullest resource was "
    "in use."
)
_WAITS: Final = (
    "The number of jobs by the time from submission to the first start. Each bar counts from the "
    "time at its left edge up to the next one."
)
_SIZES: Final = "Jobs that started, by the number of their GPUs or else of their cores."
_REASONS: Final = (
    "Waiting time of all jobs, by the reason codes that `fairlead why` shows. Reasons are found in"
    " one round of each interval of the charts; until the next one the waiting jobs of a queue are"
    " divided among its reasons as they were then."
)
