"""Makes the jobs of both examples: `python examples/simulate/make_jobs.py`.

`two-teams`: `research` has long jobs enough to fill the cluster for hours; `product` asks for
nothing at first and then for a lot at once. `gangs`: training runs whose members must start
together within one rack, single jobs in between, two urgent ones, and one that fits nowhere.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
MINUTE: Final = 60

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


def text(jobs: Iterator[Job]) -> str:
    """One job per line."""
    return "".join(json.dumps(job) + "\n" for job in jobs)


if __name__ == "__main__":
    for name, jobs in (("two-teams", two_teams()), ("gangs", gangs())):
        (HERE / name / "jobs.jsonl").write_text(text(jobs))
