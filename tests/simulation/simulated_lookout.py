"""Lookout's fold over the simulated log; what it knows survives it, as Postgres would."""

from fairlead_common.domain.lifecycle import JOB_ENDED
from fairlead_common.domain.records import events as ev
from fairlead_common.log.topics import JOBS
from fairlead_lookout.domain import view_fold
from fairlead_lookout.domain.bulk_requests import find_bulk_filters
from fairlead_lookout.domain.model import (
    Job,
    JobSet,
    JobSetKey,
    Message,
    Run,
    RunKey,
    StoredRecords,
)
from tests.simulation.simulated_groups import GroupTable
from tests.simulation.world import Tail, World
from tests.unit.lookout.builders import skip_folded


class Lookout:
    """One process that folds all partitions."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.jobs: dict[str, Job] = {}
        self.sets: dict[JobSetKey, JobSet] = {}
        self.older_runs: dict[RunKey, Run] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.groups = GroupTable()
        self.positions = world.log.start_positions(JOBS)

    def turn(self) -> None:
        """Fold a little, in one transaction."""
        tail = Tail(self._world, JOBS, self.positions)
        batch = tail.read(again=True)
        messages = [
            Message(entry.partition, entry.position, entry.time_ms, ev.decode(entry.value))
            for entry in batch.entries
            if entry.value is not None
        ]
        for message in skip_folded(messages, self.positions):
            self._fold(message)
        self.positions = tail.positions

    def _fold(self, message: Message) -> None:
        for key, partition in self._keys(message):
            self.sets.setdefault(key, JobSet(len(self.sets), key, partition))
        changes = view_fold.fold_messages(
            StoredRecords(
                jobs=self.jobs,
                job_sets=self.sets,
                older_runs=self.older_runs,
                candidates=self._candidates(message),
                labels=self.labels,
            ),
            [message],
        )
        self.jobs.update(changes.jobs)
        self.older_runs.update(changes.older_runs)
        self.labels.update({name: said.labels for name, said in changes.submitted.items()})
        self.sets.update(changes.job_sets)
        self.groups.write(changes.groups)

    def _keys(self, message: Message) -> list[tuple[JobSetKey, int]]:
        return [((message.sequence.queue, message.sequence.job_set), message.partition)]

    def _candidates(self, message: Message) -> dict[tuple[int, int], list[str]]:
        if not find_bulk_filters([message]):
            return {}
        ended = {state.value for state in JOB_ENDED}
        ids = [
            job_id
            for job_id, job in self.jobs.items()
            if job.state not in ended and self.sets[job.key].partition == message.partition
        ]
        return {(message.partition, message.position): ids}
