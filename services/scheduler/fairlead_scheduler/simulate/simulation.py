"""One simulation from files to files: what `fairlead simulate` does, without its options."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fairlead_common.domain.records.clusters import Node
from fairlead_common.service import clock
from fairlead_scheduler.simulate.input import job_lines as jobs
from fairlead_scheduler.simulate.input import (
    live_cluster,
    node_file,
    settings_file,
    submit_file,
    swf,
)
from fairlead_scheduler.simulate.input.input_errors import Faults
from fairlead_scheduler.simulate.input.node_file import Machines, Step
from fairlead_scheduler.simulate.input.settings_file import Given
from fairlead_scheduler.simulate.model.random_draws import Chance
from fairlead_scheduler.simulate.model.trace import Trace

if TYPE_CHECKING:
    from fairlead_scheduler.simulate.model.ledger import Ledger
    from fairlead_scheduler.simulate.output.figures import Summary

SWF: Final = ".swf"


class Order(NamedTuple):
    """What is to be simulated."""

    jobs: Path | None
    nodes: Path | None = None
    settings: Path | None = None
    seed: int = 0
    cycle_s: float = 10.0
    pool: str = "default"
    swf_processors: int | None = None
    swf_queue: swf.By = "queue"
    run_s: float | None = None


class Input(NamedTuple):
    """What was read."""

    trace: Trace
    nodes: list[Node]
    steps: list[Step]
    given: Given
    chance: Chance
    notes: list[str]
    """What of the input is not simulated, for people."""


class Timing(msgspec.Struct, rename="camel"):
    """Wall time of the steps in seconds; the one output that differs from run to run."""

    read_s: float = 0.0
    simulate_s: float = 0.0
    write_s: float = 0.0
    jobs_per_second: float = 0.0
    compiled: bool = False


def read(order: Order, cluster: live_cluster.Cluster | None = None, now_ms: int = 0) -> Input:
    """All input, checked; `cluster`: what a running Fairlead has at `now_ms`. Raises `BadInput`
    with everything that is wrong with it.
    """
    faults = Faults()
    given = settings_file.read(order.settings, faults).of(order.pool)
    machines_ = Machines([], [])
    if order.nodes is not None:
        machines_ = node_file.read(order.nodes, order.pool, faults)
    notes: list[str] = []
    chance = Chance(order.seed)
    trace = Trace()
    if cluster is not None:
        given = live_cluster.settings(cluster, given)
        machines_ = _live(order, cluster, now_ms, trace, notes, faults)
    if order.jobs is not None and order.jobs.suffix in submit_file.SUFFIXES:
        _add_submissions(order, given, trace, notes, faults)
    elif order.jobs is not None and cluster is not None:
        reason = (
            "is not a file for `fairlead submit`, which is all that can be added to --from-live"
        )
        faults.add(str(order.jobs), 0, "", reason)
    elif order.jobs is None:
        if cluster is None:
            faults.add("--jobs", 0, "", "is missing: give a file of jobs, or --from-live")
    elif order.jobs.suffix == SWF:
        found = swf.read(order.jobs, order.swf_queue, order.nodes is not None, faults)
        trace = found.trace
        if found.left_out:
            notes.append(
                f"{live_cluster.count(found.left_out)} without a run in the trace left out"
            )
        if order.nodes is None:
            machines_ = Machines(_machine(order, order.jobs, found.processors, faults), [])
    else:
        trace = jobs.read(order.jobs, chance, settings_file.class_names(given.settings), faults)
    if cluster is None and order.nodes is None and (order.jobs is None or order.jobs.suffix != SWF):
        faults.add("--nodes", 0, "", "is missing: which nodes should the jobs run on?")
    if not faults.count and not len(trace):
        source = "--from-live" if order.jobs is None else str(order.jobs)
        faults.add(source, 0, "", "has no job")
    faults.check()
    return Input(trace, machines_.nodes, machines_.steps, given, chance, notes)


def _live(
    order: Order,
    cluster: live_cluster.Cluster,
    now_ms: int,
    trace: Trace,
    notes: list[str],
    faults: Faults,
) -> Machines:
    if order.nodes is not None:
        faults.add("--nodes", 0, "", "has no meaning with --from-live, which has nodes already")
    if order.run_s is None:
        faults.add("--run-seconds", 0, "", "is missing: the server does not know how long jobs run")
        return Machines([], [])
    nodes = live_cluster.nodes(cluster, order.pool)
    if not nodes:
        faults.add("--from-live", 0, "", f"the server has no node of pool {order.pool}")
    live_cluster.add_jobs(trace, cluster, order.pool, order.run_s, now_ms, notes)
    return Machines(nodes, [])


def _add_submissions(
    order: Order, given: Given, trace: Trace, notes: list[str], faults: Faults
) -> None:
    assert order.jobs is not None
    if order.run_s is None:
        faults.add("--run-seconds", 0, "", "is missing: a file of `submit` does not say it")
        return
    others = submit_file.read(order.jobs, order.run_s, order.pool, given, faults, trace=trace)
    if others:
        notes.append(f"{live_cluster.count(others)} of other pools than {order.pool} left out")


def _machine(order: Order, file: Path, processors: int, faults: Faults) -> list[Node]:
    count = order.swf_processors or processors
    if not 1 <= count <= 2**31:
        reason = "says no MaxProcs in its header; give --swf-processors N, or --nodes FILE"
        faults.add(str(file), 0, "", reason)
        return []
    return node_file.processors(count)


def _title(order: Order) -> str:
    return "the live cluster" if order.jobs is None else order.jobs.name


class Outcome(NamedTuple):
    """What came of it."""

    summary: "Summary"
    timing: Timing
    ledger: "Ledger"


def run(
    order: Order, given: Input, out: Path | None, progress: Callable[[int, int, int], None]
) -> Outcome:
    """Simulate, and write the files if there is a folder for them. Kernels are chosen before.

    `progress` is told the jobs that ended, all jobs, and the virtual time in ms.
    """
    from fairlead_scheduler.engine.compiler.decorators import COMPILED
    from fairlead_scheduler.simulate.model.ledger import Ledger
    from fairlead_scheduler.simulate.model.simulated_world import World
    from fairlead_scheduler.simulate.model.simulation_loop import Loop
    from fairlead_scheduler.simulate.output import figures, html_report, result_files

    began_s = clock.monotonic_s()
    cycle_ms = jobs.ms(order.cycle_s)
    trace, settings = given.trace, given.given.settings
    with result_files.Nowhere() if out is None else result_files.Folder(out, trace) as sink:
        later = [step.node for step in given.steps]
        ledger = Ledger(trace, given.nodes, given.given, cycle_ms, sink, later)
        world = World(trace, given.nodes, given.given, order.pool, given.chance, ledger)
        loop = Loop(world, ledger, given.steps, settings.rules, cycle_ms)
        loop.run(lambda: progress(ledger.done, len(trace), ledger.now_ms))
        summary = figures.summary(world, ledger, loop, seed=order.seed, cycle_ms=cycle_ms)
        ended_s = clock.monotonic_s()
        sink.finish(ledger, summary, lambda: html_report.page(_title(order), summary, ledger))
    timing = Timing(
        simulate_s=round(ended_s - began_s, 3),
        write_s=round(clock.monotonic_s() - ended_s, 3),
        jobs_per_second=round(len(trace) / max(ended_s - began_s, 1e-9), 1),
        compiled=COMPILED,
    )
    return Outcome(summary, timing, ledger)
