"""Runs in the order in which they return, and first queued jobs, as jobs start and end."""

import random

from fairlead_scheduler.simulate.model.run_lists import JobLists
from fairlead_scheduler.simulate.model.trace import Trace

JOBS, QUEUES = 60, 3


def make_trace(chance: random.Random) -> Trace:
    """Jobs of three queues with few different times and priorities."""
    trace = Trace()
    for number in range(JOBS):
        trace.add(
            f"j{number}",
            submit_ms=chance.randrange(5),
            run_ms=1,
            queue=f"q{number % QUEUES}",
            shape=0,
            priority_class="default",
            priority=chance.randrange(3),
        )
    return trace


def test_the_lists_are_what_sorting_gives() -> None:
    chance = random.Random(1)
    trace = make_trace(chance)
    lists, leased, queued = JobLists(trace), dict[int, int](), set[int]()
    for now_ms in range(600):
        job = chance.randrange(JOBS)
        if job in leased:
            lists.remove_run(job, leased.pop(job))
        elif job in queued:
            queued.remove(job)
            lists.remove_queued(job)
            leased[job] = now_ms // 3
            lists.add_run(job, now_ms // 3)
        else:
            queued.add(job)
            lists.add_queued(job)
        runs = sorted(
            leased,
            key=lambda j: (trace.queue[j], -trace.priority[j], leased[j], trace.submit_ms[j], j),
        )
        assert lists.runs().tolist() == runs
        for queue in range(QUEUES):
            waits = [job for job in queued if trace.queue[job] == queue]
            want = min(waits, key=lambda j: (-trace.priority[j], trace.submit_ms[j], j), default=-1)
            assert lists.first_queued[queue] == want
