"""Count the words of every text file of a folder: one job per file, and one that merges.

    python examples/wordcount/wordcount.py [FOLDER] [--queue NAME] [--out FOLDER]

Needs a running Fairlead (`fairlead up`). Files are passed between jobs through the output folder,
so the jobs must run on machines that see it: with `fairlead up`, this one.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from fairlead import Client, FairleadError, Job, SubmitResult

HERE = Path(__file__).resolve().parent
COUNT = str(HERE / "count.py")
SMALL = {"cpu": "250m", "memory": "128Mi"}
ENDINGS = {".txt", ".md"}


def text_files(folder: Path) -> list[Path]:
    """Every text file of the folder and the folders in it, in the order of their names."""
    return sorted(file for file in folder.rglob("*") if file.suffix in ENDINGS and file.is_file())


def jobs(files: list[Path], out: Path) -> list[Job]:
    """One job per file, then the one that waits for all of them."""
    counts = [
        Job(
            client_id=f"count-{number}",
            command=(sys.executable, COUNT, "count", str(file), str(out / f"{number}.json")),
            labels={"step": "count"},
        )
        for number, file in enumerate(files)
    ]
    merge = Job(
        client_id="merge",
        command=(sys.executable, COUNT, "merge", str(out), str(len(files))),
        after=tuple(f"count-{number}" for number in range(len(files))),
        labels={"step": "merge"},
    )
    return [*counts, merge]


def run(client: Client, folder: Path, out: Path, queue: str, job_set: str) -> SubmitResult:
    """Submit everything and wait for it; ends the program if a job did not succeed."""
    files = text_files(folder)
    if not files:
        sys.exit(f"{folder} has no {' or '.join(sorted(ENDINGS))} files")
    out.mkdir(parents=True, exist_ok=True)
    done = client.submit(queue, job_set, jobs(files, out), defaults=SMALL)
    ended = client.wait(queue, job_set)
    if ended.bad:
        sys.exit(f"not all jobs succeeded: {ended.states}; see `fairlead get jobs`")
    return done


def main() -> None:
    """Read the arguments, run the jobs, print what the merging job found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=HERE / "texts")
    parser.add_argument("--queue", default="default")
    parser.add_argument("--out", type=Path, help="where the counts go (default: a new folder)")
    given = parser.parse_args()
    job_set = f"wordcount-{time.time_ns()}"
    out = (given.out or Path.cwd() / job_set).resolve()
    with Client() as client:
        run(client, given.folder.resolve(), out, given.queue, job_set)
    merged = json.loads((out / "merged.json").read_text())
    for word, count in merged["most"]:
        print(f"{count:7}  {word}")
    print(f"{merged['total']} words, {merged['different']} of them different, in {merged['files']}"
          f" files; all counts are in {out / 'merged.json'}")  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except FairleadError as error:
        sys.exit(f"{Path(__file__).name}: {error}")
