"""`fairlead describe queue` and `describe pool`: who holds how much, and why jobs wait."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.support import command_base, output_formats

if TYPE_CHECKING:
    from fairlead import QueueShare, Round, Waiting

QueueName = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]
PoolName = Annotated[str, typer.Argument(metavar="NAME", help="The pool's name.")]


def add(group: typer.Typer) -> None:
    """Add the commands of this module to `describe`."""
    group.command("queue", epilog=command_base.examples("fairlead describe queue vision"))(queue)
    group.command("pool", epilog=command_base.examples("fairlead describe pool default"))(pool)


def queue(
    context: typer.Context,
    name: QueueName,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Show what a queue holds and may hold, and why its jobs wait."""
    from fairlead import Filter

    with command_base.connect(context) as client:
        report = client.queue_report(name)
        if output_format is not output_formats.Format.TABLE:
            _other(report, report.queue, output_format)
            return
        groups = client.count_jobs(["state"], Filter(queue=name))
    output_formats.fields(
        [
            ("Queue", report.queue),
            ("Weight", None if report.weight is None else f"{report.weight:g}"),
            ("Cordoned", (report.reason or True) if report.cordoned else None),
            ("Limits", _limits(report.limits)),
            ("Jobs", [f"{each.jobs:,} {each.group['state']}" for each in groups]),
            ("Waiting for", report.reasons),
        ]
    )
    _shares(report.shares, of_pool=False)
    _waiting(report.waiting)


def pool(
    context: typer.Context,
    name: PoolName,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Show a pool's last round, what its queues hold, and why jobs wait."""
    with command_base.connect(context) as client:
        report = client.pool_report(name)
    if output_format is not output_formats.Format.TABLE:
        _other(report, report.pool, output_format)
        return
    output_formats.fields(
        [("Pool", report.pool), *_round(report.round), ("Waiting for", report.reasons)]
    )
    _shares(report.shares, of_pool=True)
    _waiting(report.waiting)


def _other(report: object, name: str, output_format: output_formats.Format) -> None:
    if output_format is output_formats.Format.NAME:
        typer.echo(name)
    else:
        output_formats.thing(report, output_format)


def _round(last: "Round | None") -> list[tuple[str, object]]:
    if last is None:
        return [("Last round", "none yet")]
    return [
        ("Last round", last.time),
        ("Outcome", last.error or last.stopped_by or last.outcome),
        ("Nodes", last.nodes),
        ("Started", last.scheduled),
        ("Stopped", last.preempted),
        ("Left waiting", last.waiting),
        ("Took", f"{sum(last.steps_ms.values()):.0f} ms"),
    ]


def _shares(shares: "Sequence[QueueShare]", *, of_pool: bool) -> None:
    if not shares:
        return
    columns: output_formats.Columns[QueueShare] = {
        "QUEUE" if of_pool else "POOL": lambda each: each.queue if of_pool else each.pool,
        "WEIGHT": lambda each: f"{each.weight:g}",
        "HOLDS": lambda each: f"{each.actual_share:.1%}",
        "FAIR": lambda each: f"{each.fair_share:.1%}",
        "WANTS": lambda each: f"{each.demand_share:.1%}",
        "RUNNING": lambda each: each.running,
        "QUEUED": lambda each: each.queued,
        "FIRST WAITING": lambda each: each.first_waiting,
    }
    typer.echo()
    output_formats.items(
        shares,
        output_formats.Format.TABLE,
        columns,
        lambda each: each.queue,
        "",
        ("FIRST WAITING", "WANTS", "WEIGHT"),
    )


def _waiting(waiting: "Sequence[Waiting]") -> None:
    """One sentence per kind of job that waits."""
    for each in waiting:
        whose = f"gang {each.gang} of {each.job_set}" if each.gang else each.queue
        typer.echo(f"\n{output_formats.many(each.jobs, 'job')} ({whose}): {each.sentence}")


def _limits(limits: Mapping[str, Mapping[str, object]]) -> list[str]:
    return [
        f"{class_name}/{resource}={amount}"
        for class_name, amounts in limits.items()
        for resource, amount in amounts.items()
    ]
