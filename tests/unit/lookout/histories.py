"""Histories of a job set, from a seed: every kind of event, in orders both likely and absurd."""

import random

from fairlead_common.domain.lifecycle import JobState
from fairlead_common.domain.records import events
from fairlead_common.domain.records.events import JobFilter
from tests.unit.lookout.builders import (
    QUEUE,
    cancel,
    failed_run,
    job_id,
    leased,
    pending,
    requeued,
    running,
    submitted,
    succeeded,
)


def history(seed: int, length: int = 60, names: int = 8) -> list[list[events.AnyEvent]]:
    """The events of so many messages, about so many jobs."""
    chance = random.Random(seed)
    return [
        [
            event
            for _ in range(chance.randint(1, 4))
            for event in _some(chance, f"j{chance.randrange(names)}", chance.randint(1, 3))
        ]
        for _ in range(length)
    ]


def _some(chance: random.Random, name: str, run: int) -> list[events.AnyEvent]:
    states = chance.choice([(), (JobState.QUEUED,), (JobState.RUNNING, JobState.LEASED)])
    wanted = JobFilter(queue=QUEUE, states=states, classes=chance.choice([(), ("default",)]))
    which = job_id(name)
    choices: list[tuple[int, list[events.AnyEvent]]] = [
        (8, [submitted(name, hold=name == "j1", labels={"n": name} if run == 1 else {})]),
        (8, [leased(name, run)]),
        (4, [pending(name, run), running(name, run)]),
        (3, succeeded(name, run)),
        (3, [failed_run(name, run), requeued(name)]),
        (2, [events.JobRunLost(job_id=which, run=run, reason="silent"), requeued(name)]),
        (1, [events.JobReleased(job_id=which)]),
        (1, [cancel(name)]),
        (1, [events.JobPreemptRequested(job_id=which, reason="room")]),
        (1, [events.JobReprioritized(job_id=which, priority=run)]),
        (1, [events.JobsReprioritized(filter=wanted, priority=10 * run)]),
        (1, [events.JobsPreemptRequested(filter=wanted)]),
        (1, [events.JobsCancelRequested(filter=JobFilter(queue=QUEUE, labels={"n": name}))]),
        (1, [events.JobRunStopped(job_id=which, run=run, reason="asked to", exit_code=143)]),
        (1, [events.JobCancelled(job_id=which, reason="enough")]),
        (1, [events.JobRejected(job_id=which, code="infeasible", reason="too large")]),
    ]
    weights, kinds = zip(*choices, strict=True)
    (chosen,) = chance.choices(kinds, weights)
    return list(chosen)
