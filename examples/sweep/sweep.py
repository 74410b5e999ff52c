"""Fit 100 models to a data file, one job each, and let one more job pick the best.

    python examples/sweep/sweep.py [--data CSV] [--queue NAME] [--out FOLDER]

Needs a running Fairlead (`fairlead up`). Files are passed between jobs through the output folder,
so the jobs must run on machines that see it: with `fairlead up`, this one.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from fairlead import Client, FairleadError, Job

HERE = Path(__file__).resolve().parent
FIT = str(HERE / "fit.py")
DEGREES = range(2, 22, 2)
PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
POINTS = [(degree, penalty) for degree in DEGREES for penalty in PENALTIES]
SMALL = {"cpu": "250m", "memory": "128Mi"}


def jobs(data: Path, out: Path) -> list[Job]:
    """A job per point of the sweep, and the one that waits for all of them."""
    fits = [
        Job(
            client_id=f"fit-{number}",
            command=(
                sys.executable, FIT, "fit", str(data), str(degree), str(penalty),
                str(out / f"{number}.json"),
            ),
            labels={"degree": str(degree)},
        )
        for number, (degree, penalty) in enumerate(POINTS)
    ]  # fmt: skip
    pick = Job(
        client_id="best",
        command=(sys.executable, FIT, "best", str(out), str(len(fits))),
        after=tuple(f"fit-{number}" for number in range(len(fits))),
    )
    return [*fits, pick]


def main() -> None:
    """Read the arguments, run the jobs, print what the last one found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "cooling.csv")
    parser.add_argument("--queue", default="default")
    parser.add_argument("--out", type=Path, help="where results go (default: a new folder)")
    given = parser.parse_args()
    job_set = f"sweep-{time.time_ns()}"
    out = (given.out or Path.cwd() / job_set).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with Client() as client:
        made = jobs(given.data.resolve(), out)
        done = client.submit(given.queue, job_set, made, defaults=SMALL)
        ended = client.wait(given.queue, job_set)
        if ended.bad:
            sys.exit(f"not all jobs succeeded: {ended.states}; see `fairlead get jobs`")
        log = b"".join(client.logs(done.jobs[-1].id))
    found = json.loads(log)
    print(f"best of {len(POINTS)}: degree {found['degree']}, penalty {found['penalty']},"
          f" error {found['error']:.4f} degrees on unseen points")  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except FairleadError as error:
        sys.exit(f"{Path(__file__).name}: {error}")
