"""How fast a simulation is: `python bench/simulate.py [--arrivals bursts|even|trace] --json`.

20 queues, nodes of 32 cores. `bursts` and `even`: a day on 1,000 nodes, about 80 % busy. `bursts`:
arrays of 1 to 100 equal jobs, as most jobs come; `even`: every job at a time of its own, so that
there is a round nearly every second of the day. `trace`: jobs as in the trace of a shared machine
(Lublin and Feitelson 2003): each arrives at a time of its own, more by day than by night; cores are
powers of two; run times have a heavy tail. 64 nodes are offered `OFFERED` of their cores, so jobs
wait by day. Reading the input is not counted; the fold, all rounds and the account are. The last
line of output is one JSON object.
"""

import argparse
import itertools
import json
import math
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fairlead_scheduler.kernels import compilation
from fairlead_scheduler.simulate import simulation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/simulate.py`

from bench import folders

DAY_S: Final = 86_400
NODES: Final = 1_000
CORES: Final = 32
QUEUES: Final = 20
BUSY: Final = 0.8
SIZES: Final = (1, 1, 2, 4, 8)
TRACE_NODES: Final = 64
OFFERED: Final = 0.9
TRACE_SIZES: Final = (1, 2, 4, 8, 16, 32)
DAY_SWING: Final = 0.8
"""How far arrivals by day exceed the mean, and those by night fall below it."""


Line = dict[str, object]


def write(folder: Path, jobs: int, arrivals: str) -> simulation.SimulationOptions:
    """The input of the bench."""
    resources = {"cpu": CORES, "memory": "256Gi"}
    count = TRACE_NODES if arrivals == "trace" else NODES
    nodes = [{"name": "n", "count": count, "resources": resources}]
    (folder / "nodes.yaml").write_text(json.dumps(nodes))
    lines = make_trace(jobs) if arrivals == "trace" else make_day(jobs, arrivals)
    with (folder / "jobs.jsonl").open("w") as file:
        for number, line in enumerate(lines):
            file.write(json.dumps({"id": f"job-{number}", **line}) + "\n")
    return simulation.SimulationOptions(folder / "jobs.jsonl", folder / "nodes.yaml")


def make_day(jobs: int, arrivals: str) -> Iterator[Line]:
    """Jobs that arrive in bursts or evenly within a day."""
    chance = random.Random(1)
    run_s = BUSY * NODES * CORES * DAY_S / (jobs * sum(SIZES) / len(SIZES))
    number = 0
    while number < jobs:
        line = {
            "queue": f"team-{chance.randrange(QUEUES):02d}",
            "submitSeconds": round(chance.uniform(0, DAY_S), 3),
            "runSeconds": {"min": run_s * 0.2, "meanTail": run_s * 0.8},
            "cpu": chance.choice(SIZES),
            "memory": f"{chance.choice((1, 2, 4, 8))}Gi",
        }
        count = chance.randint(1, 100) if arrivals == "bursts" else 1
        count = min(count, jobs - number)
        yield from itertools.repeat(line, count)
        number += count


def make_trace(jobs: int) -> Iterator[Line]:
    """Jobs as in a trace; the mean time between two follows from `OFFERED`."""
    chance = random.Random(1)
    drawn = [
        (chance.choice(TRACE_SIZES), min(DAY_S, round(chance.lognormvariate(6.5, 1.8), 3)))
        for _ in range(jobs)
    ]
    offered_s = sum(cores * run_s for cores, run_s in drawn) / (OFFERED * TRACE_NODES * CORES)
    at_s = 0.0
    for cores, run_s in drawn:
        by_day = 1 - DAY_SWING * math.cos(2 * math.pi * at_s / DAY_S)
        at_s += chance.expovariate(by_day * jobs / offered_s)
        yield {
            "queue": f"team-{chance.randrange(QUEUES):02d}",
            "submitSeconds": round(at_s, 3),
            "runSeconds": run_s,
            "cpu": cores,
            "memory": f"{cores * chance.choice((1, 2, 4, 8))}Gi",
        }


def main() -> None:
    """Simulate once and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--arrivals", choices=("bursts", "even", "trace"), default="bursts")
    parser.add_argument("--json", action="store_true", help="only the last line is of interest")
    options = parser.parse_args()
    compilation.choose_kernels(os.environ)
    with folders.temporary_folder("simulate") as name:
        folder = Path(name)
        order = write(folder, options.jobs, options.arrivals)
        simulated = simulation.read_input(order)
        began_s = time.process_time()
        outcome = simulation.run_simulation(
            order, simulated, folder / "out", lambda done, jobs, now_ms: None
        )
    cpu_s = time.process_time() - began_s
    timing, summary = outcome.timing, outcome.summary
    found = {
        "bench": "simulate",
        "jobs": options.jobs,
        "arrivals": options.arrivals,
        "simulateS": timing.simulate_s,
        "jobsPerSecond": timing.jobs_per_second,
        "cpuS": round(cpu_s, 3),
        "jobsPerCpuSecond": round(options.jobs / cpu_s, 1),
        "rounds": summary.rounds,
        "simulatedSeconds": summary.makespan_seconds,
        "utilisation": summary.utilisation,
        "peakMb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "compiled": timing.compiled,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
