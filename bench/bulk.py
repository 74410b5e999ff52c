"""How soon an action on 100,000 jobs is answered, and how soon lookout shows that it is done.

    python bench/bulk.py [--jobs 100000] [--json]

Starts everything through `fairlead up --backend simulated`, with free capacity for all jobs. One
job set waits on hold: it gets another priority, is cancelled and submitted again into a third. One
runs: it is preempted, and does not come back. The last line of output is one JSON object.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python bench/bulk.py`

from bench import arguments, folders
from fairlead import Client, Filter
from fairlead.models.job_models import ActionResult
from fairlead_standalone.service.testing import StandaloneInstallation

T = TypeVar("T")

QUEUE: Final = "default"
NODES: Final = 1_000
BATCH: Final = 10_000
VISIBLE_S_MAX: Final = 300.0
POLL_S: Final = 0.1
JOB: Final = {
    "command": ["true"],
    "cpu": "1",
    "memory": "1Mi",
    "onPreemption": "fail",
    "annotations": {"fairlead.dev/simulated-seconds": "86400"},
}
HELD: Final = {**JOB, "hold": True}


def main() -> None:
    """Read the arguments, start everything, act."""
    given = arguments.make_parser(__doc__, jobs=100_000, writes=False).parse_args()
    kind = {"count": NODES, "resources": {"cpu": given.jobs // NODES + 1, "memory": "256Gi"}}
    environment = {"FAIRLEAD_SIMULATION": json.dumps({"nodes": [kind]})}
    with (
        folders.temporary_folder("bulk") as folder,
        StandaloneInstallation(
            Path(folder), "--backend", "simulated", environment=environment
        ) as standalone,
    ):
        standalone.start()
        with Client(standalone.address, token=standalone.token) as client:
            found = {"jobs": given.jobs, **act(client, given.jobs)}
    arguments.print_found(given, found)


def act(client: Client, jobs: int) -> dict[str, Any]:
    """All actions, one after the other; seconds until each was answered and visible."""
    submit(client, "runs", JOB, jobs)
    until_visible(client, "runs", "RUNNING", jobs)
    submit(client, "waits", HELD, jobs)
    until_visible(client, "waits", "QUEUED", jobs)
    runs = Filter(queue=QUEUE, job_set="runs")
    waits = Filter(queue=QUEUE, job_set="waits")

    def folded(done: ActionResult) -> None:
        client.job_set(QUEUE, "waits", after=done.position, wait_s=VISIBLE_S_MAX)

    return {
        "reprioritize": timed(lambda: client.reprioritize(waits, 7), visible=folded),
        "cancel": timed(
            lambda: client.cancel(waits),
            visible=lambda _: until_visible(client, "waits", "CANCELLED", jobs),
        ),
        "preempt": timed(
            lambda: client.preempt(runs),
            visible=folded,
            ended=lambda _: until_visible(client, "runs", "PREEMPTED", jobs),
        ),
        "resubmit": timed(
            lambda: client.resubmit(waits, "again"),
            visible=lambda started: until_submitted(client, started.action, jobs),
        ),
    }


def submit(client: Client, job_set: str, job: dict[str, Any], jobs: int) -> None:
    """Submit this number of equal jobs."""
    for first in range(0, jobs, BATCH):
        client.submit(QUEUE, job_set, [{}] * min(BATCH, jobs - first), defaults=job)


def timed(ask: Callable[[], T], **seen: Callable[[T], object]) -> dict[str, float]:
    """Seconds from asking until it is answered, and until each of these is seen, in turn."""
    began_s = time.monotonic()
    answer = ask()
    found = {"answeredS": round(time.monotonic() - began_s, 2)}
    for name, until in seen.items():
        until(answer)
        found[f"{name}S"] = round(time.monotonic() - began_s, 2)
    return found


def until_submitted(client: Client, action: str, jobs: int) -> None:
    """Until the action has done its work, and lookout shows the new jobs."""
    for _ in client.watch_action(action):
        pass
    until_visible(client, "again", "QUEUED", jobs)


def until_visible(client: Client, job_set: str, state: str, jobs: int) -> None:
    """Wait until lookout shows this number of jobs of the job set in this state."""
    deadline_s = time.monotonic() + VISIBLE_S_MAX
    while client.job_set(QUEUE, job_set).states.get(state, 0) < jobs:
        if time.monotonic() > deadline_s:
            states = client.job_set(QUEUE, job_set).states
            raise SystemExit(f"{job_set} is not {state} after {VISIBLE_S_MAX:.0f} s: {states}")
        time.sleep(POLL_S)


if __name__ == "__main__":
    main()
