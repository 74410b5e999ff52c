"""`fairlead logs ID`: what a job wrote."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli import frame, story

if TYPE_CHECKING:
    from fairlead import Client


class Stream(StrEnum):
    """Which of a run's two outputs."""

    STDOUT = "stdout"
    STDERR = "stderr"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "logs",
        epilog=frame.examples(
            "fairlead logs 0h01ja5y7d1s8xk2v4m6n8p0qr -f",
            "fairlead logs 0h01ja5y7d1s8xk2v4m6n8p0qr --stream stderr --tail 20",
        ),
    )(logs)


def logs(
    context: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Wait for the run, and go on until it has ended.")
    ] = False,
    stream: Annotated[Stream, typer.Option(help="Which output.")] = Stream.STDOUT,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Only the last lines, so many.", metavar="NUMBER")
    ] = None,
    run: Annotated[
        int | None, typer.Option(min=1, help="Of this run; the newest otherwise.", metavar="NUMBER")
    ] = None,
    container: Annotated[
        str, typer.Option(help="Of this container; the first otherwise.", metavar="NAME")
    ] = "",
) -> None:
    """Print the log of a job's run. With -f it waits for the run to start."""
    from fairlead import NotFound

    way_out = f"`fairlead why {job_id}` says how the job stands; `fairlead get jobs` lists jobs"
    with frame.connect(context) as client, frame.hint(way_out, NotFound):
        if follow:
            _say_what_it_waits_for(client, job_id, run)
        chunks = client.logs(
            job_id,
            follow=follow,
            stream=stream.value,
            tail=tail,
            run=run,
            container=container or None,
        )
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


def _say_what_it_waits_for(client: "Client", job_id: str, run: int | None) -> None:
    """Return when the run may have written something; at a terminal every change is told."""
    said = ""
    for detail in client.watch_job(job_id):
        if detail.may_have_log(run):
            return
        note = story.line(detail)
        if not said or (note != said and frame.is_terminal()):
            frame.say(f"fairlead: no output yet: {note}")
        said = note
