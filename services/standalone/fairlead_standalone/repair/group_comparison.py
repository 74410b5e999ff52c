"""Finds groups that differ between scheduler and lookout, and the events that correct them."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import msgspec

from fairlead_common.domain import repair_events
from fairlead_common.domain.ids import GroupId, JobId, partition_of_job
from fairlead_common.domain.records import events as ev
from fairlead_common.domain.repair_events import Choice, KnownGroup
from fairlead_lookout.service.recovery import Recovery as LookoutRecovery
from fairlead_scheduler.service.recovery import Recovery as SchedulerRecovery
from fairlead_standalone.repair.comparison_steps import compare_twice, describe_action, split_pages

PAGE: Final = 1_000


class GroupDifference(msgspec.Struct, frozen=True):
    """A group that differs between the views, its true state, and the events that restore it."""

    group: GroupId
    scheduler: KnownGroup | None
    lookout: KnownGroup | None
    truth: KnownGroup
    queue: str
    job_set: str
    choice: Choice
    events: list[ev.AnyEvent]

    @property
    def action(self) -> str:
        """What the repair does with the group, for people."""
        known = self.scheduler, self.lookout
        states = [None if group is None else group.state for group in known]
        return describe_action(self.choice, self.truth.state, *states)


class GroupComparison:
    """Compares the groups of the two views."""

    def __init__(self, scheduler: SchedulerRecovery, lookout: LookoutRecovery) -> None:
        self._scheduler = scheduler
        self._lookout = lookout

    async def run(self) -> list[GroupDifference]:
        """Every group that differs between the views."""
        return await compare_twice(
            self._candidates(), self._compare, lambda difference: difference.group, PAGE
        )

    async def members_to_restore(self) -> list[JobId]:
        """All members of live groups of lookout that the scheduler does not know, the ended ones
        too: otherwise the group would wait for them."""
        members: list[JobId] = []
        async for ids in self._lookout.live_groups():
            await self._scheduler.fold(await self._lookout.positions())
            known = await self._scheduler.find_groups(ids)
            found = await self._lookout.find_members(each for each in ids if each not in known)
            members += [job_id for some in found.values() for job_id in some]
        return members

    async def _candidates(self) -> AsyncIterator[Sequence[GroupId]]:
        """Groups that either view has as live."""
        async for ids in self._lookout.live_groups():
            yield ids
        for page in split_pages(self._scheduler.live_groups(), PAGE):
            yield page

    async def _compare(self, ids: Sequence[GroupId]) -> list[GroupDifference]:
        viewed = await self._lookout.find_groups(ids)
        await self._scheduler.fold(await self._lookout.positions())
        known = await self._scheduler.find_groups(ids)
        first_members = await self._find_first_members(each for each in viewed if each not in known)
        found = []
        for group in ids:
            scheduler, lookout = known.get(group), viewed.get(group)
            partition = partition_of_job(JobId(group))
            if not self._scheduler.is_decidable(partition) or not _is_live(scheduler, lookout):
                continue
            choice = repair_events.choose_for_group(
                scheduler,
                lookout,
                scheduler_complete=self._scheduler.is_complete(partition),
                lookout_complete=self._lookout.is_complete(partition),
            )
            if scheduler is None and group not in first_members:
                choice = Choice.END_UNKNOWN
            truth = {Choice.SCHEDULER: scheduler, Choice.LOOKOUT: lookout}.get(choice)
            if truth is None:
                choice, truth = Choice.END_UNKNOWN, repair_events.UNKNOWN_GROUP_END
            events = _correct(group, scheduler, lookout, truth, first_members.get(group))
            live = lookout if scheduler is None or scheduler.is_ended else scheduler
            assert live is not None, "a view has the group as live"
            if events:
                difference = GroupDifference(
                    group=group,
                    scheduler=scheduler,
                    lookout=lookout,
                    truth=truth,
                    queue=live.queue,
                    job_set=live.job_set,
                    choice=choice,
                    events=events,
                )
                found.append(difference)
        return found

    async def _find_first_members(self, ids: Iterable[GroupId]) -> dict[GroupId, ev.JobSubmitted]:
        """The submission of a live member of each of these groups of lookout that has one."""
        members = await self._lookout.find_members(ids)
        jobs = await self._lookout.find([job_id for some in members.values() for job_id in some])
        found: dict[GroupId, ev.JobSubmitted] = {}
        for group, ids_of_group in members.items():
            for job_id in ids_of_group:
                job = jobs.get(job_id)
                if job is not None and job.knowledge.is_live and job.submitted is not None:
                    found[group] = job.submitted
                    break
        return found


def _is_live(scheduler: KnownGroup | None, lookout: KnownGroup | None) -> bool:
    """Whether any of the views has the group as live."""
    return any(known is not None and not known.is_ended for known in (scheduler, lookout))


def _correct(
    group: GroupId,
    scheduler: KnownGroup | None,
    lookout: KnownGroup | None,
    truth: KnownGroup,
    first_member: ev.JobSubmitted | None,
) -> list[ev.AnyEvent]:
    """The events that both views need, each once. Lookout takes a `GroupSubmitted` that a known
    member follows as a repeated request, so it does not show that event again."""
    events: list[ev.AnyEvent] = []
    for known in (scheduler, lookout):
        if known is truth:
            continue
        for event in repair_events.make_group_events(group, known, truth):
            if event in events:
                continue
            events.append(event)
            if isinstance(event, ev.GroupSubmitted) and first_member is not None:
                events.append(first_member)
    return events
