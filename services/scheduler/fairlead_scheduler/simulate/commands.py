"""The command `fairlead simulate`."""

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
    from fairlead_scheduler.simulate.simulation import Input, SimulationOptions

EXIT_INVALID_INPUT: Final = 2
COMPILE_FROM_JOBS: Final = 5_000
"""With fewer jobs, compiling the kernels takes longer than simulating without them."""


class SwfQueue(StrEnum):
    """Which field of a Standard Workload Format line is the queue."""

    QUEUE = "queue"
    USER = "user"
    GROUP = "group"


def register(app: typer.Typer) -> None:
    """Add the commands. Called by `fairlead` through the entry point group `fairlead.commands`."""
    app.command(name="simulate", short_help="Simulate jobs in virtual time.")(simulate)


class Live(Protocol):
    """The server of the `fairlead` command, which keeps it in its context."""

    def read_cluster(self) -> dict[str, object]:
        """Its queues, priority classes, nodes and jobs as JSON values."""


def simulate(
    context: typer.Context,
    jobs: Annotated[
        Path | None,
        typer.Option(help="One JSON object per line, a file for `submit`, or a .swf trace."),
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="Nodes: a YAML list. Optional with a .swf trace.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="The scheduler's settings, and `queues`.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the tables, the summary and the report.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random draws.", min=0)] = 0,
    cycle_seconds: Annotated[
        float, typer.Option(help="Virtual time between rounds in which nothing changes.", min=1)
    ] = 10.0,
    pool: Annotated[str, typer.Option(help="The pool to simulate.")] = "default",
    swf_processors: Annotated[
        int | None, typer.Option(help="Number of processors of a trace's machine.", min=1)
    ] = None,
    swf_queue: Annotated[SwfQueue, typer.Option(help="The field of a trace that is the queue.")] = (
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
            "--from-live", help="Start with the nodes, queues and jobs of the running server."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Simulate how the scheduler would run these jobs on these nodes, in virtual time.

    It uses the engine and the rules of the service; a day takes seconds. Example: fairlead simulate
    --nodes nodes.yaml --jobs jobs.jsonl --out result
    """
    from fairlead_scheduler.simulate import simulation

    options = simulation.SimulationOptions(
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
    simulated = _read(options, context.find_root().obj if from_live else None)
    read_s = clock.monotonic_s() - began_s
    _choose_kernels(len(simulated.trace))
    _run(options, simulated, out, read_s, json)


def _read(options: "SimulationOptions", server: Live | None) -> "Input":
    """The input; `server`: the simulation starts with its jobs and nodes."""
    from fairlead_scheduler.simulate import simulation
    from fairlead_scheduler.simulate.input import input_errors, live_cluster

    cluster = None if server is None else live_cluster.decode_cluster(server.read_cluster())
    try:
        simulated = simulation.read_input(options, cluster, clock.now_ms())
    except input_errors.InvalidInput as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_INVALID_INPUT) from None
    for note in simulated.notes:
        typer.echo(note, err=True)
    return simulated


def _choose_kernels(jobs: int) -> None:
    """Use compiled kernels if they exist or if compiling saves time. The decisions are the same."""
    if jobs >= COMPILE_FROM_JOBS:
        subprocess.run([sys.executable, "-P", "-m", "fairlead_scheduler.kernels"], check=False)
    compilation.choose_kernels(os.environ)


def _run(
    options: "SimulationOptions", simulated: "Input", out: Path | None, read_s: float, json: bool
) -> None:
    from fairlead_scheduler.simulate import simulation
    from fairlead_scheduler.simulate.output import progress_bar, result_files, text_summary

    bar = progress_bar.Bar(sys.stderr, clock.monotonic_s)
    try:
        summary, timing, _ = simulation.run_simulation(options, simulated, out, bar)
    except OSError as error:
        typer.echo(f"--out: {error.filename}: {error.strerror}", err=True)
        raise typer.Exit(EXIT_INVALID_INPUT) from None
    finally:
        bar.close()
    timing.read_s = round(read_s, 3)
    if out is not None:
        result_files.write_file(out, result_files.TIMING, result_files.encode_json(timing))
    if json:
        typer.echo(result_files.encode_json(summary), nl=False)
        return
    for line in text_summary.format_summary(summary):
        typer.echo(line)
    if out is not None:
        typer.echo(f"\nmore in {out / result_files.REPORT}")
