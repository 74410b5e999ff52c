"""`fairlead doctor`: checks the server and the connection to it, with hints."""

import contextlib
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli.output import output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from fairlead import Client
    from fairlead.calls.exchange_types import Reply
    from fairlead.cli.support.doctor_checks import Finding
    from fairlead.discovery import Server

_UNREACHABLE_HINT: Final = (
    "check that it runs (`fairlead up` starts one on this machine), and the network"
)
_TOKEN_HINT: Final = (
    "set FAIRLEAD_TOKEN, or the token of a context; `fairlead token show` prints the first one on"
    " the machine of the server"
)

DEEP_CHECKS: Final = "fairlead.doctor"
"""Group of entry points: `check(data: Path | None) -> list[Finding]`, called for `--deep`."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "doctor",
        short_help="Check the server, its services and the connection to it.",
        epilog=command_base.format_examples(
            "fairlead doctor", "fairlead doctor -o json", "fairlead doctor --deep"
        ),
    )(doctor)


def doctor(
    context: typer.Context,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also check the scheduler's state, where the log and database are."
        ),
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="With --deep: the data folder of `fairlead up`.")
    ] = None,
    output_format: output_formats.FormatOption = output_formats.Format.TABLE,
) -> None:
    """Check the server, its services and the connection from this machine to it.

    It checks which server is used and whether it answers, versions, clocks, credentials, the lag of
    the server's view, whether clusters report, and which records of the log could not be decoded.
    Ends with 0 if there is no problem, 4 if the server cannot be used, 3 if it refuses the token,
    and 1 for any other problem.

    With --deep it also loads the scheduler's checkpoint, folds the log up to its end, and checks
    every invariant of the result. This reads the log and the database directly: those in the data
    folder of `fairlead up`, or, where FAIRLEAD_DATABASE_URL is set, those in the services'
    settings. It changes nothing and can be used at any time.
    """
    if data is not None and not deep:
        command_base.fail("--data is only used with --deep; add --deep")
    found = _check_all(context)
    if deep:
        from importlib import metadata

        found += check_deeply(metadata.entry_points(group=DEEP_CHECKS), data)
    if output_format in (output_formats.Format.JSON, output_formats.Format.YAML):
        output_formats.print_object(found, output_format)
    else:
        for finding in found:
            _show(finding)
    raise typer.Exit(max((finding.code for finding in found), default=0))


def check_deeply(points: "Iterable[EntryPoint]", data: Path | None) -> "list[Finding]":
    """What the checks of other installed packages find, or that no package checks it."""
    from fairlead.cli.support import doctor_checks

    found: list[Finding] = [finding for point in points for finding in point.load()(data)]
    return found or [
        doctor_checks.Finding(
            "scheduler state",
            "not checked: this machine has no program that reads the log",
            "run it on a machine of the services; or pip install 'fairlead-standalone' here, and"
            " set FAIRLEAD_DATABASE_URL and FAIRLEAD_LOG_URL as the services have them",
            command_base.EXIT_JOBS_FAILED,
        )
    ]


def _show(finding: "Finding") -> None:
    output_formats.print_line(
        f"{'ok ' if not finding.code else 'BAD'}  {finding.name}: {finding.message}"
    )
    if finding.hint:
        typer.echo(f"     hint: {finding.hint}")


def _check_all(context: typer.Context) -> "list[Finding]":
    from fairlead import Client, FairleadError, Retries
    from fairlead.cli.support.doctor_checks import Finding

    try:
        server = command_base.find_server(context)
    except FairleadError as error:
        _, code = command_base.explain_error(error) or ("", command_base.EXIT_USAGE)
        return [Finding("configuration", str(error), code=code)]
    with Client(server, retries=Retries(attempts_max=1)) as client:
        return [_describe_configuration(server), *_check_server(client)]


def _describe_configuration(server: "Server") -> "Finding":
    from fairlead.cli.support.doctor_checks import Finding

    token = "with a token" if server.token else "without a token"
    return Finding("configuration", f"{server.url} {token}, from {server.source}")


def _check_server(client: "Client") -> "list[Finding]":
    from fairlead import FairleadError
    from fairlead.cli.support import doctor_checks
    from fairlead.transport import connection_settings

    began_s = time.monotonic()
    try:
        alive = client.fetch("/healthz")
        found = [doctor_checks.check_server(client.server.url, alive, time.monotonic() - began_s)]
        if found[0].code:
            return found
        readiness = _fetch_readiness(client)
        found += [
            *(finding for reply in readiness for finding in doctor_checks.check_health(reply)),
            *(
                doctor_checks.check_versions(connection_settings.VERSION, reply)
                for reply in readiness
            ),
            doctor_checks.check_clock(alive.headers, datetime.now(UTC)),
            doctor_checks.check_lag(client.fetch("/metrics")),
        ]
    except FairleadError as error:
        return [
            doctor_checks.Finding(
                "server", str(error), _UNREACHABLE_HINT, command_base.EXIT_UNREACHABLE
            )
        ]
    return [*found, *_check_with_token(client)]


def _fetch_readiness(client: "Client") -> "list[Reply]":
    """The readiness of each service behind a gateway, or of the only one."""
    from fairlead.cli.support import doctor_checks

    replies = [client.fetch(f"/readyz/{service}") for service in ("submit", "lookout")]
    if all(doctor_checks.is_readiness(reply) for reply in replies):
        return replies
    return [client.fetch("/readyz")]


def _check_with_token(client: "Client") -> "list[Finding]":
    """The checks that need a token."""
    from fairlead import FairleadError, Forbidden, Unauthenticated
    from fairlead.cli.support import doctor_checks, error_hints

    try:
        next(client.queues(), None)
        found = [doctor_checks.Finding("credentials", "the server accepts this token")]
        now = datetime.now(UTC)
        found += [*doctor_checks.check_clusters(client.clusters(), now)]
        with contextlib.suppress(Forbidden):  # the log is for operators
            found += doctor_checks.check_quarantine(client.quarantine(), now)
        return found
    except FairleadError as error:
        _, code = command_base.explain_error(error) or ("", command_base.EXIT_REFUSED)
        hint = (
            _TOKEN_HINT
            if isinstance(error, Unauthenticated)
            else error_hints.find_hint(error) or ""
        )
        return [doctor_checks.Finding("credentials", str(error), hint, code)]
