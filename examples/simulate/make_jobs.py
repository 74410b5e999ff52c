"""Makes the jobs of the examples: `python examples/simulate/make_jobs.py`.

`two-teams`: `research` has long jobs enough to fill the cluster for hours; `product` asks for
nothing at first and then for a lot at once. `gangs`: training runs whose members must start
together within one rack, single jobs in between, two urgent ones, and one that fits nowhere.
`fair`: a day of elastic training runs in a queue with `order: fair`, and services from 8 to 20.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
LEVELS: Final = {"experiment": 10, "offline": 100, "normal": 1_000, "production": 10_000}

Job = dict[str, object]


def two_teams() -> Iterator[Job]:
    """64 cores: 160 long jobs of one team, and an hour later 200 short ones of the other."""
    for number in range(160):
        yield {
            "id": f"research-{number:03d}",
            "queue": "research",
            "submitSeconds": 0,
            "runSeconds": {"min": 30 * MINUTE, "meanTail": 60 * MINUTE},
            "cpu": 1,
            "memory": "2Gi",
        }
    for number in range(200):
        yield {
            "id": f"product-{number:03d}",
            "queue": "product",
            "submitSeconds": 60 * MINUTE,
            "runSeconds": 5 * MINUTE,
            "cpu": 1,
            "memory": "2Gi",
        }


def gangs() -> Iterator[Job]:
    """Two racks of two nodes with eight GPUs each: 32 in all."""
    for number in range(40):
        yield {
            "id": f"notebook-{number:02d}",
            "queue": "lab",
            "submitSeconds": 30 * number,
            "runSeconds": 15 * MINUTE,
            "cpu": 4,
            "memory": "16Gi",
            "gpu": 1,
        }
    for train, submit in (("resnet", 2), ("llama", 4), ("whisper", 6)):
        for member in range(4):
            yield {
                "id": f"{train}-{member}",
                "queue": "training",
                "submitSeconds": submit * MINUTE,
                "runSeconds": 30 * MINUTE,
                "cpu": 16,
                "memory": "64Gi",
                "gpu": 4,
                "gang": {"name": train, "size": 4, "uniformityLabel": "rack"},
                "checkpointSeconds": 5 * MINUTE,
            }
    for number, submit in enumerate((25, 26)):
        yield {
            "id": f"incident-{number}",
            "queue": "oncall",
            "submitSeconds": submit * MINUTE,
            "runSeconds": 10 * MINUTE,
            "cpu": 8,
            "memory": "32Gi",
            "gpu": 2,
            "priorityClass": "urgent",
        }
    yield {
        "id": "too-big",
        "queue": "lab",
        "submitSeconds": 10 * MINUTE,
        "runSeconds": MINUTE,
        "cpu": 4,
        "gpu": 16,
    }


def fair() -> Iterator[Job]:
    """48 cores: twelve training runs of 2 to 16 workers, of four levels; 24 services for 6 h."""
    for number in range(12):
        level = list(LEVELS)[number % len(LEVELS)]
        yield {
            "id": f"{level}-{number // len(LEVELS)}",
            "queue": "training",
            "submitSeconds": number * HOUR,
            "priority": LEVELS[level],
            "freezeSeconds": 5 * MINUTE,
            "roles": [
                {
                    "name": "worker",
                    "min": 2,
                    "max": 16,
                    "runSeconds": 4 * HOUR,
                    "cpu": 1,
                    "memory": "2Gi",
                    "checkpointSeconds": 10 * MINUTE,
                }
            ],
        }
    for number in range(24):
        yield {
            "id": f"service-{number:02d}",
            "queue": "services",
            "submitSeconds": 4 * HOUR,
            "runSeconds": 6 * HOUR,
            "cpu": 1,
            "memory": "2Gi",
            "priorityClass": "non-preemptible",
        }


def text(jobs: Iterator[Job]) -> str:
    """One job per line."""
    return "".join(json.dumps(job) + "\n" for job in jobs)


if __name__ == "__main__":
    for name, jobs in (("two-teams", two_teams()), ("gangs", gangs()), ("fair", fair())):
        (HERE / name / "jobs.jsonl").write_text(text(jobs))
