"""`fairlead describe job` and `why`: all about one job, in fields and in sentences.

`describe queue` and `describe pool` are in `report`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.commands import describe_report_commands
from fairlead.cli.support import command_base, job_selection, job_story, output_formats

if TYPE_CHECKING:
    from datetime import datetime

    from fairlead import JobDetail, Run


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    one = typer.Typer(help="Show all details of an object.", no_args_is_help=True)
    one.command(
        "job",
        epilog=command_base.examples(
            "fairlead describe job 0h01ja5y7d1s8xk2v4m6n8p0qr",
            "fairlead describe job 0h01ja5y7d1s8xk2v4m6n8p0qr --spec -o yaml",
        ),
    )(describe)
    describe_report_commands.add(one)
    app.add_typer(one, name="describe")
    app.command(
        "why",
        short_help="Explain why a job waits, or what happened to it.",
        epilog=command_base.examples("fairlead why trial-7", "fairlead why default/sweep/trial-7"),
    )(why)


def describe(
    context: typer.Context,
    job: job_selection.OneJob,
    spec: Annotated[bool, typer.Option("--spec", help="Include the submitted spec.")] = False,
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Show all details of a job: its state, the reason, and every run."""
    from datetime import UTC, datetime

    with command_base.connect(context) as client:
        (name,) = job_selection.named(client, [job], queue, jobset)
        detail = client.job(name, spec=spec)
    match output_format:
        case output_formats.Format.JSON | output_formats.Format.YAML:
            output_formats.thing(detail, output_format)
        case output_formats.Format.NAME:
            typer.echo(detail.id)
        case output_formats.Format.TABLE:
            _describe(detail, datetime.now(UTC))


def why(
    context: typer.Context,
    job: job_selection.OneJob,
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Explain in sentences why a job waits or, if it has started or ended, what happened to it."""
    from datetime import UTC, datetime

    with command_base.connect(context) as client:
        (name,) = job_selection.named(client, [job], queue, jobset)
        detail = client.job(name)
    match output_format:
        case output_formats.Format.JSON | output_formats.Format.YAML:
            summary = {"id": detail.id, "state": detail.state, "why": detail.why}
            output_formats.thing(
                {**summary, "story": job_story.describe_history(detail, datetime.now(UTC))},
                output_format,
            )
        case _:
            for sentence in job_story.describe_history(detail, datetime.now(UTC)):
                output_formats.print_line(sentence)


def _describe(detail: "JobDetail", now: "datetime") -> None:
    output_formats.fields(
        [
            ("Id", detail.id),
            ("Client id", detail.client_id),
            ("Queue", detail.queue),
            ("Job set", detail.job_set),
            ("State", detail.state),
            ("Stopping", detail.stopping),
            ("Why", job_story.reason(detail)),
            ("Place in queue", detail.position_in_queue),
            ("Class", detail.priority_class),
            ("Priority", detail.priority),
            ("Pool", detail.pool),
            ("Submitted", detail.submitted),
            ("Started", detail.started),
            ("Ended", detail.ended),
            ("Exit code", detail.exit_code),
            ("After", detail.after),
            ("Held", detail.hold or None),
            ("Start after", detail.start_after),
            ("Longest wait", _seconds(detail.max_queue_seconds)),
            ("Longest run", _seconds(detail.max_runtime_seconds)),
            ("Gang", detail.gang),
            ("Retry", detail.retry),
            ("On preemption", detail.on_preemption),
            ("Labels", detail.labels),
            ("Annotations", detail.annotations),
        ]
    )
    if detail.runs:
        columns: output_formats.Columns[Run] = {
            "RUN": lambda run: run.run,
            "STATE": lambda run: run.state,
            "CLUSTER": lambda run: run.cluster,
            "NODE": lambda run: run.node,
            "STARTED": lambda run: run.running and f"{output_formats.age(run.running, now)} ago",
            "RAN FOR": lambda run: output_formats.age(run.running, _end(run) or now),
            "EXIT": lambda run: run.exit_code,
            "REASON": lambda run: run.reason or run.message,
        }
        typer.echo()
        output_formats.items(
            detail.runs,
            output_formats.Format.TABLE,
            columns,
            lambda run: str(run.run),
            "",
            ("CLUSTER", "STARTED", "RAN FOR"),
        )
    if detail.spec is not None:
        typer.echo("\nSpec:")
        output_formats.thing(detail.spec, output_formats.Format.YAML)


def _end(run: "Run") -> "datetime | None":
    from datetime import datetime

    return None if run.ended is None else datetime.fromisoformat(run.ended)


def _seconds(value: int | None) -> str | None:
    return None if value is None else output_formats.span(value)
