"""`fairlead context use` and `list`, `completion`: how commands are set up on this machine.

Contexts are the servers of the configuration file.
"""

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Select a server of the configuration file.", no_args_is_help=True)
    group.command("use", epilog=command_base.format_examples("fairlead context use work"))(use)
    group.command("list", epilog=command_base.format_examples("fairlead context list"))(list_all)
    app.add_typer(group, name="context")
    app.command(
        "completion",
        short_help="Print the completion script of a shell.",
        epilog=command_base.format_examples(
            'eval "$(fairlead completion bash)"     # in ~/.bashrc',
            'eval "$(fairlead completion zsh)"      # in ~/.zshrc, after compinit',
            "fairlead completion fish > ~/.config/fish/completions/fairlead.fish",
        ),
    )(completion)


def use(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The context to use from now on.")],
) -> None:
    """Make a context of the configuration file the current one."""
    from fairlead import discovery
    from fairlead.errors import NotConfigured

    file = discovery.config_file(os.environ)
    config = discovery.read_config(file)
    if config is None:
        command_base.fail(f"there is no {file}; docs/cli.md describes it")
    context = discovery.find_context(file, config, name)
    before = file.read_text()
    _write(file, replace_current(before, name))
    written = discovery.read_config(file)
    if written is None or written.current != name:
        _write(file, before)
        raise NotConfigured(f"{file} cannot be changed here: set `current: {name}` by hand")
    typer.echo(f"context {name}: {context.server}")
    for variable in ("FAIRLEAD_SERVER", "FAIRLEAD_DATA"):
        if os.environ.get(variable):
            command_base.print_message(
                f"note: {variable} is set, and overrides the configuration file"
            )


def list_all(output_format: output_formats.FormatOption = output_formats.Format.TABLE) -> None:
    """List the contexts; tokens are never shown."""
    from fairlead import discovery

    file = discovery.config_file(os.environ)
    config = discovery.read_config(file) or discovery.Config()
    found = [
        {"name": name, "current": name == config.current, "server": context.server}
        for name, context in sorted(config.contexts.items())
    ]
    columns: output_formats.Columns[dict[str, object]] = {
        "CURRENT": lambda each: "*" if each["current"] else "",
        "NAME": lambda each: each["name"],
        "SERVER": lambda each: each["server"],
    }
    none = f"No contexts in {file}."
    output_formats.print_list(found, output_format, columns, lambda each: str(each["name"]), none)


def replace_current(text: str, name: str) -> str:
    """The configuration with another `current`; comments and the rest stay as they are."""
    import msgspec

    line = f"current: {msgspec.json.encode(name).decode()}"
    found, count = re.subn(r"(?m)^current:.*$", lambda _: line, text, count=1)
    return found if count else f"{line}\n{text}"


def _write(file: Path, text: str) -> None:
    """Write the file atomically, readable by its owner only: it can contain tokens."""
    fresh = file.with_name(f"{file.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
    fresh.rename(file)


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print the script that makes a shell complete commands and options of fairlead."""
    os.environ["_FAIRLEAD_COMPLETE"] = f"source_{shell.value}"
    context.find_root().command.main(args=[], prog_name="fairlead")
