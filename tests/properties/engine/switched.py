"""A process that starts with kernels in Python and goes on with compiled ones; prints what differs.

The same simulation runs in Python and with the switch in its middle. Then a scheduler that has
decided rounds in Python is compared with one that never did: rounds must not pack again what is
retained.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from fairlead_common.domain.records.clusters import Node
from fairlead_scheduler.engine import schedule
from fairlead_scheduler.engine.compiler.decorators import is_compiled
from fairlead_scheduler.engine.preparation.pool.static_pool import StaticPool, renew_static_pool
from fairlead_scheduler.engine.round import never
from fairlead_scheduler.engine.round_clock import RoundClock
from fairlead_scheduler.kernels import compilation
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.simulate import simulation
from tests.integration.scheduler.world import submitted
from tests.unit.simulate.simulations import ignore_progress, job, write

JOBS = 120
ROUNDS = 10
"""So many that columns by job, which grow by doubling, do not grow in the next rounds."""
CLASSES = ({"name": "low", "value": 1}, {"name": "high", "value": 9})
Progress = Callable[[int, int, int], None]


class RetainingScheduler:
    """A scheduler whose rounds use what the last one has retained."""

    def __init__(self) -> None:
        self._harness = SchedulerHarness()
        self._harness.report_node(Node(executor="e", name="n", allocatable={"cpu": 2_000}))
        self._static: StaticPool | None = None

    def run_round(self, name: str) -> None:
        """Submit a job, and decide a round."""
        self._harness.fold_events("a", [submitted(name)])
        settings = self._harness.engine_settings()
        snapshot = self._harness.build_snapshot().snapshot
        clock = RoundClock(never, settings)
        self._static = renew_static_pool(self._static, snapshot, settings, clock)
        schedule(snapshot, settings, static=self._static)

    def count_packed(self, name: str) -> int:
        """How many tuples a round packs."""
        from fairlead_scheduler.engine.compiler import address_types

        writes = address_types.Words.__init__.__code__, address_types.PackedTuple.repack.__code__
        packed = 0

        def count(frame: FrameType, event: str, _argument: object) -> None:
            nonlocal packed
            packed += event == "call" and frame.f_code in writes

        sys.setprofile(count)
        self.run_round(name)
        sys.setprofile(None)
        return packed


def run(options: simulation.SimulationOptions, out: Path, progress: Progress) -> dict[str, bytes]:
    """The files of a simulation, without the one that says how long it took."""
    simulation.run_simulation(options, simulation.read_input(options), out, progress)
    return {file.name: file.read_bytes() for file in out.iterdir() if file.name != "timing.json"}


def switch(done: int, jobs: int, _now_ms: int) -> None:
    """Use compiled kernels once half of the jobs have ended."""
    if 2 * done >= jobs and not is_compiled():
        compilation.load_kernels()


def main() -> None:
    """Simulate twice, then count what is packed."""
    assert not is_compiled()
    jobs = [
        job(
            f"j{n}",
            queue="abc"[n % 3],
            submitSeconds=n // 4,
            cpu=1 + n % 2,
            priorityClass="high" if n % 5 == 0 else "low",
            runSeconds=5 + n % 7,
        )
        for n in range(JOBS)
    ]
    retaining = RetainingScheduler()
    for number in range(ROUNDS):
        retaining.run_round(f"j{number}")
    with tempfile.TemporaryDirectory() as folder:
        options = write(Path(folder), jobs, settings={"priorityClasses": CLASSES})
        plain = run(options, Path(folder) / "plain", ignore_progress)
        assert not is_compiled()
        switched = run(options, Path(folder) / "switched", switch)
    assert is_compiled()
    for name in plain.keys() | switched.keys():
        if plain.get(name) != switched.get(name):
            sys.stdout.write(f"{name} differs\n")
    other = RetainingScheduler()
    for number in range(ROUNDS):
        other.run_round(f"j{number}")
    for scheduler in (retaining, other):
        scheduler.run_round("first")
    counts = retaining.count_packed("second"), other.count_packed("second")
    if counts[0] != counts[1]:
        sys.stdout.write(f"packed after the switch and without it: {counts}\n")


if __name__ == "__main__":
    main()
