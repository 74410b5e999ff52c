"""CPU of the scheduler per job of a burst, by step, without Postgres and without other processes.

    python -m bench.scheduler_cpu [--jobs 60000]

Submissions, leases, reports of executors and ends pass the code of the service as records, in
cycles of `CYCLE_JOBS` jobs: the fold, the decisions, the records of appends, and what a checkpoint
writes. A job runs for `RUN_CYCLES` cycles. Prints the processor time of each step in us per job;
the last line is one JSON object. Compare two versions in turn: machines change their speed.
"""

import argparse
import gc
import json
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, ParamSpec, TypeVar

import msgspec

from fairlead_common.domain import ids
from fairlead_common.domain.records import clusters
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.scheduling import shapes
from fairlead_common.log import Entry, Record
from fairlead_common.log.append_limits import check_append
from fairlead_common.log.postgres.record_batches import pack
from fairlead_common.log.topics import JOB_PARTITIONS, JOBS
from fairlead_scheduler.kernels import compilation
from fairlead_scheduler.rules.append_batches import AppendBatch, group_into_appends
from fairlead_scheduler.rules.lease_changes import Leases
from fairlead_scheduler.rules.scheduler_harness import SchedulerHarness
from fairlead_scheduler.service.follower import trim_caches
from fairlead_scheduler.service.settings import SchedulerSettings
from fairlead_scheduler.state.checkpoint.checkpoint_names import SavedNames
from fairlead_scheduler.state.checkpoint.checkpoint_parts import CheckpointParts
from fairlead_scheduler.state.folds import job_fold

P = ParamSpec("P")
T = TypeVar("T")
NODES: Final = 1_000
SETS: Final = [(f"queue-{number % 10}", f"set-{number}") for number in range(100)]
CYCLE_JOBS: Final = 1_600
CYCLE_MS: Final = 180
RUN_CYCLES: Final = 10
SAVE_CYCLES: Final = 20
BEGAN_MS: Final = 1_800_000_000_000
SHAPE: Final = shapes.encode(shapes.Shape(requests={"cpu": 1000, "memory": 1 << 30}))
SPEC: Final = msgspec.Raw(
    b'{"containers":[{"name":"main","image":"busybox","command":["true"],"resources":{"requests":'
    b'{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}}],"restartPolicy":"Never"}'
)


