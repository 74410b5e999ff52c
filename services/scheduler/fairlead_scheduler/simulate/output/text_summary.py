"""Figures of a simulation in words, for people. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from fairlead_common.domain import quantities
from fairlead_scheduler.simulate.output.figures import Stuck, Summary, Waits

NAMES = {quantities.CPU: "core", quantities.GPU: "GPU"}


def lines(summary: Summary) -> Iterator[str]:
    """What the command prints."""
    ended = ", ".join(f"{count:,} {state.lower()}" for state, count in summary.states.items())
    yield f"{summary.jobs:,} jobs in {duration(summary.makespan_seconds)}: {ended}"
    used = ", ".join(f"{short(name)} {percent(of)}" for name, of in summary.utilisation.items())
    yield f"utilisation  {used}"
    yield f"wait         {waits(summary.wait_seconds)}"
    yield f"slowdown     {summary.mean_bounded_slowdown:.2f} on average"
    yield f"preemptions  {preemptions(summary)}"
    yield f"rounds       {summary.rounds:,}"
    yield ""
    yield from table(*by_queue(summary))
    never = [*said(summary.refused, "refused"), *said(summary.stuck, "left waiting")]
    if never:
        yield ""
        yield from never


def by_queue(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """A head and a row for each queue."""
    head = ["queue", "jobs", "mean wait", "p95 wait", "max wait", "slowdown", "preempted", "lost"]
    rows = [
        [
            name,
            f"{of.jobs:,}",
            duration(of.wait_seconds.mean),
            duration(of.wait_seconds.p95),
            duration(of.wait_seconds.max),
            f"{of.mean_bounded_slowdown:.2f}",
            f"{of.preemptions:,}",
            duration(of.lost_seconds),
        ]
        for name, of in summary.queues.items()
    ]
    return head, rows


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns side by side: names to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *rest = row
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()


def said(found: Iterable[Stuck], what: str) -> Iterator[str]:
    """Jobs that did not run, with the reason."""
    for item in found:
        jobs = "1 job" if item.jobs == 1 else f"{item.jobs:,} jobs"
        example = "" if item.jobs == 1 or not item.job else f", for example {item.job}"
        name = f" ({item.job})" if item.jobs == 1 and item.job else ""
        yield f"{jobs}{name} of queue {item.queue} {what}: {item.code}: {item.reason}{example}"


def waits(of: Waits) -> str:
    """Mean, quantiles and the longest."""
    named = {"mean": of.mean, "p50": of.p50, "p95": of.p95, "max": of.max}
    return ", ".join(f"{name} {duration(value)}" for name, value in named.items())


def preemptions(summary: Summary) -> str:
    """How many, for what cause, and what they cost."""
    if not summary.preemptions:
        return "none"
    causes = ", ".join(f"{cause} {n:,}" for cause, n in summary.preemptions_by_cause.items())
    lost = summary.lost_to_preemption
    parts = [f"{amount / 3600:,.1f} {NAMES[r]}-hours" for r, amount in lost.items() if r in NAMES]
    return f"{summary.preemptions:,} ({causes}); lost: {', '.join(parts) or 'nothing'}"


def duration(seconds: float) -> str:
    """The two greatest units: `1 h 5 min`, `2 d 3 h`, `12.5 s`."""
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"


def percent(fraction: float) -> str:
    """One digit behind the point."""
    return f"{100 * fraction:.1f} %"


def short(resource: str) -> str:
    """`gpu` for the name that nodes report."""
    return "gpu" if resource == quantities.GPU else resource
