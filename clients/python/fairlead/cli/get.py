"""`fairlead get`, `describe` and `why`: looking at jobs, job sets and queues."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli import frame, output, queue, watch

if TYPE_CHECKING:
    from fairlead import JobDetail, JobSet, JobView, Run

LimitOption = Annotated[int, typer.Option(min=1, help="At most so many.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="List jobs, job sets or queues.", no_args_is_help=True)
    group.command("jobs")(jobs)
    group.command("jobsets")(job_sets)
    group.command("queues")(queue.list_all)
    app.add_typer(group, name="get")
    one = typer.Typer(help="Show everything about one thing.", no_args_is_help=True)
    one.command("job")(describe)
    app.add_typer(one, name="describe")
    app.command("why", short_help="Say why a job waits or ended.")(why)


def jobs(
    context: typer.Context,
    queue: Annotated[str, typer.Option(help="Only of this queue.")] = "",
    jobset: Annotated[str, typer.Option(help="Only of this job set.")] = "",
    state: Annotated[
        list[str] | None, typer.Option(help="Only in this state; may be repeated.")
    ] = None,
    limit: LimitOption = 100,
    output_format: output.FormatOption = output.Format.TABLE,
) -> None:
    """List jobs."""
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    columns: output.Columns[JobView] = {
        "ID": lambda job: job.id,
        "QUEUE": lambda job: job.queue,
        "JOB SET": lambda job: job.job_set,
        "CLIENT ID": lambda job: job.client_id,
        "STATE": lambda job: f"{job.state} ({job.stopping})" if job.stopping else job.state,
        "AGE": lambda job: output.age(job.submitted, now),
        "REASON": lambda job: job.reason or job.message or job.waiting_for,
    }
    with frame.connect(context) as client:
        found = client.iter_jobs(
            queue=queue or None,
            job_set=jobset or None,
            states=[text.upper() for text in state or []],
        )
        shown = output.limited(found, limit)
    output.items(shown, output_format, columns, lambda job: job.id, "No such jobs.")


def job_sets(
    context: typer.Context,
    queue: Annotated[str, typer.Option(help="Only of this queue.")] = "",
    active: Annotated[
        bool, typer.Option("--active", help="Only those with jobs that have not ended.")
    ] = False,
    limit: LimitOption = 100,
    output_format: output.FormatOption = output.Format.TABLE,
) -> None:
    """List job sets with their counts."""
    columns: output.Columns[JobSet] = {
        "QUEUE": lambda found: found.queue,
        "JOB SET": lambda found: found.job_set,
        "JOBS": lambda found: found.jobs,
        "ENDED": lambda found: found.ended,
        "STATES": lambda found: ", ".join(
            f"{found.states[state]} {state}" for state in watch.ordered(found)
        ),
    }
    with frame.connect(context) as client:
        sets = client.job_sets(queue=queue or None, active=True if active else None)
        shown = output.limited(sets, limit)
    none = "No job sets yet. `fairlead run -- echo hello` runs a first job."
    output.items(
        shown, output_format, columns, lambda found: f"{found.queue}/{found.job_set}", none
    )


def describe(
    context: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    spec: Annotated[bool, typer.Option("--spec", help="With what was submitted.")] = False,
    output_format: output.FormatOption = output.Format.TABLE,
) -> None:
    """Show all about a job: its state, why, and every run."""
    with frame.connect(context) as client:
        detail = client.job(job_id, spec=spec)
    match output_format:
        case output.Format.JSON | output.Format.YAML:
            output.thing(detail, output_format)
        case output.Format.NAME:
            typer.echo(detail.id)
        case output.Format.TABLE:
            _describe(detail)


def why(
    context: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
) -> None:
    """Say why a job waits, or how it came to be where it is."""
    with frame.connect(context) as client:
        detail = client.job(job_id)
    typer.echo(explanation(detail))
    if detail.why is not None:
        for reason, nodes in (detail.why.nodes or {}).items():
            typer.echo(f"  {nodes} nodes: {reason}")


def explanation(detail: "JobDetail") -> str:
    """The state and why, in one line."""
    if detail.why is not None:
        return f"{detail.state}: {detail.why.sentence}"
    said = " ".join(text for text in (detail.message, detail.reason) if text)
    if not said and detail.state == "RUNNING" and detail.node:
        said = f"on {detail.node}"
    return f"{detail.state}: {said}" if said else detail.state


def _describe(detail: "JobDetail") -> None:
    output.fields(
        [
            ("Id", detail.id),
            ("Client id", detail.client_id),
            ("Queue", detail.queue),
            ("Job set", detail.job_set),
            ("State", detail.state),
            ("Stopping", detail.stopping),
            ("Why", explanation(detail)),
            ("Class", detail.priority_class),
            ("Priority", detail.priority),
            ("Submitted", detail.submitted),
            ("Started", detail.started),
            ("Ended", detail.ended),
            ("Exit code", detail.exit_code),
            ("After", detail.after),
            ("Start after", detail.start_after),
            ("Gang", detail.gang),
            ("Retry", detail.retry),
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
            "STARTED": lambda run: run.running,
            "ENDED": lambda run: run.ended,
            "EXIT": lambda run: run.exit_code,
            "REASON": lambda run: run.reason or run.message,
        }
        typer.echo()
        output.items(detail.runs, output.Format.TABLE, columns, lambda run: str(run.run), "")
    if detail.spec is not None:
        typer.echo("\nSpec:")
        output.thing(detail.spec, output.Format.YAML)
