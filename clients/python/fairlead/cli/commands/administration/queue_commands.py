"""`fairlead queue create`, `get`, `list`, `update`, `delete`, `cordon` and `uncordon`."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.input import job_selection
from fairlead.cli.output import output_formats, quantity_texts
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead import Queue

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="A label; may be repeated.", metavar="KEY=VALUE"),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        help="The most that its jobs of a class can use: a fraction of the pool (0.5) or an amount"
        " (64Gi); may be repeated.",
        metavar="CLASS/RESOURCE=AMOUNT",
    ),
]


class Order(StrEnum):
    """The order of a queue's jobs and groups within a class value."""

    FIFO = "fifo"
    FAIR = "fair"


OrderOption = Annotated[
    Order | None,
    typer.Option(
        "--order",
        help="Order of its jobs and groups: fifo, by priority and submission; or fair, by weighted"
        " running time, least first.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Create, change and show queues.", no_args_is_help=True)
    group.command(
        "create",
        epilog=command_base.format_examples(
            "fairlead queue create vision",
            "fairlead queue create vision --weight 2 --limit default/cpu=0.5 --label team=a",
        ),
    )(create)
    group.command("get", epilog=command_base.format_examples("fairlead queue get vision"))(get)
    group.command("list", epilog=command_base.format_examples("fairlead queue list -o name"))(
        list_all
    )
    group.command(
        "update",
        epilog=command_base.format_examples(
            "fairlead queue update vision --weight 3",
            "fairlead queue update vision --order fair",
            "fairlead queue update vision --limit high/memory=64Gi --remove-label team",
        ),
    )(update)
    group.command("delete", epilog=command_base.format_examples("fairlead queue delete vision"))(
        delete
    )
    group.command(
        "cordon",
        epilog=command_base.format_examples("fairlead queue cordon vision --reason 'wrong image'"),
    )(cordon)
    group.command(
        "uncordon", epilog=command_base.format_examples("fairlead queue uncordon vision")
    )(uncordon)
    app.add_typer(group, name="queue")


def create(
    context: typer.Context,
    name: Name,
    weight: Annotated[
        float,
        typer.Option(help="Its weight: twice the weight gets twice the share.", metavar="NUMBER"),
    ] = 1.0,
    label: Labels = None,
    limit: Limits = None,
    order: OrderOption = None,
) -> None:
    """Create a queue."""
    from fairlead import Conflict, Queue

    wanted = Queue(
        name=name,
        weight=weight,
        labels=job_selection.parse_pairs(label or []),
        limits=_limits(limit or []),
        order=(order or Order.FIFO).value,
    )
    hint = f"`fairlead queue update {name}` changes it; `fairlead queue get {name}` shows it"
    with command_base.connect(context) as client, command_base.add_hint(hint, Conflict):
        made = client.create_queue(wanted)
    typer.echo(f"queue {made.name} created (weight {made.weight:g})")


def get(
    context: typer.Context,
    name: Name,
    output_format: output_formats.FormatOption = output_formats.Format.YAML,
) -> None:
    """Show one queue."""
    with command_base.connect(context) as client:
        found = client.queue(name)
    if output_format in (output_formats.Format.TABLE, output_formats.Format.NAME):
        show([found], output_format)
    else:
        output_formats.print_object(found, output_format)


def list_all(
    context: typer.Context, output_format: output_formats.FormatOption = output_formats.Format.TABLE
) -> None:
    """Show all queues."""
    with command_base.connect(context) as client:
        show(list(client.queues()), output_format)


def update(
    context: typer.Context,
    name: Name,
    weight: Annotated[float | None, typer.Option(help="Its new weight.", metavar="NUMBER")] = None,
    label: Labels = None,
    remove_label: Annotated[
        list[str] | None,
        typer.Option(help="A label to remove; may be repeated.", metavar="KEY"),
    ] = None,
    limit: Limits = None,
    remove_limits: Annotated[
        bool, typer.Option("--remove-limits", help="Remove all its limits first.")
    ] = False,
    order: OrderOption = None,
) -> None:
    """Change the given fields of a queue and keep all others."""
    import msgspec

    from fairlead.cli.output import differences

    with command_base.connect(context) as client:
        old = client.queue(name)
        limits = {} if remove_limits else {key: dict(value) for key, value in old.limits.items()}
        for class_name, amounts in _limits(limit or []).items():
            limits.setdefault(class_name, {}).update(amounts)
        labels = {**old.labels, **job_selection.parse_pairs(label or [])}
        for key in remove_label or ():
            labels.pop(key, None)
        new = msgspec.structs.replace(
            old,
            weight=old.weight if weight is None else weight,
            limits=limits,
            labels=labels,
            order=old.order if order is None else order.value,
        )
        if new != old:
            client.replace_queue(new)
    changed = differences.list_differences(old, new)
    output_formats.print_outcome(f"queue {name}", "changed" if changed else "unchanged", changed)


def delete(context: typer.Context, name: Name) -> None:
    """Remove a queue that has no live jobs."""
    from fairlead import Conflict

    hint = f"`fairlead cancel --queue {name}` cancels its jobs"
    with command_base.connect(context) as client, command_base.add_hint(hint, Conflict):
        pending = client.delete_queue(name).pending
    if pending:
        typer.echo(f"queue {name} deleted; pages and lists can show it until the log is available")
    else:
        typer.echo(f"queue {name} deleted")


def cordon(
    context: typer.Context,
    name: Name,
    reason: command_base.Reason = "",
) -> None:
    """Start no new runs of a queue; current runs continue."""
    with command_base.connect(context) as client:
        pending = client.cordon_queue(name, reason=reason).pending
    if pending:
        typer.echo(
            f"queue {name} will be cordoned when the log is available; its jobs can be started"
            " until then"
        )
    else:
        typer.echo(f"queue {name} cordoned: none of its jobs will be started")


def uncordon(context: typer.Context, name: Name) -> None:
    """Let a queue start new runs again."""
    with command_base.connect(context) as client:
        client.uncordon_queue(name)
    typer.echo(f"queue {name} uncordoned")


def show(queues: "list[Queue]", output_format: output_formats.Format) -> None:
    """Print queues."""
    columns: output_formats.Columns[Queue] = {
        "NAME": lambda queue: queue.name,
        "WEIGHT": lambda queue: f"{queue.weight:g}",
        "ORDER": lambda queue: queue.order,
        "CORDONED": lambda queue: quantity_texts.format_cordon(queue.cordoned, queue.reason),
        "LIMITS": lambda queue: quantity_texts.format_limits(queue.limits),
        "LABELS": lambda queue: queue.labels,
    }
    none = "No queues yet. `fairlead queue create NAME` creates one."
    spare = ("LIMITS", "LABELS", "ORDER")
    output_formats.print_list(queues, output_format, columns, lambda queue: queue.name, none, spare)


def _limits(texts: list[str]) -> dict[str, dict[str, str | float]]:
    """CLASS/RESOURCE=AMOUNT options as the API has them: a number is a fraction of the pool."""
    made: dict[str, dict[str, str | float]] = {}
    for place, text in job_selection.parse_pairs(texts).items():
        class_name, slash, resource = place.partition("/")
        if not (class_name and slash and resource):
            command_base.fail(f"{place!r} is not CLASS/RESOURCE, as in default/cpu=0.5")
        made.setdefault(class_name, {})[resource] = _amount(text)
    return made


def _amount(text: str) -> str | float:
    """A number between 0 and 1 is a fraction, anything else an amount."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if 0 <= number <= 1 else text
