"""The `fairlead` command.

`COMMANDS` names the modules of this package and the commands that each adds to the app; other
packages add theirs through the entry point group `fairlead.commands`, whose callables take the app.
Only the module of the given command is imported, and other packages are searched only for other
commands, so that the command line starts quickly. Modules import large packages when a command
runs.
"""

import importlib
import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import typer

from fairlead.cli.support import command_base

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "jobs.run_command": ("run",),
        "jobs.submit_command": ("submit", "convert"),
        "jobs.watch_command": ("watch",),
        "queries.get_command": ("get",),
        "queries.export_command": ("export",),
        "queries.describe_command": ("describe", "why"),
        "jobs.logs_command": ("logs",),
        "jobs.job_change_commands": ("cancel", "preempt", "reprioritize", "release", "resubmit"),
        "jobs.group_commands": ("group",),
        "jobs.array_commands": ("array",),
        "administration.queue_commands": ("queue",),
        "administration.apply_command": ("apply",),
        "administration.cluster_commands": ("cluster", "drain"),
        "administration.token_commands": ("token",),
        "administration.secret_commands": ("secrets",),
        "administration.webhook_commands": ("webhook",),
        "setup.doctor_command": ("doctor",),
        "setup.setup_commands": ("context", "completion"),
    }
)
"""The commands of each module, in the order of the help."""

VALUED: Final = ("--server", "--context")
"""Options before the command that take a value."""

GROUP: Final = "fairlead.commands"
PACKAGES: Final = {
    "repair": "fairlead-standalone",
    "simulate": "fairlead-scheduler[fast]",
    "story": "fairlead-standalone",
    "up": "fairlead-standalone",
}
"""The packages of the other commands."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line of this process and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every terminal can show every character
            stream.reconfigure(errors="backslashreplace")
    return invoke(arguments)


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    word = find_command(arguments)
    modules = find_modules(arguments, os.environ)
    app = build_app(COMMANDS if modules is None else modules)
    if modules is None:
        add_plugins(app)
        if word is not None and (package := find_missing_package(word, _own_names(app))):
            command_base.print_message(
                f"fairlead: `{word}` is not installed here; pip install '{package}'"
            )
            return command_base.EXIT_USAGE
    return command_base.run_guarded(lambda: app(args=list(arguments), prog_name="fairlead"))


def find_command(arguments: Sequence[str]) -> str | None:
    """The given command: the first word that is not an option or the value of one."""
    words = iter(arguments)
    for word in words:
        if word in VALUED:
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def find_modules(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The modules of this package that a command line needs; None: all, and plugins."""
    if any(name.startswith("_FAIRLEAD_COMPLETE") for name in environment):
        return None
    word = find_command(arguments)
    if word is None:
        return () if "--version" in arguments else None
    return next(((module,) for module, own in COMMANDS.items() if word in own), None)


def build_app(modules: Iterable[str] = COMMANDS) -> typer.Typer:
    """The app with the commands of these modules of this package."""
    app = typer.Typer(
        name="fairlead",
        help="Submit batch jobs to Fairlead and follow them.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(command_base.read_options)
    for name in modules:
        importlib.import_module(f"fairlead.cli.commands.{name}").register(app)
    return app


def add_plugins(app: typer.Typer) -> None:
    """Let other installed packages add commands; report and skip one that fails."""
    from importlib import metadata

    for point in metadata.entry_points(group=GROUP):
        try:
            register = point.load()
        except ImportError as error:
            command_base.print_message(
                f"fairlead: the commands of {point.value} cannot be loaded: {error}"
            )
            continue
        register(app)


def find_missing_package(word: str, names: set[str]) -> str | None:
    """The package of this command, if it is not installed."""
    return None if word in names else PACKAGES.get(word)


def _own_names(app: typer.Typer) -> set[str]:
    commands = {command.name for command in app.registered_commands}
    groups = {group.name for group in app.registered_groups}
    return {name for name in commands | groups if isinstance(name, str)}
