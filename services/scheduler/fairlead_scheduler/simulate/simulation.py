"""Runs one simulation: reads the input files, simulates, and writes the result files."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.service import clock
from fairlead_scheduler.simulate.input import (
    job_lines,
    live_cluster,
    node_file,
    settings_file,
    submit_file,
    swf,
)
from fairlead_scheduler.simulate.input.input_errors import InputErrors
from fairlead_scheduler.simulate.input.node_file import NodeChange, NodeTimeline
from fairlead_scheduler.simulate.input.settings_file import SimulationSettings
from fairlead_scheduler.simulate.model.random_draws import RandomDraws
from fairlead_scheduler.simulate.model.trace import Trace

if TYPE_CHECKING:
    from fairlead_scheduler.simulate.model.ledger import Ledger
    from fairlead_scheduler.simulate.output.figures import Summary

SWF: Final = ".swf"
GARBAGE_MIN: Final = 200_000
"""Objects that are made before Python looks for garbage. With its default of 700 that takes a
quarter of the time of a simulation, which makes hardly any garbage with cycles."""


class SimulationOptions(NamedTuple):
    """What to simulate; the options of `fairlead simulate`."""

    jobs: Path | None
    nodes: Path | None = None
    settings: Path | None = None
    seed: int = 0
    cycle_s: float = 10.0
    pool: str = "default"
    swf_processors: int | None = None
    swf_queue: swf.QueueField = "queue"
    run_s: float | None = None
    every_round: bool = False
    """Also run the rounds that cannot decide anything (for tests of the filter)."""


class Input(NamedTuple):
    """The input of a simulation."""

    trace: Trace
    nodes: list[Node]
    node_changes: list[NodeChange]
    settings: SimulationSettings
    draws: RandomDraws
    notes: list[str]
    """Messages about the parts of the input that are not simulated."""


class Timing(msgspec.Struct, rename="camel"):
    """Wall time of the steps in seconds; the only output that differs from run to run."""

    read_s: float = 0.0
    simulate_s: float = 0.0
    write_s: float = 0.0
    jobs_per_second: float = 0.0
    compiled: bool = False


def read_input(
    options: SimulationOptions, cluster: live_cluster.Cluster | None = None, now_ms: int = 0
) -> Input:
    """Read and check the input; `cluster`: the state of a running Fairlead at `now_ms`.

    Raises `InvalidInput` with all errors of the input.
    """
    errors = InputErrors()
    settings = settings_file.read_settings(options.settings, errors).for_pool(options.pool)
    timeline = NodeTimeline([], [])
    if options.nodes is not None:
        timeline = node_file.read_nodes(options.nodes, options.pool, errors)
    notes: list[str] = []
    draws = RandomDraws(options.seed)
    trace = Trace()
    if cluster is not None:
        settings = live_cluster.merge_settings(cluster, settings)
        timeline = _read_live_cluster(options, cluster, now_ms, trace, notes, errors)
    if options.jobs is not None and options.jobs.suffix in submit_file.SUFFIXES:
        _add_submissions(options, settings, trace, notes, errors)
    elif options.jobs is not None and cluster is not None:
        reason = "is not a file for `fairlead submit`; only such a file can be added to --from-live"
        errors.add(str(options.jobs), 0, "", reason)
    elif options.jobs is None:
        if cluster is None:
            errors.add("--jobs", 0, "", "is missing: give a file of jobs, or --from-live")
    elif options.jobs.suffix == SWF:
        found = swf.read_trace(options.jobs, options.swf_queue, options.nodes is not None, errors)
        trace = found.trace
        if found.skipped:
            notes.append(
                f"{live_cluster.count_jobs(found.skipped)} without a run in the trace left out"
            )
        if options.nodes is None:
            timeline = NodeTimeline(
                _make_machine(options, options.jobs, found.processors, errors), []
            )
    else:
        trace = job_lines.read_jobs(
            options.jobs, draws, settings_file.list_class_names(settings.scheduler), errors
        )
    if (
        cluster is None
        and options.nodes is None
        and (options.jobs is None or options.jobs.suffix != SWF)
    ):
        errors.add("--nodes", 0, "", "is missing: give a file of nodes")
    if not errors.count and not len(trace):
        source = "--from-live" if options.jobs is None else str(options.jobs)
        errors.add(source, 0, "", "has no job")
    errors.check()
    return Input(trace, timeline.nodes, timeline.changes, settings, draws, notes)


def _read_live_cluster(
    options: SimulationOptions,
    cluster: live_cluster.Cluster,
    now_ms: int,
    trace: Trace,
    notes: list[str],
    errors: InputErrors,
) -> NodeTimeline:
    if options.nodes is not None:
        errors.add("--nodes", 0, "", "cannot be used with --from-live; omit it")
    if options.run_s is None:
        errors.add("--run-seconds", 0, "", "is missing: the server does not know how long jobs run")
        return NodeTimeline([], [])
    nodes = live_cluster.list_nodes(cluster, options.pool)
    if not nodes:
        errors.add("--from-live", 0, "", f"the server has no node of pool {options.pool}")
    live_cluster.add_jobs(trace, cluster, options.pool, options.run_s, now_ms, notes)
    return NodeTimeline(nodes, [])


def _add_submissions(
    options: SimulationOptions,
    settings: SimulationSettings,
    trace: Trace,
    notes: list[str],
    errors: InputErrors,
) -> None:
    assert options.jobs is not None
    if options.run_s is None:
        errors.add("--run-seconds", 0, "", "is missing: a file for `submit` has no run times")
        return
    others = submit_file.read_submissions(
        options.jobs, options.run_s, options.pool, settings, errors, trace=trace
    )
    if others:
        notes.append(
            f"{live_cluster.count_jobs(others)} of other pools than {options.pool} left out"
        )


def _make_machine(
    options: SimulationOptions, file: Path, processors: int, errors: InputErrors
) -> list[Node]:
    count = options.swf_processors or processors
    if not 1 <= count <= 2**31:
        reason = "has no MaxProcs in its header; give --swf-processors N, or --nodes FILE"
        errors.add(str(file), 0, "", reason)
        return []
    return node_file.make_processor_node(count)


def _title(options: SimulationOptions) -> str:
    return "the live cluster" if options.jobs is None else options.jobs.name


class Result(NamedTuple):
    """The results of a simulation."""

    summary: "Summary"
    timing: Timing
    ledger: "Ledger"


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Within this context Python looks for garbage less often."""
    before = gc.get_threshold()
    gc.set_threshold(GARBAGE_MIN, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@_rare_garbage_collection()
def run_simulation(
    options: SimulationOptions,
    simulated: Input,
    out: Path | None,
    progress: Callable[[int, int, int], None],
) -> Result:
    """Simulate, and write the files to `out` if given. The kernels must be chosen before the call.

    `progress` is called with the number of ended jobs, of all jobs, and the virtual time in ms.
    """
    from fairlead_scheduler.engine.compiler.decorators import is_compiled
    from fairlead_scheduler.simulate.model.ledger import Ledger
    from fairlead_scheduler.simulate.model.round_filter import RoundFilter
    from fairlead_scheduler.simulate.model.simulated_world import World
    from fairlead_scheduler.simulate.model.simulation_loop import Loop
    from fairlead_scheduler.simulate.output import figures, html_report, result_files

    began_s = clock.monotonic_s()
    cycle_ms = job_lines.to_ms(options.cycle_s)
    trace = simulated.trace
    with result_files.NullSink() if out is None else result_files.FolderSink(out, trace) as sink:
        later = [change.node for change in simulated.node_changes]
        ledger = Ledger(trace, simulated.nodes, simulated.settings, cycle_ms, sink, later)
        world = World(
            trace, simulated.nodes, simulated.settings, options.pool, simulated.draws, ledger
        )
        rules = simulated.settings.scheduler.rules
        skips = None if options.every_round else RoundFilter(trace, simulated.settings, ledger)
        loop = Loop(world, ledger, simulated.node_changes, rules, cycle_ms, skips)
        loop.run(lambda: progress(ledger.done, len(trace), ledger.now_ms))
        summary = figures.summarize(world, ledger, loop, seed=options.seed, cycle_ms=cycle_ms)
        ended_s = clock.monotonic_s()
        sink.finish(
            ledger, summary, lambda: html_report.render_page(_title(options), summary, ledger)
        )
    timing = Timing(
        simulate_s=round(ended_s - began_s, 3),
        write_s=round(clock.monotonic_s() - ended_s, 3),
        jobs_per_second=round(len(trace) / max(ended_s - began_s, 1e-9), 1),
        compiled=is_compiled(),
    )
    return Result(summary, timing, ledger)
