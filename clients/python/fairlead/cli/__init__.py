"""The `fairlead` command.

Each module of this package adds its commands to the app; other packages add theirs through the
entry point group `fairlead.commands`, whose callables take the app. They are only looked up when
the first word is none of ours, and modules import what is heavy only when a command runs, so that
the command line starts quickly.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from fairlead.cli import (
    act,
    apply,
    cluster,
    completion,
    context,
    describe,
    doctor,
    export,
    frame,
    get,
    logs,
    queue,
    run,
    submit,
    token,
    watch,
)

MODULES: Final = (
    run,
    submit,
    watch,
    get,
    export,
    describe,
    logs,
    act,
    queue,
    apply,
    cluster,
    token,
    context,
    doctor,
    completion,
)
"""In the order of the help."""

GROUP: Final = "fairlead.commands"
ELSEWHERE: Final = {
    "simulate": "fairlead-scheduler[fast]",
    "token": "fairlead-standalone",
    "up": "fairlead-standalone",
}
"""Commands that come with other packages."""


def main() -> None:
    """The entry point of the `fairlead` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every terminal has every letter
            stream.reconfigure(errors="backslashreplace")
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    app = build()
    words = [word for word in arguments if not word.startswith("-")]
    completes = any(name.startswith("_FAIRLEAD_COMPLETE") for name in os.environ)
    if completes or not words or words[0] not in _own_names(app):
        add_plugins(app)
        if words and (package := missing(words[0], _own_names(app))):
            frame.say(f"fairlead: `{words[0]}` is not installed here; pip install '{package}'")
            return frame.EXIT_USAGE
    return frame.guard(lambda: app(args=list(arguments), prog_name="fairlead"))


def build() -> typer.Typer:
    """The app with the commands of this package."""
    app = typer.Typer(
        name="fairlead",
        help="Submit batch jobs to Fairlead and see what becomes of them.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(frame.options)
    for module in MODULES:
        module.register(app)
    return app


def add_plugins(app: typer.Typer) -> None:
    """Let other installed packages add commands; one that cannot is named and left out."""
    from importlib import metadata

    for point in metadata.entry_points(group=GROUP):
        try:
            register = point.load()
        except ImportError as error:
            frame.say(f"fairlead: the commands of {point.value} cannot be loaded: {error}")
            continue
        register(app)


def missing(word: str, names: set[str]) -> str | None:
    """The package that would bring this command, if it is one that is not there."""
    return None if word in names else ELSEWHERE.get(word)


def _own_names(app: typer.Typer) -> set[str]:
    commands = {command.name for command in app.registered_commands}
    groups = {group.name for group in app.registered_groups}
    return {name for name in commands | groups if isinstance(name, str)}
