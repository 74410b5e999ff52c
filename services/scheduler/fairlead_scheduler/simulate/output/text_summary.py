"""The figures of a simulation as text. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from fairlead_common.domain.scheduling import quantities
from fairlead_scheduler.simulate.output.figures import Stuck, Summary, Waits

NAMES = {quantities.CPU: "core", quantities.GPU: "GPU"}


def format_summary(summary: Summary) -> Iterator[str]:
    """The lines that the command prints."""
    ended = ", ".join(f"{count:,} {state.lower()}" for state, count in summary.states.items())
    yield f"{summary.jobs:,} jobs in {format_duration(summary.makespan_seconds)}: {ended}"
    used = ", ".join(
        f"{shorten_resource(name)} {format_percent(fraction)}"
        for name, fraction in summary.utilisation.items()
    )
    yield f"utilisation  {used}"
    yield f"wait         {format_waits(summary.wait_seconds)}"
    yield f"slowdown     {summary.mean_bounded_slowdown:.2f} on average"
    yield f"preemptions  {format_preemptions(summary)}"
    yield f"rounds       {summary.rounds:,}"
    yield ""
    yield from format_table(*list_queues(summary))
    never = [
        *format_stuck(summary.refused, "refused"),
        *format_stuck(summary.stuck, "left waiting"),
    ]
    if never:
        yield ""
        yield from never


def list_queues(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """The header, and a row for each queue."""
    head = ["queue", "jobs", "mean wait", "p95 wait", "max wait", "slowdown", "preempted", "lost"]
    rows = [
        [
            name,
            f"{queue.jobs:,}",
            format_duration(queue.wait_seconds.mean),
            format_duration(queue.wait_seconds.p95),
            format_duration(queue.wait_seconds.max),
            f"{queue.mean_bounded_slowdown:.2f}",
            f"{queue.preemptions:,}",
            format_duration(queue.lost_seconds),
        ]
        for name, queue in summary.queues.items()
    ]
    return head, rows


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """An aligned table: names to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *rest = row
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()


def format_stuck(found: Iterable[Stuck], what: str) -> Iterator[str]:
    """The jobs that did not run, with the reason."""
    for item in found:
        jobs = "1 job" if item.jobs == 1 else f"{item.jobs:,} jobs"
        example = "" if item.jobs == 1 or not item.job else f", for example {item.job}"
        name = f" ({item.job})" if item.jobs == 1 and item.job else ""
        yield f"{jobs}{name} of queue {item.queue} {what}: {item.code}: {item.reason}{example}"


def format_waits(waits: Waits) -> str:
    """Mean, quantiles and maximum."""
    named = {"mean": waits.mean, "p50": waits.p50, "p95": waits.p95, "max": waits.max}
    return ", ".join(f"{name} {format_duration(value)}" for name, value in named.items())


def format_preemptions(summary: Summary) -> str:
    """The number of preemptions, their causes and the lost work."""
    if not summary.preemptions:
        return "none"
    causes = ", ".join(f"{cause} {n:,}" for cause, n in summary.preemptions_by_cause.items())
    lost = summary.lost_to_preemption
    parts = [f"{amount / 3600:,.1f} {NAMES[r]}-hours" for r, amount in lost.items() if r in NAMES]
    return f"{summary.preemptions:,} ({causes}); lost: {', '.join(parts) or 'nothing'}"


def format_duration(seconds: float) -> str:
    """The two largest units: `1 h 5 min`, `2 d 3 h`, `12.5 s`."""
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for unit, size, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"


def format_percent(fraction: float) -> str:
    """A percentage with one decimal."""
    return f"{100 * fraction:.1f} %"


def shorten_resource(resource: str) -> str:
    """`gpu` for the name that nodes report."""
    return "gpu" if resource == quantities.GPU else resource
