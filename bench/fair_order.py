"""What order `fair` adds to a cycle: 5,000 groups in queues with it; half of them run.

python bench/fair_order.py [--turns 20] [--json]

Each turn lets ten seconds pass and updates the retained snapshot, which measures every group and
moves what waits; then the same with `order: fifo`. CPU time in ms, medians. The last line is one
JSON object.
"""

import argparse
import json
import os
import statistics
import sys
import time

import msgspec
import numpy as np

from fairlead_common.domain.ids import GroupId, JobId, client_job_id
from fairlead_common.domain.records import configuration
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.records.clusters import Node
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.kernels import compilation
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness

GROUPS, QUEUES, NODES = 5_000, 20, 10_000
SHAPE = shapes.encode(shapes.Shape(requests={"cpu": 1_000}))


def make_harness() -> tuple[SchedulerHarness, int, int]:
    """The scheduler with these groups, how many members there are, and how many of them wait."""
    chance = np.random.default_rng(4)
    harness = SchedulerHarness()
    for number in range(NODES):
        harness.report_node(Node(executor="e", name=f"n{number}", allocatable={"cpu": 32_000}))
    members = waiting = 0
    for number, size in enumerate(chance.integers(2, 65, GROUPS).tolist()):
        queue = f"queue-{number % QUEUES:02d}"
        least = (size + 1) // 2
        group = GroupId(client_job_id(0, queue, "s", f"g{number}"))
        names = [JobId(f"g{number}-{index}") for index in range(size)]
        terms = ev.Group(roles=(ev.GroupRole("w", least, size),))
        submitted = [
            ev.JobSubmitted(
                job_id=name,
                shape=SHAPE,
                spec=msgspec.Raw(b"{}"),
                digest="",
                group=ev.GroupMember(group, "w", index),
            )
            for index, name in enumerate(names)
        ]
        announced = ev.GroupSubmitted(group=group, terms=terms, digest="")
        harness.fold_events(queue, [announced, *submitted])
        started = names[:least] if number % 2 == 0 else []
        leased = [
            ev.JobRunLeased(job_id=name, run=1, executor="e", node=f"n{number}") for name in started
        ]
        harness.fold_events(queue, leased, time_ms=number)
        members += size
        waiting += size - len(started)
    return harness, members, waiting


def measure(harness: SchedulerHarness, order: str, version: int, turns: int) -> float:
    """The CPU time of an update in ms, the first one left out."""
    harness.configure(
        *(
            configuration.Queue(name=f"queue-{number:02d}", version=version, order=order)
            for number in range(QUEUES)
        )
    )
    took = []
    for turn in range(turns + 1):
        begun = time.process_time()
        harness.builder.update(1_000_000 * version + 10_000 * turn)
        took.append(1000 * (time.process_time() - begun))
    return round(statistics.median(took[1:]), 2)


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="accepted: the last line is JSON")
    turns = parser.parse_args().turns
    compilation.choose_kernels(os.environ)
    harness, members, waiting = make_harness()
    fair_ms = measure(harness, configuration.FAIR, 1, turns)
    fifo_ms = measure(harness, configuration.FIFO, 2, turns)
    found = {"members": members, "waiting": waiting, "fairMs": fair_ms, "fifoMs": fifo_ms}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
