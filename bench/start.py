"""How long from typing `make up` until the address answers, and how long a command takes.

    python bench/start.py            # warm: environment and data folder are there (goal: 5 s)
    python bench/start.py --fresh    # a fresh clone, an empty home: nothing cached (goal: 90 s)
    python bench/start.py --commands # commands against a live server (goal: 150 ms each)

The last line is one JSON object. With `--commands` the exit code is 1 if the least time of a
command is above its goal; beside it stand the load of the machine and the CPU time, which tells
more on a busy one.
"""

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fairlead_standalone.processes.child_process import die_with_parent
from fairlead_standalone.servers import fairlead_services
from fairlead_standalone.servers.addresses import free_port

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/start.py`

from bench import folders

ROOT = Path(__file__).parent.parent
GOALS_S = {"warm": 5, "fresh": 90}
WAIT_S_MAX = 300

COMMAND_GOAL_MS: Final = 150
ROUNDS: Final = 20
JOB: Final = """
queue: default
jobSet: start
jobs:
  - {clientId: one, command: ["true"], cpu: 100m, memory: 16Mi}
"""


@contextmanager
def serving(
    folder: Path, data: Path, environment: Mapping[str, str], arguments: str = ""
) -> Iterator[float]:
    """Run `make up` until the block ends; the seconds from its start until /readyz says so."""
    port = free_port()
    words = ["make", "-s", "up", f"ARGS=--data {data} --port {port} {arguments}"]
    begun = time.monotonic()
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        start_new_session=True,
        preexec_fn=die_with_parent(signal.SIGTERM),
    ) as process:
        try:
            while not fairlead_services.is_ready(port):
                if process.poll() is not None or time.monotonic() - begun > WAIT_S_MAX:
                    raise SystemExit("`make up` did not become ready")
                time.sleep(0.02)
            yield time.monotonic() - begun
        finally:
            os.killpg(process.pid, signal.SIGINT)


def until_ready(folder: Path, data: Path, environment: Mapping[str, str]) -> float:
    """Seconds from `make up` until /readyz says so; it is ended again."""
    with serving(folder, data, environment) as took_s:
        return took_s


def command_times_ms(
    words: Sequence[str], environment: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """Wall and CPU time of a command in ms: the least and the median of `ROUNDS` runs."""
    wall, cpu = [], []
    for _ in range(ROUNDS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.perf_counter()
        subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
        wall.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {
        name: {
            "least": round(min(times[1:]) * 1000),  # the first run may write bytecode
            "median": round(statistics.median(times[1:]) * 1000),
        }
        for name, times in (("wall_ms", wall), ("cpu_ms", cpu))
    }


def measure_commands(home: Path, environment: Mapping[str, str]) -> None:
    """Measure commands against a server on simulated nodes. Exits with 1 above the goal."""
    file = home / "job.yaml"
    file.write_text(JOB)
    fairlead = str(ROOT / ".venv" / "bin" / "fairlead")
    commands = {
        "get jobs": ["get", "jobs"],
        "get queues": ["get", "queues"],
        "submit": ["submit", str(file)],
    }
    here = {**environment, "FAIRLEAD_DATA": str(home / "data"), "HOME": str(home)}
    with serving(ROOT, home / "data", environment, "--backend simulated"):
        found = {
            name: command_times_ms([fairlead, *words], here) for name, words in commands.items()
        }
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"bench": "commands", **found, "load": load, "goal_ms": COMMAND_GOAL_MS}))
    if any(times["wall_ms"]["least"] > COMMAND_GOAL_MS for times in found.values()):
        raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--fresh", action="store_true")
    kinds.add_argument("--commands", action="store_true")
    chosen = parser.parse_args()
    kind = "fresh" if chosen.fresh else "warm"
    with folders.temporary_folder("start") as place:
        home = Path(place)
        left_out = ("VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        if chosen.commands:
            measure_commands(home, environment)
            return
        if kind == "fresh":
            subprocess.run(["git", "clone", "-q", str(ROOT), str(home / "clone")], check=True)
            ours = str(ROOT / ".venv")
            path = [part for part in environment["PATH"].split(os.pathsep) if ours not in part]
            environment |= {"HOME": str(home), "PATH": os.pathsep.join(path)}
            took = until_ready(home / "clone", home / "data", environment)
        else:
            until_ready(ROOT, home / "data", environment)  # makes the data folder
            took = until_ready(ROOT, home / "data", environment)
    print(json.dumps({"bench": f"start-{kind}", "seconds": round(took, 2), "goal": GOALS_S[kind]}))


if __name__ == "__main__":
    main()
