"""`fairlead export`: a whole list as a table for other programs."""

import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.input import job_selection
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead import Filter
    from fairlead.calls.job_parameters import Format as Text


class Format(StrEnum):
    """How a line is written."""

    CSV = "csv"
    NDJSON = "ndjson"


FormatOption = Annotated[Format, typer.Option(help="CSV, or one JSON object per line.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Write a whole list to stdout.", no_args_is_help=True)
    group.command(
        "jobs",
        epilog=command_base.format_examples(
            "fairlead export jobs --queue default --jobset nightly > jobs.csv"
        ),
    )(jobs)
    group.command(
        "jobsets",
        epilog=command_base.format_examples("fairlead export jobsets --format ndjson | jq .states"),
    )(job_sets)
    app.add_typer(group, name="export")


@job_selection.with_filter_options
def jobs(
    context: typer.Context,
    chosen: "Filter",
    format: FormatOption = Format.CSV,
) -> None:
    """Write all jobs that match the options."""
    with command_base.connect(context) as client:
        _write(client.export_jobs(chosen, format=_text(format)))


def job_sets(
    context: typer.Context,
    queue: job_selection.OnlyQueue = "",
    format: FormatOption = Format.CSV,
) -> None:
    """Write all job sets with their counts."""
    with command_base.connect(context) as client:
        _write(client.export_job_sets(queue=queue or None, format=_text(format)))


def _text(format: Format) -> "Text":
    return "csv" if format is Format.CSV else "ndjson"


def _write(chunks: Iterable[bytes]) -> None:
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
