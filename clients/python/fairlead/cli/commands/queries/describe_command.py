"""`fairlead describe job`, `group`, `array`, `queue`, `pool`, and `why`: details of one object."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.commands.jobs import array_commands, group_commands
from fairlead.cli.input import job_selection
from fairlead.cli.output import job_story, output_formats, quantity_texts
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from datetime import datetime

    from fairlead import (
        ArrayView,
        Client,
        GroupDetail,
        JobDetail,
        PoolReport,
        QueueReport,
        QueueShare,
        Round,
        Run,
        WaitingReport,
    )

QueueName = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]
PoolName = Annotated[str, typer.Argument(metavar="NAME", help="The pool's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    one = typer.Typer(help="Show all details of an object.", no_args_is_help=True)
    one.command(
        "job",
        epilog=command_base.format_examples(
            "fairlead describe job 0h01ja5y7d1s8xk2v4m6n8p0qr",
            "fairlead describe job 0h01ja5y7d1s8xk2v4m6n8p0qr --spec -o yaml",
        ),
    )(describe_job)
    one.command(
        "group",
        epilog=command_base.format_examples(
            "fairlead describe group bert-1 --jobset training",
            "fairlead describe group default/training/bert-1 -o yaml",
        ),
    )(group_commands.describe)
    one.command("array", epilog=command_base.format_examples("fairlead describe array scan-7"))(
        array_commands.describe
    )
    one.command("queue", epilog=command_base.format_examples("fairlead describe queue vision"))(
        describe_queue
    )
    one.command("pool", epilog=command_base.format_examples("fairlead describe pool default"))(
        describe_pool
    )
    app.add_typer(one, name="describe")
    app.command(
        "why",
        short_help="Explain why a job, group or array waits, or what happened to it.",
        epilog=command_base.format_examples(
            "fairlead why trial-7",
            "fairlead why default/sweep/trial-7",
            "fairlead why bert-1 --jobset training",
        ),
    )(why)


def describe_job(
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
        (name,) = job_selection.list_references(client, [job], queue, jobset)
        detail = client.job(name, spec=spec)
    output_formats.print_detail(
        detail, detail.id, output_format, lambda: _print_job(detail, datetime.now(UTC))
    )


def why(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB|GROUP|ARRAY", help=job_selection.NAME_HELP)],
    queue: job_selection.OfQueue = "",
    jobset: job_selection.OfJobSet = "",
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Explain in sentences why a job, group or array waits or, if it has started or ended, what
    happened to it.

    A job is found first, then a group, then an array.
    """
    from fairlead import NotFound

    with command_base.connect(context) as client:
        (name,) = job_selection.list_references(client, [job], queue, jobset)
        found: JobDetail | GroupDetail | ArrayView | None
        try:
            found = client.job(name)
        except NotFound as error:
            found = job_selection.find_group_or_array(client, name)
            if found is None:
                error.add_note("there is no group or array of this name either")
                raise
    summary, story = _explain(found)
    match output_format:
        case output_formats.Format.JSON | output_formats.Format.YAML:
            output_formats.print_object({**summary, "story": story}, output_format)
        case _:
            for sentence in story:
                output_formats.print_line(sentence)


def _explain(
    found: "JobDetail | GroupDetail | ArrayView",
) -> tuple[dict[str, object], list[str]]:
    """The id, the state and why; and the history in sentences."""
    from datetime import UTC, datetime

    from fairlead import ArrayView, GroupDetail

    summary: dict[str, object] = {"id": found.id, "why": found.why}
    match found:
        case GroupDetail():
            return summary | {"state": found.state}, group_commands.describe_history(found)
        case ArrayView():
            return summary | {"states": found.states}, array_commands.describe_history(found)
        case _:
            story = job_story.describe_history(found, datetime.now(UTC))
            return summary | {"state": found.state}, story


