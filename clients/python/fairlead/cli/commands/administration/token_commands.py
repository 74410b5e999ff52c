"""`fairlead token create`, `list`, `revoke`, `show`, `link`: API tokens of people and programs."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead import Token

DATA_HELP: Final = "Data folder of a `fairlead up` on this machine, instead of the default one."
Data = Annotated[Path | None, typer.Option(help=DATA_HELP, metavar="FOLDER")]
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Create and revoke API tokens.", no_args_is_help=True)
    group.command(
        "create",
        epilog=command_base.format_examples(
            "fairlead token create nightly-bot --role submitter --queue vision --expires 90d",
            "fairlead token create dashboard --role viewer -o json",
        ),
    )(create)
    group.command(
        "list",
        epilog=command_base.format_examples(
            "fairlead token list", "fairlead token list --all -o json"
        ),
    )(list_all)
    group.command("revoke", epilog=command_base.format_examples("fairlead token revoke 7"))(revoke)
    group.command(
        "show",
        short_help="Print the token that commands use here.",
        epilog=command_base.format_examples("export FAIRLEAD_TOKEN=$(fairlead token show)"),
    )(show)
    group.command("link", epilog=command_base.format_examples("fairlead token link"))(link)
    app.add_typer(group, name="token")


def create(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name of the user or program that it is for.")
    ],
    role: Annotated[
        list[str],
        typer.Option(help="admin, operator, submitter or viewer; may be repeated.", metavar="ROLE"),
    ],
    queue: Annotated[
        list[str] | None,
        typer.Option(help="Only for this queue; may be repeated.", metavar="NAME"),
    ] = None,
    expires: Annotated[
        str, typer.Option(help="Its lifetime, for example 12h or 90d.", metavar="TIME")
    ] = "",
    label: Annotated[str, typer.Option(help="A note about its purpose.", metavar="TEXT")] = "",
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Create an API token. It is printed now and cannot be printed again."""
    expires_in_s = _seconds(expires) if expires else None
    with command_base.connect(context) as client:
        made = client.create_token(
            name, role, queues=queue or None, expires_in_s=expires_in_s, label=label
        )
    if output_format in (output_formats.Format.JSON, output_formats.Format.YAML):
        output_formats.print_object(made, output_format)
        return
    until = f", valid until {made.expires_at}" if made.expires_at else ""
    command_base.print_message(
        f"token {made.id} of {made.name} ({', '.join(made.roles)}){until}; store it:"
    )
    typer.echo(made.token)


def list_all(
    context: typer.Context,
    everybody: Annotated[
        bool, typer.Option("--all", help="The tokens of all users; for admins.")
    ] = False,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """List your tokens and sessions, without their secrets."""
    columns: output_formats.Columns[Token] = {
        "ID": lambda token: token.id,
        "NAME": lambda token: token.name,
        "KIND": lambda token: token.kind,
        "ROLES": lambda token: token.roles,
        "QUEUES": lambda token: "all" if token.queues is None else token.queues,
        "EXPIRES": lambda token: token.expires_at or "never",
        "LABEL": lambda token: token.label,
    }
    with command_base.connect(context) as client:
        found = list(client.tokens(everybody=everybody))
    spare = ("KIND", "LABEL", "QUEUES")
    output_formats.print_list(
        found, output_format, columns, lambda token: token.id, "No tokens.", spare
    )


def revoke(
    context: typer.Context,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `token list` prints.")],
) -> None:
    """Revoke a token: it is no longer accepted."""
    from fairlead import NotFound

    hint = "`fairlead token list` lists them (admins: `--all`)"
    with command_base.connect(context) as client, command_base.add_hint(hint, NotFound):
        client.revoke_token(token_id)
    typer.echo(f"token {token_id} revoked")


def show(context: typer.Context, data: Data = None) -> None:
    """Print the token that commands use here, for FAIRLEAD_TOKEN or an Authorization header."""
    from fairlead import NoServer, discovery

    if data is not None:
        typer.echo(discovery.read_token(data))
        return
    try:
        found = command_base.find_server(context)
    except NoServer:
        typer.echo(discovery.read_token(discovery.data_folder(os.environ)))
        return
    if found.token is None:
        command_base.fail(f"no token is known for {found.url} ({found.source})")
    typer.echo(found.token)


def link(context: typer.Context, data: Data = None) -> None:
    """Print an address that signs a browser in as you; it works one time."""
    with command_base.connect(context, data) as client:
        made = client.sign_in_link()
        typer.echo(f"{client.server.url}{made.path}")


def _seconds(text: str) -> int:
    """`90d` in seconds."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if found is None:
        command_base.fail(f"{text!r} is not a valid duration; write it like 12h, 90d or 8w")
    return int(found[1]) * _SECONDS[found[2]]
