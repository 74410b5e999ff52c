"""What all commands share: the server to ask, exit codes, and errors as sentences with a hint."""

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

if TYPE_CHECKING:
    from fairlead import AsyncClient, Client, Retries

EXIT_JOBS_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_UNREACHABLE: Final = 4
EXIT_INTERRUPTED: Final = 130
FAULTS_SHOWN_MAX: Final = 20


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"fairlead {metadata.version('fairlead')}")
        raise typer.Exit


def options(
    context: typer.Context,
    server: Annotated[
        str,
        typer.Option(help="Address of the server, instead of the one found.", metavar="URL"),
    ] = "",
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and end.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options before the command."""
    context.obj = server or None


def connect(context: typer.Context) -> AbstractContextManager["Client"]:
    """A client of the server that the options, the environment or the files name."""
    from fairlead import Client

    return Client(context.find_root().obj, retries=retries())


def connect_async(context: typer.Context) -> AbstractAsyncContextManager["AsyncClient"]:
    """As `connect`."""
    from fairlead import AsyncClient

    return AsyncClient(context.find_root().obj, retries=retries())


def retries() -> "Retries":
    """Patient with a server that restarts, quick to say that there is none."""
    from fairlead import Retries

    return Retries(unmet_attempts_max=3)


def say(text: str) -> None:
    """A line for people, on stderr."""
    typer.echo(text, err=True)


def fail(text: str, code: int = EXIT_USAGE) -> NoReturn:
    """End the command with a message."""
    say(f"fairlead: {text}")
    raise typer.Exit(code)


def guard(command: Callable[[], object]) -> int:
    """Run a command; what it raises becomes a message and an exit code."""
    try:
        command()
    except SystemExit as end:
        return _code(end)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        text, code = message
        say(text)
        return code
    return 0


def _code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    say(str(end.code))
    return EXIT_USAGE


def explain(error: Exception) -> tuple[str, int] | None:
    """What to tell the user of this error, and the exit code; None for what is our mistake."""
    from fairlead import errors

    if not isinstance(error, errors.FairleadError):
        return None
    match error:
        case errors.Refused():
            return _refusal(error), EXIT_REFUSED
        case errors.NoServer() | errors.ServerUnreachable() | errors.UnexpectedAnswer():
            return f"fairlead: {error}{_hint(error)}", EXIT_UNREACHABLE
        case errors.WaitTimeout():
            return f"fairlead: {error}", EXIT_JOBS_FAILED
        case _:
            return f"fairlead: {error}", EXIT_USAGE


def _refusal(error: Exception) -> str:
    from fairlead import errors

    assert isinstance(error, errors.Refused)
    problem = error.problem
    lines = [f"fairlead: {problem.title}: {problem.detail}" if problem.detail else problem.title]
    faults = problem.errors
    lines += [f"  {fault.pointer}: {fault.detail}" for fault in faults[:FAULTS_SHOWN_MAX]]
    if len(faults) > FAULTS_SHOWN_MAX:
        lines.append(f"  ... and {len(faults) - FAULTS_SHOWN_MAX} more")
    if error.accepted:
        lines.append(f"  ({len(error.accepted)} jobs of earlier requests were accepted)")
    return "\n".join(lines) + _hint(error)


def _hint(error: Exception) -> str:
    from fairlead import errors

    match error:
        case errors.Unauthenticated():
            hint = "set FAIRLEAD_TOKEN; `fairlead token show` prints it on the server's machine"
        case errors.ServerUnreachable():
            hint = "is it running? `fairlead up` starts one on this machine"
        case errors.UnexpectedAnswer():
            hint = "does FAIRLEAD_SERVER name a Fairlead server?"
        case errors.Unavailable():
            hint = "the server is up but something it needs is away; try again in a moment"
        case _:
            return ""
    return f"\nhint: {hint}"


def is_terminal() -> bool:
    """Whether progress may be drawn on stderr."""
    return sys.stderr.isatty()
