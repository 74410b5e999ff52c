"""`fairlead secrets set`, `list`, `delete`: values for jobs, which are never displayed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead.models.secret_models import Secret

Queue = Annotated[str, typer.Option("--queue", "-q", help="The queue.", metavar="QUEUE")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the secret.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Manage the secrets of a queue.", no_args_is_help=True)
    group.command(
        "set",
        epilog=command_base.format_examples(
            "fairlead secrets set registry token -q vision",
            "fairlead secrets set registry token=@token.txt user=@user.txt -q vision",
            "printenv TOKEN | fairlead secrets set registry token=@- -q vision",
        ),
    )(set_values)
    group.command("list", epilog=command_base.format_examples("fairlead secrets list -q vision"))(
        list_all
    )
    group.command(
        "delete", epilog=command_base.format_examples("fairlead secrets delete registry -q vision")
    )(delete)
    app.add_typer(group, name="secrets")


def set_values(
    context: typer.Context,
    name: Name,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY[=@FILE]...",
            help="A key whose value is read from the terminal, or a file (- is standard input).",
        ),
    ],
    queue: Queue,
) -> None:
    """Create a secret, or replace all its values. Values are never taken from the command line."""
    given = dict(_value(text) for text in values)
    with command_base.connect(context) as client:
        client.set_secret(queue, name, given)
    typer.echo(f"secret {name} of queue {queue} stored")


def list_all(
    context: typer.Context,
    queue: Queue,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List the secrets of a queue, without their values."""
    columns: output_formats.Columns[Secret] = {
        "NAME": lambda secret: secret.name,
        "KEYS": lambda secret: secret.keys,
        "CHANGED": lambda secret: secret.changed_at or "",
        "BY": lambda secret: secret.changed_by,
    }
    with command_base.connect(context) as client:
        found = list(client.secrets(queue))
    output_formats.print_list(
        found, output_format, columns, lambda secret: secret.name, "No secrets.", ("BY",)
    )


def delete(context: typer.Context, name: Name, queue: Queue) -> None:
    """Delete a secret. Jobs that were submitted before still have its values."""
    from fairlead import NotFound

    hint = f"`fairlead secrets list -q {queue}` lists them"
    with command_base.connect(context) as client, command_base.add_hint(hint, NotFound):
        client.delete_secret(queue, name)
    typer.echo(f"secret {name} of queue {queue} deleted")


def _value(text: str) -> tuple[str, str]:
    key, has_value, source = text.partition("=")
    if not has_value:
        if not sys.stdin.isatty():
            return key, sys.stdin.read().removesuffix("\n")
        return key, str(typer.prompt(key, hide_input=True))
    if not source.startswith("@"):
        command_base.fail(
            f"write {key}=@FILE, or {key} alone to enter it: every user of this machine can"
            " read a command line"
        )
    try:
        if source == "@-":
            return key, sys.stdin.read().removesuffix("\n")
        return key, Path(source[1:]).read_text().removesuffix("\n")
    except OSError as error:
        command_base.fail(f"{source[1:]} cannot be read: {error.strerror}")
