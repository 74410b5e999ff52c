"""`fairlead run -- COMMAND`: run a job, print its log, and exit with its exit code."""

import secrets
import sys
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from fairlead.cli.input import job_selection, working_folder
from fairlead.cli.output import job_story
from fairlead.cli.support import command_base, recent_job_set

if TYPE_CHECKING:
    from fairlead import AsyncClient, Job, JobDetail

EXIT_NOT_RUN: Final = 1
"""The exit code for a job without one, for example if it was rejected or cancelled."""

EXIT_NO_COMMAND: Final = 127
"""The exit code of shells for a command that does not exist."""

POLL_S: Final = 0.05
POLL_S_MAX: Final = 1.0


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "run",
        short_help="Run a command as a job and wait for it.",
        epilog=command_base.format_examples(
            "fairlead run -- echo hello",
            "fairlead run --cpu 2 --memory 4Gi -e SEED=7 -- python train.py",
            "fairlead run --detach --jobset nightly -- ./report.sh",
        ),
    )(run)


def run(
    context: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND", help="The command and its arguments, after --."),
    ],
    cpu: Annotated[
        str, typer.Option(help="CPUs to request, for example 2 or 500m.", metavar="AMOUNT")
    ] = "",
    memory: Annotated[
        str, typer.Option(help="Memory to request, for example 512Mi or 2Gi.", metavar="AMOUNT")
    ] = "",
    gpu: Annotated[int, typer.Option(min=0, help="GPUs to request.", metavar="NUMBER")] = 0,
    image: Annotated[
        str, typer.Option(help="Container image; only Kubernetes clusters use it.", metavar="IMAGE")
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", help="An environment variable; may be repeated.", metavar="NAME=VALUE"
        ),
    ] = None,
    queue: Annotated[str, typer.Option(help="The queue.", metavar="NAME")] = "default",
    pool: Annotated[
        str, typer.Option(help="The pool to run in [default: default].", metavar="NAME")
    ] = "",
    jobset: Annotated[
        str, typer.Option(help="The job set; default: a new one.", metavar="NAME")
    ] = "",
    working_dir: working_folder.FolderOption = "",
    scratch: working_folder.ScratchOption = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print the job's id and return.")
    ] = False,
) -> None:
    """Run a command as a job and wait for it.

    Prints the output of the job as it arrives and ends with its exit code; Ctrl-C cancels the job.
    If jobs run on this machine as the same user, the command starts in the current folder.
    """
    import asyncio

    from fairlead import Job

    token = secrets.token_hex(6)
    job = Job(
        client_id=f"run-{token}" if jobset else "run",
        command=tuple(command),
        cpu=cpu or None,
        memory=memory or None,
        gpu=gpu or None,
        image=image or None,
        pool=pool or None,
        env=job_selection.parse_pairs(env or []) or None,
    )
    name = jobset or f"run-{token}"
    try:
        code = asyncio.run(_run(context, queue, name, job, (working_dir, scratch), detach))
    except KeyboardInterrupt:
        code = command_base.EXIT_INTERRUPTED
    raise typer.Exit(code)


async def _run(
    context: typer.Context,
    queue: str,
    name: str,
    job: "Job",
    folder: tuple[str, bool],
    detach: bool,
) -> int:
    """`folder`: what `--working-dir` and `--scratch` say."""
    import msgspec

    async with command_base.connect_async(context) as client:
        location = await client.location(job.pool or working_folder.DEFAULT_POOL)
        if job.image:
            working_folder.warn_of_image(location)
        job = msgspec.structs.replace(
            job, working_dir=working_folder.choose_folder(location, *folder)
        )
        done = await client.submit(queue, name, [job])
        recent_job_set.save(client.server.url, queue, name, done.position)
        job_id = done.jobs[0].id
        if not detach:
            return await attend(client, job_id, done.position)
        typer.echo(job_id)
        return 0


async def attend(client: "AsyncClient", job_id: str, position: str) -> int:
    """Copy the output of the job; returns its exit code. If this command is interrupted, the job is
    cancelled, unless the server is unavailable.
    """
    import asyncio

    from fairlead import ServerUnreachable

    try:
        ended = await _follow(client, job_id, position)
    except asyncio.CancelledError:
        command_base.print_message(f"\nfairlead: cancelling job {job_id}")
        await client.cancel([job_id], reason="Ctrl-C")
        raise
    except BrokenPipeError:
        await client.cancel([job_id], reason="the reader of its output has ended")
        return command_base.discard_output()
    except ServerUnreachable as error:
        error.add_note(
            f"the job was not cancelled; when the server answers again, `fairlead why {job_id}` and"
            f" `fairlead logs -f {job_id}` show its state and output"
        )
        raise
    if ended.state != "SUCCEEDED":
        command_base.print_message(f"fairlead: job {job_id}: {job_story.summarize(ended)}")
    return exit_code(ended)


def exit_code(detail: "JobDetail") -> int:
    """The exit code of the job's command, if a process can end with it."""
    if detail.state == "SUCCEEDED":
        return 0
    if detail.category == "start":
        return EXIT_NO_COMMAND
    return (detail.exit_code or 0) % 256 or EXIT_NOT_RUN


async def _follow(client: "AsyncClient", job_id: str, position: str | None) -> "JobDetail":
    """Copy the output of every run of the job until it has ended."""
    import asyncio

    copied, poll_s, printed = 0, POLL_S, ""
    while True:
        detail = await client.job(job_id, after=position)
        newest = detail.newest
        if newest is not None and newest.run > copied and newest.running is not None:
            await _copy(client, job_id, newest.run)
            copied, poll_s = newest.run, POLL_S
        elif detail.has_ended:
            return detail
        else:
            printed = _wait_note(detail, printed)
            await asyncio.sleep(poll_s)
            poll_s = min(poll_s * 1.3, POLL_S_MAX)


def _wait_note(detail: "JobDetail", printed: str) -> str:
    """Print on a terminal what the job waits for, each time it changes."""
    note = job_story.summarize(detail)
    if note != printed and command_base.is_terminal():
        command_base.print_message(f"fairlead: job {detail.id}: {note}")
    return note


async def _copy(client: "AsyncClient", job_id: str, run: int) -> None:
    """Copy both outputs of a run to its end. Raises `BrokenPipeError` when nobody reads one."""
    import asyncio

    streams = {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer}
    is_read = True
    try:
        async with asyncio.TaskGroup() as tasks:
            for stream, target in streams.items():
                tasks.create_task(_copy_stream(client, job_id, run, stream, target))
    except* BrokenPipeError:
        is_read = False
    if not is_read:
        raise BrokenPipeError


async def _copy_stream(
    client: "AsyncClient", job_id: str, run: int, stream: str, target: BinaryIO
) -> None:
    from fairlead import FairleadError

    try:
        async for chunk in client.logs(job_id, follow=True, stream=stream, run=run):
            target.write(chunk)
            target.flush()
    except FairleadError as error:
        command_base.print_message(f"fairlead: the {stream} of the job cannot be shown: {error}")
