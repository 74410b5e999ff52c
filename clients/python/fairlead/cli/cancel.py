"""`fairlead cancel`: by ids, or a queue's or a job set's jobs."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairlead.cli import frame

if TYPE_CHECKING:
    from fairlead import Client

ASK_ABOVE: Final = 100
"""So many jobs are cancelled without a question."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("cancel", short_help="Cancel jobs.")(cancel)


def cancel(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Job ids.")] = None,
    queue: Annotated[str, typer.Option(help="Cancel jobs of this queue.")] = "",
    jobset: Annotated[str, typer.Option(help="Only those of this job set.")] = "",
    state: Annotated[
        list[str] | None, typer.Option(help="Only those in this state; may be repeated.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for whoever asks later.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Cancel jobs: queued ones end at once, running ones are stopped first."""
    if bool(ids) == bool(queue):
        frame.fail("say which jobs: either ids, or --queue NAME (and --jobset NAME)")
    if ids and (jobset or state):
        frame.fail("--jobset and --state go with --queue, not with ids")
    states = [text.upper() for text in state or []]
    with frame.connect(context) as client:
        if ids:
            if len(ids) > ASK_ABOVE:
                _confirm(len(ids), yes)
            done = client.cancel(ids, reason=reason)
        else:
            concerned = _count(client, queue, jobset, states)
            if concerned > ASK_ABOVE:
                _confirm(concerned, yes)
            done = client.cancel_where(queue, jobset or None, states=states, reason=reason)
    count = done.matched if done.matched is not None else len(ids or [])
    typer.echo(f"cancellation of {count} jobs requested" if count else "cancellation requested")


def _count(client: "Client", queue: str, job_set: str, states: list[str]) -> int:
    """How many jobs that have not ended this concerns, as far as the server shows."""
    from fairlead.models import ENDED

    sets = (
        [client.job_set(queue, job_set)] if job_set else client.job_sets(queue=queue, active=True)
    )
    return sum(
        count
        for found in sets
        for name, count in found.states.items()
        if name not in ENDED and (not states or name in states)
    )


def _confirm(count: int, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        frame.fail(f"this would cancel {count} jobs; say --yes to do so")
    if not typer.confirm(f"Cancel {count} jobs?", err=True):
        raise typer.Exit(frame.EXIT_USAGE)