def _print_job(detail: "JobDetail", now: "datetime") -> None:
    output_formats.print_fields(
        [
            ("Id", detail.id),
            ("Client id", detail.client_id),
            ("Queue", detail.queue),
            ("Job set", detail.job_set),
            ("State", detail.state),
            ("Stopping", detail.stopping),
            ("Why", job_story.find_reason(detail)),
            ("Queue position", detail.position_in_queue),
            ("Class", detail.priority_class),
            ("Priority", detail.priority),
            ("Pool", detail.pool),
            ("Submitted", detail.submitted),
            ("Submitted by", detail.submitted_by),
            ("Started", detail.started),
            ("Ended", detail.ended),
            ("Exit code", detail.exit_code),
            ("After", detail.after),
            ("Held", detail.hold or None),
            ("Start after", detail.start_after),
            ("Maximum wait", _seconds(detail.max_queue_seconds)),
            ("Maximum run time", _seconds(detail.max_runtime_seconds)),
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
            "STARTED": lambda run: (
                run.running and f"{output_formats.format_age(run.running, now)} ago"
            ),
            "RAN FOR": lambda run: output_formats.format_age(run.running, _end(run) or now),
            "EXIT": lambda run: run.exit_code,
            "REASON": lambda run: run.reason or run.message,
        }
        typer.echo()
        output_formats.print_list(
            detail.runs,
            output_formats.Format.TABLE,
            columns,
            lambda run: str(run.run),
            "",
            ("CLUSTER", "STARTED", "RAN FOR"),
        )
    if detail.spec is not None:
        typer.echo("\nSpec:")
        output_formats.print_object(detail.spec, output_formats.Format.YAML)


def _end(run: "Run") -> "datetime | None":
    from datetime import datetime

    return None if run.ended is None else datetime.fromisoformat(run.ended)


def _seconds(value: int | None) -> str | None:
    return None if value is None else output_formats.format_duration(value)


def describe_queue(
    context: typer.Context,
    name: QueueName,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Show the shares and limits of a queue, and why its jobs wait."""
    with command_base.connect(context) as client:
        report = client.queue_report(name)
        output_formats.print_detail(
            report, report.queue, output_format, lambda: _print_queue(client, report)
        )


def _print_queue(client: "Client", report: "QueueReport") -> None:
    from fairlead import Filter

    groups = client.count_jobs(["state"], Filter(queue=report.queue))
    output_formats.print_fields(
        [
            ("Queue", report.queue),
            ("Weight", None if report.weight is None else f"{report.weight:g}"),
            ("Order", report.order),
            ("Cordoned", (report.reason or True) if report.cordoned else None),
            ("Limits", quantity_texts.format_limits(report.limits)),
            ("Jobs", [f"{each.jobs:,} {each.group['state']}" for each in groups]),
            ("Waiting for", report.reasons),
        ]
    )
    _print_shares(report.shares, of_pool=False)
    _print_waiting(report.waiting)


def describe_pool(
    context: typer.Context,
    name: PoolName,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Show the last round of a pool, the shares of its queues, and why jobs wait."""
    with command_base.connect(context) as client:
        report = client.pool_report(name)
    output_formats.print_detail(report, report.pool, output_format, lambda: _print_pool(report))


def _print_pool(report: "PoolReport") -> None:
    output_formats.print_fields(
        [("Pool", report.pool), *_round_fields(report.round), ("Waiting for", report.reasons)]
    )
    _print_shares(report.shares, of_pool=True)
    _print_waiting(report.waiting)


def _round_fields(last: "Round | None") -> list[tuple[str, object]]:
    if last is None:
        return [("Last round", "none yet")]
    return [
        ("Last round", last.time),
        ("Outcome", last.error or last.stopped_by or last.outcome),
        ("Nodes", last.nodes),
        ("Started", last.scheduled),
        ("Preempted", last.preempted),
        ("Left waiting", last.waiting),
        ("Took", f"{sum(last.steps_ms.values()):.0f} ms"),
        ("Topology", " > ".join(last.topology) or None),
    ]


def _print_shares(shares: "Sequence[QueueShare]", *, of_pool: bool) -> None:
    if not shares:
        return
    columns: output_formats.Columns[QueueShare] = {
        "QUEUE" if of_pool else "POOL": lambda each: each.queue if of_pool else each.pool,
        "WEIGHT": lambda each: f"{each.weight:g}",
        "ACTUAL": lambda each: f"{each.actual_share:.1%}",
        "FAIR": lambda each: f"{each.fair_share:.1%}",
        "DEMAND": lambda each: f"{each.demand_share:.1%}",
        "RUNNING": lambda each: each.running,
        "QUEUED": lambda each: each.queued,
        "FIRST WAITING": lambda each: each.first_waiting,
    }
    typer.echo()
    output_formats.print_list(
        shares,
        output_formats.Format.TABLE,
        columns,
        lambda each: each.queue,
        "",
        ("FIRST WAITING", "DEMAND", "WEIGHT"),
    )


def _print_waiting(waiting: "Sequence[WaitingReport]") -> None:
    """One sentence per kind of job that waits."""
    for each in waiting:
        whose = f"gang {each.gang} of {each.job_set}" if each.gang else each.queue
        typer.echo()
        output_formats.print_line(
            f"{output_formats.format_count(each.jobs, 'job')} ({whose}): {each.sentence}"
        )
