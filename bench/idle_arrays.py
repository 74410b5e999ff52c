"""CPU that arrays with nothing to do take of a cycle of the scheduler.

    python bench/idle_arrays.py --arrays 20000

Arrays of ten tasks at their `maxRunning` of 1. It ends in one JSON line: milliseconds for what a
cycle decides about arrays, the least of `REPETITIONS`.
"""

import argparse
import json
import time
from typing import Final

import msgspec

from fairlead_common.domain.ids import JobId, array_id, client_job_id
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.scheduling import shapes
from fairlead_scheduler.rules import array_tasks
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness

REPETITIONS: Final = 15
EVENTS_MAX: Final = 500
SHAPE: Final = shapes.encode(shapes.Shape(requests={"cpu": 1000}))


def make_array(number: int) -> ev.ArraySubmitted:
    """An array of ten tasks."""
    array = array_id(client_job_id(0, "q", "s", str(number)))
    template = ev.JobSubmitted(job_id=JobId(array), shape=SHAPE, spec=msgspec.Raw(b"{}"), digest="")
    return ev.ArraySubmitted(
        array=array,
        template=template,
        count=10,
        indexes="0-9",
        running_max=1,
    )


def fold(harness: SchedulerHarness, events: list[ev.AnyEvent]) -> None:
    """Events that come back through the log."""
    for first in range(0, len(events), EVENTS_MAX):
        time_ms = 1000 * (1 + harness.position)
        harness.fold_events("q", events[first : first + EVENTS_MAX], time_ms=time_ms)


def main() -> None:
    """Release one task of each array, then measure cycles in which nothing changes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arrays", type=int, default=20_000)
    arrays: int = parser.parse_args().arrays
    harness, counts = SchedulerHarness(), array_tasks.TaskCounts()
    fold(harness, [make_array(number) for number in range(arrays)])
    while batches := array_tasks.decide_arrays(harness.view, counts):
        fold(harness, [fact for batch in batches for _, fact in batch.facts])
    times_s = []
    for _ in range(REPETITIONS):
        begun_s = time.process_time()
        array_tasks.decide_arrays(harness.view, counts)
        times_s.append(time.process_time() - begun_s)
    print(json.dumps({"arrays": arrays, "cycle_ms": round(1_000 * min(times_s), 3)}))


if __name__ == "__main__":
    main()
