"""`fairlead get`: lists of jobs, job sets, groups, arrays, tasks, queues, clusters and nodes."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.commands.administration import queue_commands
from fairlead.cli.commands.jobs import array_commands, group_commands, watch_command
from fairlead.cli.input import job_selection
from fairlead.cli.output import output_formats, quantity_texts
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from datetime import datetime

    from fairlead import Client, Cluster, Filter, JobSet, JobView, Node


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        help="List jobs, job sets, groups, arrays, tasks, queues, clusters or nodes.",
        no_args_is_help=True,
    )
    group.command(
        "jobs",
        epilog=command_base.format_examples(
            "fairlead get jobs --queue default --state running,pending",
            "fairlead get jobs --label team=vision --sort=-priority",
            "fairlead get jobs --jobset nightly --state FAILED -o name",
        ),
    )(jobs)
    group.command(
        "jobsets",
        epilog=command_base.format_examples(
            "fairlead get jobsets --active", "fairlead get jobsets -q nightly"
        ),
    )(job_sets)
    group.command(
        "groups",
        short_help="List groups with their roles.",
        epilog=command_base.format_examples(
            "fairlead get groups --queue default", "fairlead get groups --state RUNNING -o name"
        ),
    )(group_commands.list_all)
    group.command(
        "arrays",
        short_help="List arrays with their tasks by state.",
        epilog=command_base.format_examples("fairlead get arrays --active"),
    )(array_commands.list_all)
    group.command(
        "tasks",
        short_help="List the tasks of an array by index.",
        epilog=command_base.format_examples(
            "fairlead get tasks scan-7 --state FAILED",
            "fairlead get tasks scan-7 --limit 100000 -o json",
        ),
    )(array_commands.list_tasks)
    group.command(
        "queues",
        epilog=command_base.format_examples("fairlead get queues", "fairlead get queues -o yaml"),
    )(queue_commands.list_all)
    group.command(
        "clusters",
        short_help="List clusters with their capacity and usage.",
        epilog=command_base.format_examples("fairlead get clusters"),
    )(clusters)
    group.command(
        "nodes",
        short_help="List nodes with their pool, capacity and usage.",
        epilog=command_base.format_examples(
            "fairlead get nodes", "fairlead get nodes --cluster local"
        ),
    )(nodes)
    app.add_typer(group, name="get")


@job_selection.with_filter_options
def jobs(
    context: typer.Context,
    chosen: "Filter",
    category: Annotated[
        str,
        typer.Option(help="Only failed with this category: oom, exit-code, ...", metavar="NAME"),
    ] = "",
    annotation: Annotated[
        list[str] | None,
        typer.Option(help="Only with this annotation; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    submitted_after: Annotated[
        str, typer.Option(help="Only submitted later, as 2026-01-31T12:00:00Z.", metavar="TIME")
    ] = "",
    text: Annotated[
        str,
        typer.Option("-q", help="Only with this in their client id or job set.", metavar="TEXT"),
    ] = "",
    sort: Annotated[
        str,
        typer.Option(
            help="submitted, changed, started, ended, priority; with - the greatest first.",
            metavar="FIELD",
        ),
    ] = "",
    limit: output_formats.LimitOption = 100,
    output_format: output_formats.WideFormatOption = output_formats.WideFormat.TABLE,
) -> None:
    """List jobs, newest first."""
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    columns: output_formats.Columns[JobView] = {
        "ID": lambda job: job.id,
        "QUEUE": lambda job: job.queue,
        "JOB SET": lambda job: job.job_set,
        "CLIENT ID": lambda job: job.client_id,
        "STATE": lambda job: f"{job.state} ({job.stopping})" if job.stopping else job.state,
        "AGE": lambda job: output_formats.format_age(job.submitted, now),
        "REASON": lambda job: job.reason or job.message or job.waiting_for,
    }
    is_wide = output_format is output_formats.WideFormat.WIDE
    if is_wide:
        columns = {**columns, **_WIDE}
    with command_base.connect(context) as client:
        found = client.iter_jobs(
            chosen,
            category=category or None,
            annotations=job_selection.parse_pairs(annotation or []),
            submitted_after=submitted_after or None,
            q=text or None,
            sort=sort or None,
        )
        limited = output_formats.take_first(found, limit)
    spare = ("QUEUE", "JOB SET", "REASON", "AGE")
    output_formats.print_list(
        limited,
        output_format.plain,
        columns,
        lambda job: job.id,
        "No such jobs.",
        spare,
        is_wide=is_wide,
    )


_WIDE: "output_formats.Columns[JobView]" = {
    "EXIT": lambda job: job.exit_code,
    "CATEGORY": lambda job: job.category,
    "CLUSTER": lambda job: job.cluster,
    "NODE": lambda job: job.node,
    "RUN": lambda job: job.run or None,
    "CLASS": lambda job: job.priority_class,
    "PRIORITY": lambda job: job.priority,
    "SUBMITTED": lambda job: job.submitted,
    "STARTED": lambda job: job.started,
    "ENDED": lambda job: job.ended,
    "RAN FOR": lambda job: (
        output_formats.format_age(job.started, _time(job.ended)) if job.ended else None
    ),
}
"""What `-o wide` adds."""


def _time(text: str) -> "datetime":
    from datetime import datetime

    return datetime.fromisoformat(text)


def job_sets(
    context: typer.Context,
    queue: job_selection.OnlyQueue = "",
    active: Annotated[
        bool, typer.Option("--active", help="Only those with jobs that have not ended.")
    ] = False,
    text: Annotated[
        str, typer.Option("-q", help="Only with this in their name.", metavar="TEXT")
    ] = "",
    limit: output_formats.LimitOption = 100,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List job sets with their counts, newest first."""
    columns: output_formats.Columns[JobSet] = {
        "QUEUE": lambda found: found.queue,
        "JOB SET": lambda found: found.job_set,
        "JOBS": lambda found: found.jobs,
        "ENDED": lambda found: found.ended,
        "STATES": lambda found: watch_command.describe_counts(found),
    }
    with command_base.connect(context) as client:
        sets = client.job_sets(queue=queue or None, active=True if active else None, q=text or None)
        limited = output_formats.take_first(sets, limit)
    none = "No such job sets. `fairlead run -- echo hello` runs a first job."
    output_formats.print_list(
        limited,
        output_format,
        columns,
        lambda found: f"{found.queue}/{found.job_set}",
        none,
        ("QUEUE",),
    )


