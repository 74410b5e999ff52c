"""`fairlead describe job` and `why`: all about one job, in fields and in sentences.

`describe queue` and `describe pool` are in `report`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli import choose, frame, output, report, story

if TYPE_CHECKING:
    from datetime import datetime

    from fairlead import JobDetail, Run


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    one = typer.Typer(help="Show everything about one thing.", no_args_is_help=True)
    one.command(
        "job",
        epilog=frame.examples(
            "fairlead describe job 0h01ja5y7d1s8xk2v4m6n8p0qr",
            "fairlead describe job 0h01ja5y7d1s8xk2v4m6n8p0qr --spec -o yaml",
        ),
    )(describe)
    report.add(one)
    app.add_typer(one, name="describe")
    app.command(
        "why",
        short_help="Say why a job waits, or what happened to it.",
        epilog=frame.examples("fairlead why trial-7", "fairlead why default/sweep/trial-7"),
    )(why)


def describe(
    context: typer.Context,
    job: choose.OneJob,
    spec: Annotated[bool, typer.Option("--spec", help="With what was submitted.")] = False,
    queue: choose.OfQueue = "",
    jobset: choose.OfJobSet = "",
    output_format: output.FormatOption = output.Format.TABLE,
) -> None:
    """Show all about a job: its state, why, and every run."""
    from datetime import UTC, datetime

    with frame.connect(context) as client:
        (name,) = choose.named(client, [job], queue, jobset)
        detail = client.job(name, spec=spec)
    match output_format:
        case output.Format.JSON | output.Format.YAML:
            output.thing(detail, output_format)
        case output.Format.NAME:
            typer.echo(detail.id)
        case output.Format.TABLE:
            _describe(detail, datetime.now(UTC))


def why(
    context: typer.Context,
    job: choose.OneJob,
    queue: choose.OfQueue = "",
    jobset: choose.OfJobSet = "",
    output_format: output.FormatOption = output.Format.TABLE,
) -> None:
    """Say why a job waits or, when it has started or ended, what happened to it, in sentences."""
    from datetime import UTC, datetime

    with frame.connect(context) as client:
        (name,) = choose.named(client, [job], queue, jobset)
        detail = client.job(name)
    match output_format:
        case output.Format.JSON | output.Format.YAML:
            told = {"id": detail.id, "state": detail.state, "why": detail.why}
            output.thing({**told, "story": story.of(detail, datetime.now(UTC))}, output_format)
        case _:
            for sentence in story.of(detail, datetime.now(UTC)):
                output.tell(sentence)


def _describe(detail: "JobDetail", now: "datetime") -> None:
    output.fields(
        [
            ("Id", detail.id),
            ("Client id", detail.client_id),
            ("Queue", detail.queue),
            ("Job set", detail.job_set),
            ("State", detail.state),
            ("Stopping", detail.stopping),
            ("Why", story.reason(detail)),
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
        columns: output.Columns[Run] = {
            "RUN": lambda run: run.run,
            "STATE": lambda run: run.state,
            "CLUSTER": lambda run: run.cluster,
            "NODE": lambda run: run.node,
            "STARTED": lambda run: run.running and f"{output.age(run.running, now)} ago",
            "RAN FOR": lambda run: output.age(run.running, _end(run) or now),
            "EXIT": lambda run: run.exit_code,
            "REASON": lambda run: run.reason or run.message,
        }
        typer.echo()
        output.items(
            detail.runs,
            output.Format.TABLE,
            columns,
            lambda run: str(run.run),
            "",
            ("CLUSTER", "STARTED", "RAN FOR"),
        )
    if detail.spec is not None:
        typer.echo("\nSpec:")
        output.thing(detail.spec, output.Format.YAML)


def _end(run: "Run") -> "datetime | None":
    from datetime import datetime

    return None if run.ended is None else datetime.fromisoformat(run.ended)


def _seconds(value: int | None) -> str | None:
    return None if value is None else output.span(value)
