"""`report.html`: the charts and tables of a simulation, in one file without references. Pure."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

import numpy as np

from fairlead_common.domain import quantities
from fairlead_scheduler.simulate.model.ledger import Ledger
from fairlead_scheduler.simulate.output import figures, svg_charts, text_summary
from fairlead_scheduler.simulate.output.figures import Summary
from fairlead_scheduler.simulate.output.svg_charts import Bar, Float, Line

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


def render_page(name: str, summary: Summary, ledger: Ledger) -> str:
    """The report of a simulation of the jobs in the file `name`."""
    history = read_history(ledger)
    sections = [
        _render_section("Shares of the queues", _SHARES, draw_shares(history)),
        _render_section(
            "Utilisation", "Fraction of the capacity of all nodes.", draw_utilisation(history)
        ),
        _render_section("Jobs waiting and running", "", draw_jobs(history)),
        _render_section(
            "How long jobs waited",
            "Time from submission to the first start, and the number of jobs.",
            draw_waits(ledger),
        ),
    ]
    if summary.preemptions:
        text = "Preempted runs: " + text_summary.format_preemptions(summary) + "."
        drawn = svg_charts.draw_columns("Preemptions over time", history.times_s, history.preempted)
        sections.append(_render_section("Preemptions", text, drawn))
    sections.append(
        _render_section("By queue", "", _render_table(*text_summary.list_queues(summary)))
    )
    if summary.waited_job_seconds:
        sections.append(_render_section("What jobs waited for", _REASONS, _render_reasons(summary)))
    if summary.stuck or summary.refused:
        sections.append(_render_section("Jobs refused or left waiting", "", _render_stuck(summary)))
    return _PAGE.format(
        title=escape(f"Simulation of {name}"),
        style=svg_charts.define_colours() + svg_charts.STYLE + _STYLE,
        tiles="".join(_render_tiles(summary)),
        sections="".join(sections),
        foot=escape(
            f"Seed {summary.seed}, a round at least every {summary.cycle_seconds:g} s while "
            f"something changes, {summary.rounds:,} rounds. Decided by the engine of Fairlead."
        ),
    )


def draw_shares(history: History, *, alone: bool = False) -> str:
    """Actual shares of the largest queues, and their fair shares as dashed lines."""
    order = sorted(history.actual, key=lambda name: (-float(history.actual[name].sum()), name))
    shown, rest = order[:QUEUES_MAX], order[QUEUES_MAX:]
    lines = [Line(name, history.actual[name], at) for at, name in enumerate(shown)]
    if len(shown) > 1:
        lines += [
            Line(f"fair for {name}" if len(shown) <= 3 else "", history.fair[name], at, dashed=True)
            for at, name in enumerate(shown)
        ]
    if rest:
        total: Float = np.sum([history.actual[name] for name in rest], axis=0)
        lines.append(Line(f"{len(rest)} other queues", total, svg_charts.OTHER))
    return svg_charts.draw_lines(
        "Shares of the queues over time",
        history.times_s,
        lines,
        top=1.0,
        percent=True,
        height=320,
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
    bounds = [bound for bound in WAIT_BOUNDS_S if bound < most] or [WAIT_BOUNDS_S[0]]
    edges = [0.0, *bounds, np.inf] if most >= bounds[-1] else [0.0, *bounds]
    counts = np.histogram(waited, np.array(edges))[0].tolist()
    labels = [f"< {text_summary.format_duration(bound)}" for bound in bounds] + [
        f"≥ {text_summary.format_duration(bounds[-1])}"
    ]
    bars = [
        Bar(label, count, f"{count:,}")
        for label, count in zip(labels[: len(counts)], counts, strict=True)
    ]
    return svg_charts.draw_bars("How long jobs waited", bars, alone=alone)


# The page -----------------------------------------------------------------------------------


def _render_tiles(summary: Summary) -> Iterable[str]:
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
        yield (
            f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b>'
            f"<small>{escape(more)}</small></div>"
        )


def _format_states(summary: Summary) -> str:
    return ", ".join(f"{count:,} {state.lower()}" for state, count in summary.states.items())


def _format_causes(summary: Summary) -> str:
    causes = summary.preemptions_by_cause.items()
    return ", ".join(f"{cause} {count:,}" for cause, count in causes)


def _render_section(title: str, text: str, body: str) -> str:
    paragraph = f"<p>{escape(text)}</p>" if text else ""
    return f"<section><h2>{escape(title)}</h2>{paragraph}<div class=scroll>{body}</div></section>"


def _render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Iterable[str], kind: str) -> str:
        return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"

    more = [["...", *[""] * (len(head) - 1)]] if len(rows) > ROWS_MAX else []
    body = "".join(row(cells, "td") for cells in [*rows[:ROWS_MAX], *more])
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _render_reasons(summary: Summary) -> str:
    waited = sorted(summary.waited_job_seconds.items(), key=lambda item: (-item[1], item[0]))
    total = sum(seconds for _, seconds in waited)
    rows = [
        [code, f"{seconds / 3600:,.1f}", text_summary.format_percent(seconds / total)]
        for code, seconds in waited
    ]
    return _render_table(["reason", "job-hours", "of all waiting"], rows)


def _render_stuck(summary: Summary) -> str:
    rows = [
        [item.queue, f"{item.jobs:,}", item.job, item.code, item.reason]
        for item in [*summary.refused, *summary.stuck]
    ]
    return _render_table(["queue", "jobs", "for example", "code", "reason"], rows).replace(
        "<table>", "<table class=words>"
    )


_SHARES: Final = "The dominant share of each queue; dashed lines are fair shares."
_REASONS: Final = "Waiting time of all jobs, by the reason codes that `fairlead why` shows."
_STYLE: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif;
font-variant-numeric:tabular-nums}
:root{color-scheme:light dark;--page:#f6f7f9}
@media (prefers-color-scheme:dark){:root{--page:#0e1217}}
main{max-width:1060px;margin:0 auto;padding:1.6rem 1.2rem 3rem}
h1{font-size:1.5rem;letter-spacing:-.015em;margin:0 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:0 0 .2rem}
section,.tile{background:var(--ground);border:1px solid var(--line);border-radius:10px}
section{padding:1rem 1.2rem 1.1rem;margin-top:1rem}
section p{color:var(--soft);margin:0 0 .8rem;font-size:.92rem;max-width:75ch}
svg{display:block;width:100%;height:auto;min-width:640px}
.scroll{overflow-x:auto}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(215px,1fr));gap:.7rem}
.tile{padding:.7rem .9rem;display:flex;flex-direction:column;min-width:0}
.tile span{color:var(--soft);font-size:.85rem}
.tile b{font-size:1.3rem;font-weight:600;letter-spacing:-.01em}
.tile small{color:var(--soft);overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.93rem}
th{color:var(--soft);font-weight:500}
th,td{padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line);text-align:right;
white-space:nowrap}
th:first-child,td:first-child,.words th,.words td{text-align:left}
.words td{white-space:normal;vertical-align:top}
.words td:nth-child(-n+4){white-space:nowrap}
tbody tr:last-child td{border-bottom:0}
footer{color:var(--soft);font-size:.85rem;margin-top:1.2rem}
"""
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div class="tiles">{tiles}</div>
{sections}
<footer>{foot}</footer>
</main>
</body>
</html>
"""
