"""`fairlead logs`: the output of jobs."""

import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.input import job_selection
from fairlead.cli.output import job_story, output_formats
from fairlead.cli.support import command_base

if TYPE_CHECKING:
    from fairlead import Client, Filter


class Stream(StrEnum):
    """Which of a run's two outputs."""

    STDOUT = "stdout"
    STDERR = "stderr"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "logs",
        epilog=command_base.format_examples(
            "fairlead logs trial-7 -f",
            "fairlead logs --jobset sweep --state FAILED --stream stderr --tail 5",
            "fairlead logs trial-7 --since 10m",
            "fairlead logs 0h01ja5y7d1s8xk2v4m6n8p0qr --stream stderr --tail 20",
        ),
    )(logs)


@job_selection.with_filter_options
def logs(
    context: typer.Context,
    chosen: "Filter",
    jobs: job_selection.Ids = None,
    follow: Annotated[
        bool,
        typer.Option(
            "-f", "--follow", help="Wait for the run, and follow its output until it has ended."
        ),
    ] = False,
    stream: Annotated[Stream, typer.Option(help="Which output.")] = Stream.STDOUT,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Only this number of last lines.", metavar="NUMBER")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only lines since then, on Kubernetes: a duration like 10m or 2h, or a time like"
            " 2026-01-31T12:00:00Z.",
            metavar="START",
        ),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(min=1, help="The output of this run; default: the newest.", metavar="NUMBER"),
    ] = None,
    container: Annotated[
        str, typer.Option(help="The container; the default is the first one.", metavar="NAME")
    ] = "",
    limit: Annotated[
        int,
        typer.Option(min=1, help="The output of at most this number of jobs.", metavar="NUMBER"),
    ] = 100,
) -> None:
    """Print the output of jobs: of those named, or of all that match the options.

    With several jobs, each line begins with the client id of its job. -f follows one job, also
    one that has not started yet.
    """
    from fairlead import NotFound

    hint = "`fairlead why JOB` explains the state of a job; `fairlead get jobs` lists jobs"
    with command_base.connect(context) as client, command_base.add_hint(hint, NotFound):
        wanted = _select_logs(client, jobs, chosen, limit)
        if follow and len(wanted) > 1:
            command_base.fail("-f follows one job; name it")
        for name, label in wanted.items():
            if follow:
                _wait_for_log(client, name, run)
            begin = (
                f"{output_formats.replace_control_characters(label)} | ".encode()
                if len(wanted) > 1
                else b""
            )
            chunks = client.logs(
                name,
                follow=follow,
                stream=stream.value,
                tail=tail,
                since=since,
                run=run,
                container=container or None,
            )
            try:
                _copy(chunks, begin)
            except NotFound as error:
                if len(wanted) == 1:
                    raise
                command_base.print_message(f"{label}: {error}")


def _select_logs(
    client: "Client", jobs: list[str] | None, chosen: "Filter", limit: int
) -> dict[str, str]:
    """The jobs to read, by the reference for the server, with the name to show."""
    import msgspec

    if jobs:
        named = job_selection.select_jobs(client, jobs, chosen)
        assert isinstance(named, list)
        return dict(zip(named, jobs, strict=True))
    if job_selection.is_empty(chosen):
        command_base.fail("name jobs, or choose them with --jobset, --state, --label, ...")
    if chosen.job_set is not None and chosen.queue is None:
        queue, _ = job_selection.find_job_set(client, "", chosen.job_set)
        chosen = msgspec.structs.replace(chosen, queue=queue)
    found = output_formats.take_first(client.iter_jobs(chosen, sort="submitted"), limit)
    if not found:
        command_base.fail("no such jobs exist", command_base.EXIT_JOBS_FAILED)
    return {job.id: job.client_id or job.id for job in found}


def _copy(chunks: Iterable[bytes], begin: bytes) -> None:
    """Write the chunks, each line behind `begin`."""
    out = sys.stdout.buffer
    is_new = True
    for chunk in chunks:
        if begin:
            lines = chunk.splitlines(keepends=True)
            marked = [(begin if n or is_new else b"") + line for n, line in enumerate(lines)]
            is_new = chunk.endswith(b"\n")
            chunk = b"".join(marked)
        out.write(chunk)
        out.flush()
    if begin and not is_new:
        out.write(b"\n")
        out.flush()


def _wait_for_log(client: "Client", job_id: str, run: int | None) -> None:
    """Return when the run can have a log; prints every change on a terminal."""
    printed = ""
    for detail in client.watch_job(job_id):
        if detail.may_have_log(run):
            return
        note = job_story.summarize(detail)
        if not printed or (note != printed and command_base.is_terminal()):
            command_base.print_message(f"fairlead: no output yet: {note}")
        printed = note