def clusters(
    context: typer.Context, output_format: output_formats.FormatOption = output_formats.Format.TABLE
) -> None:
    """List clusters: their capacity, the requested part of it, whether they report."""
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    columns: output_formats.Columns[Cluster] = {
        "NAME": lambda found: found.executor,
        "BACKEND": lambda found: found.backend,
        "NODES": lambda found: found.nodes,
        "RUNS": lambda found: found.runs,
        "USED": lambda found: quantity_texts.format_usage(found.used, found.allocatable),
        "HEARTBEAT": lambda found: _ago(output_formats.format_age(found.last_heartbeat, now)),
        "CORDONED": lambda found: quantity_texts.format_cordon(found.cordoned, found.reason),
    }
    with command_base.connect(context) as client:
        found = list(client.clusters())
    none = "No cluster has reported yet."
    output_formats.print_list(
        found, output_format, columns, lambda each: each.executor, none, ("BACKEND", "NODES")
    )


def nodes(
    context: typer.Context,
    cluster: Annotated[str, typer.Option(help="Only of this cluster.", metavar="NAME")] = "",
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List nodes: their pool, the requested part of their capacity, whether they accept jobs."""
    columns: output_formats.Columns[tuple[str, Node]] = {
        "NAME": lambda found: found[1].node,
        "CLUSTER": lambda found: found[0],
        "POOL": lambda found: found[1].pool,
        "RUNS": lambda found: found[1].runs,
        "USED": lambda found: quantity_texts.format_usage(found[1].used, found[1].allocatable),
        "CORDONED": lambda found: quantity_texts.format_node_cordon(found[1]),
    }
    with command_base.connect(context) as client:
        found = _nodes(client, cluster)
    if output_format in (output_formats.Format.JSON, output_formats.Format.YAML):
        output_formats.print_object(
            [quantity_texts.make_node_fields(name, node) for name, node in found], output_format
        )
        return
    output_formats.print_list(
        found,
        output_format,
        columns,
        lambda each: f"{each[0]}/{each[1].node}",
        "No nodes.",
        ("CLUSTER", "POOL"),
    )


def _nodes(client: "Client", cluster: str) -> "list[tuple[str, Node]]":
    names = [cluster] if cluster else [found.executor for found in client.clusters()]
    return [(name, node) for name in names for node in client.nodes(name)]


def _ago(age: str) -> str:
    return f"{age} ago" if age else "never"
