"""What all commands share: the server, options, exit codes, and error messages with a hint."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from fairlead.cli.output import output_formats

if TYPE_CHECKING:
    from pathlib import Path

    from fairlead import AsyncClient, Client, Retries
    from fairlead.discovery import Server

EXIT_JOBS_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_UNREACHABLE: Final = 4
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
"""The reader of stdout closed it; the exit code of shells for a program ended by SIGPIPE."""

FIELD_ERRORS_LISTED_MAX: Final = 20

Reason = Annotated[str, typer.Option(help="The reason, for later reference.", metavar="TEXT")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class GlobalOptions:
    """The options before the command, which select the server."""

    def __init__(self, server: str | None, context: str | None) -> None:
        self.server = server
        self.context = context

    def read_cluster(self) -> dict[str, object]:
        """The current state of the server, as JSON values, for commands of other packages."""
        from fairlead import Client
        from fairlead.cli.support import cluster_export

        found = self.find()
        with Client(found, retries=choose_retries(found)) as client:
            return cluster_export.read_cluster(client)

    def find(self) -> "Server":
        """The server that the options, the environment or the files select."""
        from fairlead import discovery

        return discovery.find_server(os.environ, server=self.server, context=self.context)


def _version(wanted: bool) -> None:
    if wanted:
        from fairlead.transport import connection_settings

        typer.echo(f"fairlead {connection_settings.VERSION}")
        raise typer.Exit


def read_options(
    context: typer.Context,
    server: Annotated[
        str,
        typer.Option(help="Address of the server, instead of the configured one.", metavar="URL"),
    ] = "",
    context_name: Annotated[
        str,
        typer.Option(
            "--context", help="A server of the configuration file, by name.", metavar="NAME"
        ),
    ] = "",
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and end.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options before the command."""
    if server and context_name:
        fail("give either --server or --context, not both")
    context.obj = GlobalOptions(server or None, context_name or None)


def find_server(context: typer.Context, data: "Path | None" = None) -> "Server":
    """The server that the options, the environment or the files select, or of the folder `data`."""
    from fairlead import discovery

    if data is not None:
        return discovery.find_in_data_folder(data)
    selected = context.find_root().obj
    assert isinstance(selected, GlobalOptions)
    return selected.find()


def connect(context: typer.Context, data: "Path | None" = None) -> AbstractContextManager["Client"]:
    """A client of the server that `find_server` finds."""
    from fairlead import Client

    found = find_server(context, data)
    client = Client(found, retries=choose_retries(found))
    _expect_recent(client)
    return client


def connect_async(context: typer.Context) -> AbstractAsyncContextManager["AsyncClient"]:
    """As `connect`, for asyncio."""
    from fairlead import AsyncClient

    found = find_server(context)
    client = AsyncClient(found, retries=choose_retries(found))
    _expect_recent(client)
    return client


def _expect_recent(client: "Client | AsyncClient") -> None:
    """Let reads include a recent submission of another `fairlead` of this user."""
    from fairlead.cli.support import recent_job_set

    known = recent_job_set.load(client.server.url)
    if known is not None and known.is_fresh:
        client.expect(known.queue, known.job_set, known.position)


def choose_retries(server: "Server") -> "Retries":
    """More first attempts for a supervised server, which is possibly being restarted."""
    from fairlead import Retries

    return Retries(first_attempts_max=7 if server.is_supervised else 3)


def format_examples(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def print_message(text: str) -> None:
    """Print a line on stderr."""
    typer.echo(output_formats.replace_control_characters(text), err=True)


def print_progress(done: int, total: int) -> None:
    """Print the progress on a terminal, on one line that is overwritten."""
    if is_terminal():
        typer.echo(f"\r{done:,} of {total:,}", err=True, nl=done >= total)


def fail(text: str, code: int = EXIT_USAGE) -> NoReturn:
    """End the command with a message."""
    print_message(f"fairlead: {text}")
    raise typer.Exit(code)


def confirm(question: str, refusal: str, yes: bool) -> None:
    """Ask the user at the terminal; without a terminal, `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"{refusal}; add --yes to do so")
    if not typer.confirm(question, err=True):
        raise typer.Exit(EXIT_USAGE)


@contextmanager
def add_hint(text: str, *kinds: type[Exception]) -> Iterator[None]:
    """Add this hint to an error of one of these kinds."""
    try:
        yield
    except kinds as error:
        error.add_note(text)
        raise


def run_guarded(command: Callable[[], object]) -> int:
    """Run a command; what it raises becomes a message and an exit code."""
    try:
        command()
    except SystemExit as end:
        return _exit_code(end)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:  # errors of reading are `FairleadError`: this is stdout
        print_message(f"fairlead: the output cannot be written: {error.strerror or error}")
        discard_output()
        return EXIT_USAGE
    except Exception as error:
        message = explain_error(error)
        if message is None:
            raise
        text, code = message
        print_message(text)
        return code
    return 0


def _exit_code(end: SystemExit) -> int:
    if isinstance(end.__context__, BrokenPipeError):
        return discard_output()
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print_message(str(end.code))
    return EXIT_USAGE


def discard_output() -> int:
    """Discard further output after its reader has closed it; returns the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return EXIT_PIPE


def explain_error(error: Exception) -> tuple[str, int] | None:
    """The message and exit code of this error; None for a defect of this program."""
    from fairlead import errors
    from fairlead.cli.support import error_hints

    if not isinstance(error, errors.FairleadError):
        return None
    text = f"fairlead: {error}"
    code = EXIT_USAGE
    match error:
        case errors.RequestRefused():
            text, code = _describe_refusal(error), EXIT_REFUSED
        case errors.NoServer() | errors.ServerUnreachable() | errors.UnexpectedResponse():
            code = EXIT_UNREACHABLE
        case errors.WaitTimeout():
            code = EXIT_JOBS_FAILED
        case _:
            code = EXIT_USAGE
    hint = error_hints.find_hint(error)
    return (f"{text}\nhint: {hint}" if hint else text), code


def _describe_refusal(error: Exception) -> str:
    from fairlead import errors

    assert isinstance(error, errors.RequestRefused)
    problem = error.problem
    texts = [text for text in (problem.title, problem.detail) if text]
    lines = [f"fairlead: {': '.join(texts) or f'HTTP status {problem.status}'}"]
    errors_found = problem.errors
    lines += [
        f"  {error.pointer}: {error.detail}" for error in errors_found[:FIELD_ERRORS_LISTED_MAX]
    ]
    if len(errors_found) > FIELD_ERRORS_LISTED_MAX:
        lines.append(f"  ... and {len(errors_found) - FIELD_ERRORS_LISTED_MAX} more")
    if error.accepted:
        lines.append(f"  ({len(error.accepted)} jobs of earlier requests were accepted)")
    return "\n".join(lines)


def is_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


def add_options(
    command: Callable[..., None], make: Callable[..., object], argument: str
) -> Callable[..., None]:
    """The command with the options that are the parameters of `make`; it gets what `make` returns
    for them as `argument`."""
    options = inspect.signature(make).parameters
    own = inspect.signature(command)
    parameters = [each for each in own.parameters.values() if each.name != argument]

    def with_options(**given: Any) -> None:  # whatever the options are
        made = make(**{name: given.pop(name) for name in options})
        command(**{argument: made}, **given)

    merged = [*parameters, *options.values()]
    with_options.__name__ = command.__name__
    with_options.__doc__ = command.__doc__
    with_options.__annotations__ = {each.name: each.annotation for each in merged}
    with_options.__dict__["__signature__"] = own.replace(
        parameters=[each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in merged]
    )
    return with_options