class World:
    """A scheduler without a process, and the time that each step took."""

    def __init__(self) -> None:
        self.now_ms = BEGAN_MS
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._positions: Counter[int] = Counter()
        settings = SchedulerSettings()
        harness = SchedulerHarness(settings.rules)
        self.view = harness.view
        self.view.saved_ends.is_complete = True
        for number in range(NODES):
            amounts = {"cpu": 32_000, "memory": 256 << 30}
            node = clusters.Node(executor="e", name=f"node-{number:04}", allocatable=amounts)
            harness.report_node(node)
        self._leases = Leases()
        self._decider = harness.make_decider(settings, leases=self._leases, began_ms=BEGAN_MS)
        self._names, self._saved = SavedNames(), [0] * JOB_PARTITIONS

    def timed(self, step: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """The result of a step."""
        began_s = time.process_time()
        found = work(*arguments, **named)
        self.seconds[step] += time.process_time() - began_s
        return found

    def fold(self, step: str, records: Iterable[Record]) -> None:
        """As the follower, but nothing is looked up in Postgres."""
        entries = []
        for record in records:
            if record.topic == JOBS:
                assert record.partition is not None
                at = self._positions[record.partition]
                self._positions[record.partition] += 1
                entry = Entry(record.partition, at, record.key, record.value, self.now_ms)
                entries.append(entry)
        view = self.view
        messages = self.timed(f"{step}: decode", job_fold.decode_batch, entries)
        self.timed(f"{step}: look-ups", job_fold.find_ids_to_look_up, view, messages)
        self.timed(f"{step}: fold", job_fold.fold_messages, view, messages, {})

    def run_cycle(self) -> list[ev.JobRunLeased]:
        """A cycle of the leader and the fold of its decisions; returns the runs that start."""
        due = self.timed("housekeeping", self._decider.decide_housekeeping, self.now_ms)
        decided = self.timed(
            "round",
            self._decider.decide_round,
            "default",
            due,
            self.now_ms,
            time.perf_counter,
        )
        starts: list[AppendBatch] = []
        if decided is not None:
            self.timed("leases", self.view.specs.find_missing, decided.placed_ids)
            starts = self.timed("leases", self._decider.make_batches, decided)
        self.fold("own", [*self._append("ends", due.batches()), *self._append("starts", starts)])
        facts = (event for batch in starts for _, event in batch.facts)
        return [event for event in facts if isinstance(event, ev.JobRunLeased)]

    def _append(self, step: str, batches: Iterable[AppendBatch]) -> list[Record]:
        appends = self.timed(f"{step}: records", list, group_into_appends(batches))
        for append in appends:
            self.timed(f"{step}: check and pack", _check_and_pack, append.records)
            self.timed(f"{step}: known leases", self._leases.apply, append.leases)
        return [record for append in appends for record in append.records]

    def save(self) -> None:
        """A checkpoint, up to what would be sent to Postgres."""
        parts = CheckpointParts(self.view, self._names, self._saved)
        while not parts.is_done:
            changes = self.timed("checkpoint", parts.take_next)
            self._saved = changes.positions
            for rows in filter(None, (changes.new_jobs, changes.jobs)):
                self.timed("checkpoint", list, rows.encode())
            self.timed("checkpoint", list, changes.specs or ())
            self.timed("checkpoint", self.view.specs.end_save)
            self.timed("checkpoint", trim_caches, self.view)


def _check_and_pack(records: Sequence[Record]) -> None:
    check_append(records)
    parts: dict[tuple[str, int | None], list[Record]] = {}
    for record in records:
        parts.setdefault((record.topic, record.partition), []).append(record)
    pack(dict(enumerate(parts.values())))


def submissions(jobs: int) -> Iterator[list[Record]]:
    """The message of each job set."""
    for queue, name in SETS:
        partition = ids.job_set_partition(queue, name)
        clients = [f"j{number}" for number in range(jobs // len(SETS))]
        events = [
            ev.JobSubmitted(
                job_id=job_id,
                shape=SHAPE,
                spec=SPEC,
                digest=f"{number:032x}",
                client_id=clients[number],
                annotations={"fairlead.dev/simulated-seconds": "2"},
            )
            for number, job_id in enumerate(ids.client_job_ids(partition, queue, name, clients))
        ]
        yield ev.records(queue, name, "submit", events)


def run(jobs: int) -> dict[str, float]:
    """A burst; us per job by step."""
    compilation.load_kernels()
    world, waiting = World(), deque(submissions(jobs))
    places: dict[ids.JobId, tuple[str, str]] = {}
    for records in waiting:
        for record in records:
            sequence = ev.decode(record.value or b"")
            for event in sequence.events:
                assert isinstance(event, ev.JobSubmitted)
                places[event.job_id] = sequence.queue, sequence.job_set
    count = len(places)

    def report(events: Iterable[ev.RunEvent]) -> list[Record]:
        """As an executor: a message per job set."""
        by_set: dict[tuple[str, str], list[ev.AnyEvent]] = {}
        for event in events:
            by_set.setdefault(places[event.job_id], []).append(event)  # type: ignore[arg-type]
        return [each for place, some in by_set.items() for each in ev.records(*place, "e", some)]

    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # as the service has it
    running: deque[list[ev.JobRunLeased]] = deque([[] for _ in range(RUN_CYCLES)])
    submitted = ended = cycles = 0
    while ended < count:
        cycles += 1
        world.now_ms += CYCLE_MS
        arrived: list[Record] = []
        while waiting and submitted < cycles * CYCLE_JOBS:
            arrived += waiting.popleft()
            submitted += jobs // len(SETS)
        world.fold("submissions", arrived)
        done = running.popleft()
        ended += len(done)
        ends = [ev.JobRunSucceeded(job_id=run.job_id, run=run.run, at_ms=1) for run in done]
        world.fold("successes", report(ends))
        started = world.run_cycle()
        running.append(started)
        pending = [ev.JobRunPending(job_id=run.job_id, run=run.run) for run in started]
        begun = [ev.JobRunRunning(job_id=run.job_id, run=run.run, at_ms=1) for run in started]
        world.fold("reports", report([*pending, *begun]))
        if cycles % SAVE_CYCLES == 0:
            world.save()
    return {step: round(1e6 * s / count, 2) for step, s in sorted(world.seconds.items())}


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=60_000)
    found = run(parser.parse_args().jobs)
    for step, us in found.items():
        print(f"{step:26} {us:6.2f}")
    print(json.dumps({"usPerJob": round(sum(found.values()), 2), "steps": found}))


if __name__ == "__main__":
    main()
