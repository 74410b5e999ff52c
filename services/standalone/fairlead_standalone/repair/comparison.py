"""Finds jobs that differ between scheduler and lookout, and the events that correct them.

Groups are compared in group_comparison.py. Lookout's rows are read first and the scheduler is
folded at least as far, so a job that lookout has and the scheduler does not know is really unknown
to it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead_common.domain import repair_events
from fairlead_common.domain.ids import JobId, is_array_id, partition_of_job
from fairlead_common.domain.lifecycle import JOB_ENDED, JobState
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.repair_events import Choice, Knowledge
from fairlead_common.log import Record, end_advance
from fairlead_lookout.service.recovery import Recovery as LookoutRecovery
from fairlead_lookout.store.viewed_jobs import ViewedJob
from fairlead_scheduler.service.recovery import Recovery as SchedulerRecovery
from fairlead_standalone.repair.comparison_steps import compare_twice, describe_action, split_pages
from fairlead_standalone.repair.group_comparison import GroupComparison, GroupDifference

PAGE: Final = 10_000


class Difference(msgspec.Struct, frozen=True):
    """A job that differs between the views, its true state, and the events that restore it."""

    job_id: JobId
    queue: str
    job_set: str
    scheduler: Knowledge
    lookout: Knowledge
    truth: Knowledge
    choice: Choice
    events: list[ev.AnyEvent]

    @property
    def action(self) -> str:
        """What the repair does with the job, for people."""
        return describe_action(
            self.choice, self.truth.state, self.scheduler.state, self.lookout.state
        )


class Differences(NamedTuple):
    """What differs between the views."""

    jobs: list[Difference]
    groups: list[GroupDifference]


class Comparison:
    """Compares the two views."""

    def __init__(self, scheduler: SchedulerRecovery, lookout: LookoutRecovery) -> None:
        self._scheduler = scheduler
        self._lookout = lookout
        self._groups = GroupComparison(scheduler, lookout)

    async def run(self) -> Differences:
        """Everything that differs between the views."""
        return Differences(await self._compare_all(), await self._groups.run())

    async def _compare_all(self) -> list[Difference]:
        """Every job that differs between the views."""
        return await compare_twice(
            self._candidates(), self._compare, lambda difference: difference.job_id, PAGE
        )

    async def _candidates(self) -> AsyncIterator[Sequence[JobId]]:
        """Jobs that either view has as live, and ended ones that live jobs or groups need."""
        async for ids in self._lookout.live_jobs():
            yield ids
        live = [*self._scheduler.live_jobs(), *sorted(self._scheduler.awaited())]
        live += await self._groups.members_to_restore()
        for page in split_pages(live, PAGE):
            yield page

    async def _compare(self, ids: Sequence[JobId]) -> list[Difference]:
        viewed = await self._lookout.find(ids)
        await self._scheduler.fold(await self._lookout.positions())
        known = await self._scheduler.knowledge(ids)
        unviewed = [
            job_id for job_id in ids if job_id not in viewed and known.get(job_id, _NOTHING).is_live
        ]
        submissions = await self._scheduler.submissions(unviewed)
        found = []
        for job_id in ids:
            if not self._scheduler.is_decidable(partition_of_job(job_id)):
                continue
            difference = await self._difference(
                job_id, known.get(job_id, _NOTHING), viewed.get(job_id), submissions
            )
            if difference is not None:
                found.append(difference)
        return found

    async def _difference(
        self,
        job_id: JobId,
        scheduler: Knowledge,
        viewed: ViewedJob | None,
        submissions: Mapping[JobId, ev.JobSubmitted],
    ) -> Difference | None:
        lookout = _NOTHING if viewed is None else viewed.knowledge
        if not scheduler.is_live and not lookout.is_live:
            return await self._compare_ended(job_id, scheduler, viewed)
        partition = partition_of_job(job_id)
        choice = repair_events.choose(
            scheduler,
            lookout,
            scheduler_complete=self._scheduler.is_complete(partition),
            lookout_complete=self._lookout.is_complete(partition),
            has_lease=job_id in self._scheduler.leased,
        )
        submitted = submissions.get(job_id) if viewed is None else viewed.submitted
        truth = {Choice.SCHEDULER: scheduler, Choice.LOOKOUT: lookout}.get(choice)
        if truth is not None and choice is Choice.LOOKOUT and scheduler.state is None:
            truth, submitted = await self._restorable(truth, submitted)
        if truth is None:
            choice, truth = Choice.END_UNKNOWN, repair_events.UNKNOWN_END
        events = _correct(job_id, scheduler, lookout, truth, submitted)
        job_set = self._scheduler.job_set(job_id)
        queue, name = (viewed.queue, viewed.job_set) if viewed is not None else job_set or ("", "")
        if not events:
            return None
        return Difference(job_id, queue, name, scheduler, lookout, truth, choice, events)

    async def _restorable(
        self, truth: Knowledge, submitted: ev.JobSubmitted | None
    ) -> tuple[Knowledge | None, ev.JobSubmitted | None]:
        """A job that can be restored in the scheduler, without dependencies that have succeeded.

        Returns None instead of the truth if the specification is lost, and a final state if a
        dependency cannot be met.
        """
        if submitted is None:
            return None, None
        viewed = await self._lookout.find(submitted.after)
        states = {job_id: job.knowledge.state for job_id, job in viewed.items()}
        states |= await self._lookout.find_array_results(submitted.after)
        known = await self._scheduler.knowledge(submitted.after)
        states |= {job_id: knowledge.state for job_id, knowledge in known.items()}
        waits: list[JobId] = []
        for other in submitted.after:
            state = states.get(other)
            if state is None or state in JOB_ENDED - {JobState.SUCCEEDED}:
                kind = "array" if is_array_id(other) else "job"
                how = "is no longer known" if state is None else f"ended {state.value}"
                why = f"{kind} {other}, which it waits for, {how}"
                return Knowledge(state=JobState.CANCELLED, reason=why), submitted
            if state is not JobState.SUCCEEDED:
                waits.append(other)
        return truth, msgspec.structs.replace(submitted, after=tuple(waits))

    async def _compare_ended(
        self, job_id: JobId, scheduler: Knowledge, viewed: ViewedJob | None
    ) -> Difference | None:
        """An ended job that live jobs or groups need: its end is appended again if the scheduler
        has none.
        """
        if scheduler.state is not None or viewed is None or viewed.submitted is None:
            return None
        submitted = msgspec.structs.replace(viewed.submitted, after=())
        truth = viewed.knowledge
        events = list(repair_events.make_events(job_id, _NOTHING, truth, submitted, every_run=True))
        return Difference(
            job_id,
            viewed.queue,
            viewed.job_set,
            scheduler,
            truth,
            truth,
            Choice.LOOKOUT,
            events,
        )


_NOTHING: Final = Knowledge()


def _correct(
    job_id: JobId,
    scheduler: Knowledge,
    lookout: Knowledge,
    truth: Knowledge,
    submitted: ev.JobSubmitted | None,
) -> list[ev.AnyEvent]:
    """The events that both views need, each once. A view without the job needs no end of it."""
    events: list[ev.AnyEvent] = []
    for known, every_run in ((scheduler, True), (lookout, False)):
        if known is truth or (known.state is None and truth.is_ended):
            continue
        if known.state is None and submitted is None:
            continue
        stated = repair_events.make_events(job_id, known, truth, submitted, every_run=every_run)
        events += [event for event in stated if event not in events]
    return events


def make_records(differences: Differences) -> list[Record]:
    """The records of all events. Groups are before their members; the events of a job are in order,
    in a message each."""
    records: list[Record] = []
    for group in differences.groups:
        records += ev.records(group.queue, group.job_set, end_advance.BY, group.events)
    waves: list[dict[tuple[str, str], list[ev.AnyEvent]]] = []
    for difference in differences.jobs:
        for number, event in enumerate(difference.events):
            if number == len(waves):
                waves.append({})
            job_set = (difference.queue, difference.job_set)
            waves[number].setdefault(job_set, []).append(event)
    for wave in waves:
        for (queue, name), events in wave.items():
            records += ev.records(queue, name, end_advance.BY, events)
    return records
