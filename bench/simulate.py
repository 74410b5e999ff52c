"""How fast a simulation is: `python bench/simulate.py [--jobs N] [--arrivals bursts|even] --json`.

A day on 1,000 nodes of 32 cores, 20 queues, about 80 % busy. `bursts`: arrays of 1 to 100 equal
jobs, as most jobs come; `even`: every job at a time of its own, so that there is a round nearly
every second of the day. Reading the input is not counted; the fold, all rounds and the account are.
The last line of output is one JSON object.
"""

import argparse
import json
import os
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import Final

from fairlead_scheduler.kernels import compilation

compilation.choose_kernels(os.environ)

from fairlead_scheduler.simulate import simulation  # noqa: E402  kernels are chosen first

DAY_S: Final = 86_400
NODES: Final = 1_000
CORES: Final = 32
QUEUES: Final = 20
BUSY: Final = 0.8
SIZES: Final = (1, 1, 2, 4, 8)


def write(folder: Path, jobs: int, arrivals: str) -> simulation.SimulationOptions:
    """The input of the bench."""
    chance = random.Random(1)
    run_s = BUSY * NODES * CORES * DAY_S / (jobs * sum(SIZES) / len(SIZES))
    resources = {"cpu": CORES, "memory": "256Gi"}
    nodes = [{"name": "n", "count": NODES, "resources": resources}]
    (folder / "nodes.yaml").write_text(json.dumps(nodes))
    with (folder / "jobs.jsonl").open("w") as file:
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
            for at in range(number, min(jobs, number + count)):
                file.write(json.dumps({"id": f"job-{at}", **line}) + "\n")
            number += count
    return simulation.SimulationOptions(folder / "jobs.jsonl", folder / "nodes.yaml")


def main() -> None:
    """Simulate once and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--arrivals", choices=("bursts", "even"), default="bursts")
    parser.add_argument("--json", action="store_true", help="only the last line is of interest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
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
