"""What this package adds to the `fairlead` command: `simulate`."""

import os
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

from fairlead_common.service import clock
from fairlead_scheduler.kernels import compilation

if TYPE_CHECKING:
    from fairlead_scheduler.simulate.simulation import Input, Order

EXIT_BAD_INPUT: Final = 2
COMPILE_FROM_JOBS: Final = 5_000
"""For fewer jobs compiling the kernels (a minute, once) would take longer than doing without."""


class SwfQueue(StrEnum):
    """Which field of a Standard Workload Format line is the queue."""

    QUEUE = "queue"
    USER = "user"
    GROUP = "group"


def register(app: typer.Typer) -> None:
    """Add the commands. Called by `fairlead` through the entry point group `fairlead.commands`."""
    app.command(name="simulate", short_help="See who would run when, in virtual time.")(simulate)


class Live(Protocol):
    """What the `fairlead` command keeps in its context: a way to the server that it talks to."""

    def read_cluster(self) -> dict[str, object]:
        """Its queues, classes, nodes and jobs as JSON values."""


def simulate(
    context: typer.Context,
    jobs: Annotated[
        Path | None,
        typer.Option(help="One JSON object per line, a file for `submit`, or a .swf trace."),
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="Nodes: a YAML list. A .swf trace does without.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="The scheduler's settings, and `queues`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the tables, the summary and the report.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For what the input leaves to chance.", min=0)] = 0,
    cycle_seconds: Annotated[
        float, typer.Option(help="Virtual time between rounds in which nothing changes.", min=1)
    ] = 10.0,
    pool: Annotated[str, typer.Option(help="The pool whose nodes count.")] = "default",
    swf_processors: Annotated[
        int | None, typer.Option(help="Processors of a trace's machine.", min=1)
    ] = None,
    swf_queue: Annotated[SwfQueue, typer.Option(help="What is a queue in a trace.")] = (
        SwfQueue.QUEUE
    ),
    run_seconds: Annotated[
        float | None,
        typer.Option(
            help="How long each job of --from-live or of a file for `submit` runs.",
            min=0,
            metavar="S",
        ),
    ] = None,
    from_live: Annotated[
        bool,
        typer.Option(
            "--from-live", help="Begin with the nodes, queues and jobs of the running server."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """See what the scheduler would do with these jobs on these nodes, in virtual time.

    The same engine and rules decide as in the service; a day passes in seconds. Example:
    fairlead simulate --nodes nodes.yaml --jobs jobs.jsonl --out result
    """
    from fairlead_scheduler.simulate import simulation

    order = simulation.Order(
        jobs,
        nodes,
        settings,
        seed,
        cycle_seconds,
        pool,
        swf_processors,
        swf_queue.value,
        run_seconds,
    )
    began_s = clock.monotonic_s()
    given = _read(order, context.find_root().obj if from_live else None)
    read_s = clock.monotonic_s() - began_s
    _choose_kernels(len(given.trace))
    _run(order, given, out, read_s, json)


def _read(order: "Order", server: Live | None) -> "Input":
    """The input; `server`: the one whose jobs and nodes the simulation begins with."""
    from fairlead_scheduler.simulate import simulation
    from fairlead_scheduler.simulate.input import input_errors, live_cluster

    cluster = None if server is None else live_cluster.decode(server.read_cluster())
    try:
        given = simulation.read(order, cluster, clock.now_ms())
    except input_errors.BadInput as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    for note in given.notes:
        typer.echo(note, err=True)
    return given


def _choose_kernels(jobs: int) -> None:
    """Compiled ones if there are any, or if it pays to make them first. Both decide the same."""
    if jobs >= COMPILE_FROM_JOBS and not os.environ.get("NUMBA_DISABLE_JIT"):
        subprocess.run([sys.executable, "-P", "-m", "fairlead_scheduler.kernels"], check=False)
    compilation.choose_kernels(os.environ)


def _run(order: "Order", given: "Input", out: Path | None, read_s: float, json: bool) -> None:
    from fairlead_scheduler.simulate import simulation
    from fairlead_scheduler.simulate.output import progress_bar, result_files, text_summary

    bar = progress_bar.Bar(sys.stderr, clock.monotonic_s)
    try:
        summary, timing, _ = simulation.run(order, given, out, bar)
    except OSError as error:
        typer.echo(f"--out: {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None
    finally:
        bar.close()
    timing.read_s = round(read_s, 3)
    if out is not None:
        result_files.write(out, result_files.TIMING, result_files.as_json(timing))
    if json:
        typer.echo(result_files.as_json(summary), nl=False)
        return
    for line in text_summary.lines(summary):
        typer.echo(line)
    if out is not None:
        typer.echo(f"\nmore in {out / result_files.REPORT}")
