"""`fairlead doctor`: is all well between this terminal and the server, and what to do if not."""

import contextlib
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from fairlead.cli import frame, output

if TYPE_CHECKING:
    from fairlead import Client
    from fairlead.cli.checks import Finding
    from fairlead.discovery import Server
    from fairlead.steps import Reply

_AWAY: Final = "is it running? `fairlead up` starts one on this machine; else look at the network"
_TOKEN: Final = (
    "set FAIRLEAD_TOKEN, or the token of a context; `fairlead token show` prints the first one on"
    " the machine of the server"
)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "doctor",
        short_help="Look for what keeps Fairlead from working.",
        epilog=frame.examples("fairlead doctor", "fairlead doctor -o json"),
    )(doctor)


def doctor(
    context: typer.Context, output_format: output.FormatOption = output.Format.TABLE
) -> None:
    """Look for what keeps Fairlead from working from here.

    Which server is asked, whether it answers, versions, clocks, credentials, how far its view is
    behind, whether clusters report, and which records of the log could not be decoded. Ends
    with 0 if all is well, 4 if the server cannot be used, 3 if it refuses the token, and 1 if
    something else is not as it should be.
    """
    found = _examine(context)
    if output_format in (output.Format.JSON, output.Format.YAML):
        output.thing(found, output_format)
    else:
        for finding in found:
            _show(finding)
    raise typer.Exit(max((finding.code for finding in found), default=0))


def _show(finding: "Finding") -> None:
    output.tell(f"{'ok ' if not finding.code else 'BAD'}  {finding.name}: {finding.said}")
    if finding.hint:
        typer.echo(f"     hint: {finding.hint}")


def _examine(context: typer.Context) -> "list[Finding]":
    from fairlead import Client, FairleadError, Retries
    from fairlead.cli.checks import Finding

    try:
        server = frame.find(context)
    except FairleadError as error:
        _, code = frame.explain(error) or ("", frame.EXIT_USAGE)
        return [Finding("configuration", str(error), code=code)]
    with Client(server, retries=Retries(attempts_max=1)) as client:
        return [_configuration(server), *_of_server(client)]


def _configuration(server: "Server") -> "Finding":
    from fairlead.cli.checks import Finding

    token = "with a token" if server.token else "without a token"
    return Finding("configuration", f"{server.url} {token}, from {server.found}")


def _of_server(client: "Client") -> "list[Finding]":
    from fairlead import FairleadError, transport
    from fairlead.cli import checks

    began_s = time.monotonic()
    try:
        alive = client.fetch("/healthz")
        found = [checks.server(client.server.url, alive, time.monotonic() - began_s)]
        if found[0].code:
            return found
        readiness = _readiness(client)
        found += [
            *(finding for reply in readiness for finding in checks.health(reply)),
            *(checks.versions(transport.version(), reply) for reply in readiness),
            checks.clock(alive.headers, datetime.now(UTC)),
            checks.lag(client.fetch("/metrics")),
        ]
    except FairleadError as error:
        return [checks.Finding("server", str(error), _AWAY, frame.EXIT_UNREACHABLE)]
    return [*found, *_with_token(client)]


def _readiness(client: "Client") -> "list[Reply]":
    """What each service behind a gateway says of itself, else what the only one says."""
    from fairlead.cli import checks

    replies = [client.fetch(f"/readyz/{service}") for service in ("submit", "lookout")]
    if all(checks.is_readiness(reply) for reply in replies):
        return replies
    return [client.fetch("/readyz")]


def _with_token(client: "Client") -> "list[Finding]":
    """What needs a token to be seen."""
    from fairlead import FairleadError, Forbidden, Unauthenticated
    from fairlead.cli import checks, hints

    try:
        next(client.queues(), None)
        found = [checks.Finding("credentials", "the server lets this token in")]
        now = datetime.now(UTC)
        found += [*checks.clusters(client.clusters(), now)]
        with contextlib.suppress(Forbidden):  # the log is for operators
            found += checks.quarantine(client.quarantine(), now)
        return found
    except FairleadError as error:
        _, code = frame.explain(error) or ("", frame.EXIT_REFUSED)
        way_out = _TOKEN if isinstance(error, Unauthenticated) else hints.of(error) or ""
        return [checks.Finding("credentials", str(error), way_out, code)]
