"""`fairlead completion SHELL`: what makes a shell complete the words of this command."""

import os
from enum import StrEnum
from typing import Annotated

import typer

from fairlead.cli.support import command_base


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "completion",
        short_help="Print what makes a shell complete.",
        epilog=command_base.examples(
            'eval "$(fairlead completion bash)"     # in ~/.bashrc',
            'eval "$(fairlead completion zsh)"      # in ~/.zshrc, after compinit',
            "fairlead completion fish > ~/.config/fish/completions/fairlead.fish",
        ),
    )(completion)


def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print the script that makes a shell complete commands and options of fairlead."""
    os.environ["_FAIRLEAD_COMPLETE"] = f"source_{shell.value}"
    context.find_root().command.main(args=[], prog_name="fairlead")
