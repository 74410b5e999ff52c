"""`fairlead queue create|get|list`."""

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli import frame, output

if TYPE_CHECKING:
    from fairlead import Queue


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Make queues and look at them.", no_args_is_help=True)
    group.command("create")(create)
    group.command("get")(get)
    group.command("list")(list_all)
    app.add_typer(group, name="queue")


def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")],
    weight: Annotated[
        float, typer.Option(help="Its share, relative to those of other queues.")
    ] = 1.0,
    label: Annotated[
        list[str] | None, typer.Option(help="A label KEY=VALUE; may be repeated.")
    ] = None,
) -> None:
    """Make a queue."""
    labels = pairs(label or [])
    with frame.connect(context) as client:
        made = client.create_queue(name, weight=weight, labels=labels)
    typer.echo(f"queue {made.name} created (weight {made.weight:g})")


def get(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the queue.")],
    output_format: output.FormatOption = output.Format.YAML,
) -> None:
    """Show one queue."""
    with frame.connect(context) as client:
        found = client.queue(name)
    if output_format in (output.Format.TABLE, output.Format.NAME):
        show([found], output_format)
    else:
        output.thing(found, output_format)


def list_all(
    context: typer.Context, output_format: output.FormatOption = output.Format.TABLE
) -> None:
    """Show all queues."""
    with frame.connect(context) as client:
        show(list(client.queues()), output_format)


def show(queues: "list[Queue]", output_format: output.Format) -> None:
    """Print queues."""
    columns: output.Columns[Queue] = {
        "NAME": lambda queue: queue.name,
        "WEIGHT": lambda queue: f"{queue.weight:g}",
        "CORDONED": lambda queue: queue.cordoned,
        "LABELS": lambda queue: queue.labels,
    }
    none = "No queues yet. `fairlead queue create NAME` makes one."
    output.items(queues, output_format, columns, lambda queue: queue.name, none)


def pairs(texts: list[str]) -> dict[str, str]:
    """KEY=VALUE options as a mapping."""
    made = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            frame.fail(f"{text!r} is not KEY=VALUE")
        made[key] = value
    return made
