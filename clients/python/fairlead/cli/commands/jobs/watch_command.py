"""`fairlead watch QUEUE JOBSET`: live counts until every job has ended."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead import Client, JobSet

BAR_MAX: Final = 60
BAD: Final = frozenset({"FAILED", "CANCELLED", "PREEMPTED", "REJECTED"})


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "watch",
        short_help="Show live counts of a job set.",
        epilog=command_base.format_examples(
            "fairlead watch default nightly", "fairlead watch default nightly --json"
        ),
    )(watch)


def watch(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")],
    jobset: Annotated[str, typer.Argument(metavar="JOBSET", help="The job set.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for every change instead.")
    ] = False,
) -> None:
    """Show live counts of a job set until all its jobs have ended; exit code 1 if one failed."""
    with command_base.connect(context) as client:
        ended = follow(client, queue, jobset, as_json=as_json)
    if ended.bad:
        raise typer.Exit(command_base.EXIT_JOBS_FAILED)


def follow(
    client: "Client", queue: str, job_set: str, *, after: str | None = None, as_json: bool = False
) -> "JobSet":
    """Draw, or print, every change of a job set; its last state."""
    changes = client.watch(queue, job_set, after=after)
    if as_json:
        return _print_changes(changes)
    return _draw_changes(changes)


def _print_changes(changes: "Iterable[JobSet]") -> "JobSet":
    last = None
    for last in changes:
        output_formats.print_json_line(last)
    assert last is not None, "a watch returns at least one state"
    return last


def _draw_changes(changes: "Iterable[JobSet]") -> "JobSet":
    from rich.console import Console
    from rich.live import Live

    console = Console()
    if not console.is_terminal:
        last, printed = None, ""
        for last in changes:
            if (text := describe_progress(last)) != printed:
                printed = text
                typer.echo(printed)
        assert last is not None, "a watch returns at least one state"
        return last
    last = None
    with Live(console=console, refresh_per_second=4) as live:
        for last in changes:
            live.update(_picture(last, min(BAR_MAX, console.width)))
    assert last is not None, "a watch returns at least one state"
    return last


def describe_progress(job_set: "JobSet") -> str:
    """The counts in one line."""
    ended = f"{job_set.ended} of {job_set.jobs} ended"
    return f"{job_set.queue}/{job_set.job_set}: {ended}: {describe_counts(job_set)}"


def describe_counts(job_set: "JobSet") -> str:
    """Jobs by state, and how many of those that did not succeed were submitted again."""
    text = ", ".join(f"{job_set.states[state]} {state}" for state in order_states(job_set))
    return f"{text} ({job_set.superseded} submitted again)" if job_set.superseded else text


def order_states(job_set: "JobSet") -> list[str]:
    """The states that have jobs, in the order of a job's life."""
    from fairlead.models.job_models import STATES

    return [state for state in STATES if job_set.states.get(state)]


def _picture(job_set: "JobSet", width: int) -> "RenderableType":
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    for state in order_states(job_set):
        rows.add_row(Text(state, output_formats.COLOURS[state]), Text(f"{job_set.states[state]:,}"))
    title = Text(f"{job_set.queue}/{job_set.job_set}", "bold")
    title.append(f"  {job_set.ended:,} of {job_set.jobs:,} ended", "not bold")
    bar = Table.grid()  # a row, because the bar alone does not end its line
    bar.add_row(ProgressBar(total=max(job_set.jobs, 1), completed=job_set.ended, width=width))
    if job_set.superseded:
        rows.add_row(Text("submitted again"), Text(f"{job_set.superseded:,}"))
    return Group(title, bar, rows)
